//! `config explain`: what a run with the same flags would have, without one. Nothing is opened but the user's own files.

use countersign_config::{Resolved, Setting, Source, UserConfig};
use countersign_kernel::contract::Source as From;
use countersign_types::{Tier, Trust};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{Format, RunArgs};
use crate::profile::ProfileStore;
use crate::refusal::Refusal;
use crate::result::RunResult;
use crate::run::Wish;
use crate::run::model;
use crate::run::settings::{self, Settled};
use crate::run::{checks, contract, layers};
use crate::{exit, home, render, terminal, text};

const EXPLAIN_SCHEMA: &str = "countersign.config/1";

#[derive(Debug, Serialize)]
struct Explained {
    schema: &'static str,
    settings: Vec<Row>,
    notes: Vec<String>,
}

/// One setting.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    /// As the contract of a run has it; null: not limited, nobody said, or not told (a key).
    value: Value,
    /// Where the value stands in the contract, as a JSON pointer (RFC 6901); null where it does not.
    contract: Option<&'static str>,
    source: String,
    /// The line of the configuration file, from 1.
    line: Option<usize>,
    /// The trust level whose floor moved the value, and what the configuration file had said.
    moved_by: Option<Trust>,
    moved_from: Option<String>,
}

pub(crate) fn explain(args: &RunArgs) -> u8 {
    let format = args.terms.common.format;
    match rows(args) {
        Ok(explained) => {
            show(format, &explained);
            exit::DONE
        }
        Err(refusal) => {
            render::result(format, &RunResult::refused(None, None, &[], &refusal));
            refusal.exit_code()
        }
    }
}

fn rows(args: &RunArgs) -> Result<Explained, Refusal> {
    let mut wish = Wish::run(args);
    if wish.preset.read_only {
        // The flags of `ask`.
        wish.usual = wish.preset;
        wish.no_check = true;
    }
    let Settled { file, resolved, keys, tape } = settings::settle(&wish)?;
    let mut commands = checks::parse(&wish, resolved.check_timeout.value)?;
    checks::globs(&wish)?;
    let models = model::told(&wish, &resolved, &keys, tape.as_ref())?;
    let root = home::path()?;
    if let Some(named) = wish.profile {
        commands.take_over(&ProfileStore::new(&root), named)?;
    }
    let sandbox = resolved.sandbox.unwrap_or(Setting::new(Tier::Native, Source::Default));
    let layers = layers::find(&file, &root, sandbox.value)?;
    // Where the base comes from is no setting: it is not looked at here, and not shown.
    let nowhere = From::Directory { path: String::new() };
    let (model, review) = (models.model.as_ref(), models.review.as_ref());
    let contract =
        contract::build(&wish, &resolved, &commands, (model, review), sandbox.value, &nowhere, &layers);
    let contract = serde_json::to_value(contract).map_err(|error| Refusal::bug(error.to_string()))?;
    let settings = settings(&wish, &resolved, &file, &models, &contract);
    let mut notes = keys.notes.clone();
    notes.extend(model::found_note(&resolved));
    if commands.checks.is_empty() && !wish.no_check && wish.profile.is_none() {
        notes.push("no check is named: a run looks for the project's own before it begins".to_owned());
    }
    if let Some(profile) = wish.profile {
        notes.push(format!("checks, environment and rules are those of the profile {profile}"));
    }
    Ok(Explained { schema: EXPLAIN_SCHEMA, settings, notes })
}

/// Each setting as the contract has it, and who said so.
fn settings(
    wish: &Wish<'_>,
    resolved: &Resolved,
    file: &UserConfig,
    models: &model::Told,
    contract: &Value,
) -> Vec<Row> {
    let all = Rows { file, contract };
    let named = wish.common.agent.preset.map_or(Source::Default, |_| Source::Flag("--preset"));
    let profiled = wish.profile.is_some();
    let flag = |name, pointer, flag: &'static str, given: bool| {
        let source = match (given, profiled && PROFILED.contains(&name)) {
            (true, _) => Source::Flag(flag),
            (false, true) => Source::Flag("--profile"),
            (false, false) => Source::Default,
        };
        all.row(name, pointer, source)
    };
    let of = |setting: Option<Source>| setting.unwrap_or(Source::Default);
    let reviewed = wish.review;
    let from_file = |empty: bool| if empty { Source::Default } else { Source::UserFile };
    let mut key = all.aside("api_key", Value::Null, Source::Default);
    if let Some(source) = &models.key {
        key.source.clone_from(source);
    }
    vec![
        all.row("preset", "/preset/name", named),
        all.row("preset_digest", "/preset/digest", named),
        all.row("canonical", "/preset/canonical", named),
        all.row("trust", "/trust", resolved.trust.source),
        all.row("floor", "/floor", resolved.trust.source),
        all.row("model", "/model/reference", of(resolved.model.as_ref().map(|model| model.source))),
        all.row("base_url", "/model/endpoint", models.endpoint),
        key,
        all.row("sandbox", "/sandbox", of(resolved.sandbox.as_ref().map(|tier| tier.source))),
        all.row("network", "/network", resolved.network.source),
        all.row("max_turns", "/limits/turns", resolved.max_turns.source),
        all.row("max_tokens", "/limits/tokens", of(resolved.max_tokens.as_ref().map(|limit| limit.source))),
        all.row("max_cost", "/limits/cost", of(resolved.max_cost.as_ref().map(|limit| limit.source))),
        all.row("deadline", "/limits/deadline", resolved.deadline.source),
        all.aside("check_timeout", json!(resolved.check_timeout.value), resolved.check_timeout.source),
        all.row("command_timeout", "/limits/command_timeout", resolved.command_timeout.source),
        all.row("attempts", "/attempts", resolved.attempts.source),
        all.row("tools", "/tools", Source::Preset),
        all.row("tool_actions", "/limits/tool_actions", Source::Preset),
        all.row("output_bytes", "/limits/output_bytes", Source::Preset),
        all.row("max_output_tokens", "/model/max_output_tokens", Source::Preset),
        all.row("model_retries", "/limits/model_retries", Source::Preset),
        flag("profile", "/profile", "--profile", profiled),
        flag("checks", "/checks", "--check", !wish.check.is_empty() || !wish.check_argv.is_empty()),
        flag("setup", "/environment/setup", "--setup", wish.setup.is_some()),
        flag("probe", "/environment/probe", "--probe", wish.probe.is_some()),
        flag("scope", "/scope", "--scope", !wish.scope.is_empty()),
        flag("protect", "/protect", "--protect", !wish.protect.is_empty()),
        flag("allow", "/allow", "--allow", !wish.allow.is_empty()),
        flag("unfenced", "/unfenced", "--no-fence", wish.no_fence),
        flag("deps", "/deps", "--deps", wish.deps.is_some()),
        flag("mutants", "/mutants", "--mutants", wish.mutants > 0),
        flag("min_strength", "/min_strength", "--min-strength", wish.min_strength.is_some()),
        flag("out_of_process", "/out_of_process", "--out-of-process", wish.out_of_process),
        flag("require_verified", "/require_verified", "--require", wish.require_verified),
        flag("repro_first", "/repro_first", "--repro-first", wish.repro_first),
        flag("review_model", "/review/model/reference", "--review-model", wish.reviewer().is_some()),
        flag(
            "review_base_url",
            "/review/model/endpoint",
            "--review-base-url",
            reviewed.is_some_and(|review| review.review_base_url.is_some()),
        ),
        flag(
            "review_rounds",
            "/review/rounds",
            "--review-rounds",
            reviewed.is_some_and(|review| review.review_rounds.is_some()),
        ),
        flag(
            "review_required",
            "/review/required",
            "--review-required",
            reviewed.is_some_and(|review| review.review_required),
        ),
        all.row("repository_instructions", "/repository_instructions", resolved.trust.source),
        all.row(
            "layers",
            "/environment/layers",
            from_file(file.toolchains.is_empty() && file.caches.is_empty()),
        ),
        all.row("path", "/environment/path", from_file(file.toolchains.is_empty())),
    ]
}

/// What a profile says where no flag does.
const PROFILED: &[&str] = &["checks", "setup", "probe", "scope", "protect", "allow", "deps"];

/// Makes rows that know the configuration file and the contract.
#[derive(Clone, Copy)]
struct Rows<'a> {
    file: &'a UserConfig,
    contract: &'a Value,
}

impl Rows<'_> {
    /// A setting that stands in the contract, unless nothing was said that it has a place for.
    fn row(self, name: &'static str, pointer: &'static str, source: Source) -> Row {
        let held = self.contract.pointer(pointer);
        let value = held.cloned().unwrap_or_default();
        Row { contract: held.map(|_| pointer), ..self.aside(name, value, source) }
    }

    /// One that does not.
    fn aside(self, name: &'static str, value: Value, source: Source) -> Row {
        let moved_by = match source {
            Source::Floor(trust) => Some(trust),
            _ => None,
        };
        let moved_from = moved_by.and_then(|_| match name {
            "sandbox" => self.file.sandbox.map(|tier| tier.to_string()),
            "network" => self.file.network.map(|network| network.to_string()),
            _ => None,
        });
        let key = match name {
            "floor" => "trust",
            "layers" | "path" => "toolchains",
            name => name,
        };
        let from_file = source == Source::UserFile || moved_from.is_some();
        Row {
            name,
            value,
            contract: None,
            source: source.to_string(),
            line: if from_file { self.file.line(key) } else { None },
            moved_by,
            moved_from,
        }
    }
}

fn show(format: Format, explained: &Explained) {
    if matches!(format, Format::Json | Format::Ndjson) {
        match serde_json::to_string(explained) {
            Ok(line) => terminal::out_line(&line),
            Err(error) => terminal::err_line(&format!("the settings cannot be written as JSON: {error}")),
        }
        return;
    }
    for row in &explained.settings {
        let value = match &row.value {
            Value::Array(layers) if row.name == "layers" => {
                shown_layers(layers).iter().for_each(|line| terminal::out_line(line));
                continue;
            }
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let line = row.line.map(|line| format!(", line {line}")).unwrap_or_default();
        let moved = row.moved_from.as_ref().map(|from| format!(" (said {from})")).unwrap_or_default();
        let value = text::one_line(&value, text::LINE / 2);
        terminal::out_line(&format!("{:<24} {value:<40} {}{line}{moved}", row.name, row.source));
    }
    for note in &explained.notes {
        terminal::err_line(&text::safe(&format!("note: {note}")));
    }
}

/// Toolchains and caches are the user's to check, each with its whole path.
fn shown_layers(layers: &[Value]) -> Vec<String> {
    let line = |layer: &Value| {
        let text = |field: &str| layer[field].as_str().unwrap_or_default();
        let at = if layer["source"] == layer["target"] {
            String::new()
        } else {
            format!(" at {}", text("target"))
        };
        text::safe(&format!("{:<24} {}{at}", text("kind"), text("source")))
    };
    layers.iter().map(line).collect()
}
