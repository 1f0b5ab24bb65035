//! `config explain`: what a run with the same flags would have, without one. Nothing is opened but the user's own files.

use countersign_config::{Setting, Source, UserConfig};
use countersign_types::Trust;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{Format, RunArgs};
use crate::refusal::Refusal;
use crate::result::RunResult;
use crate::run::Wish;
use crate::run::checks;
use crate::run::model;
use crate::run::settings::{self, Settled};
use crate::{exit, render, terminal, text};

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
    let format = args.common.format;
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
    let Settled { file, resolved, keys, .. } = settings::settle(&wish)?;
    let commands = checks::parse(&wish, resolved.check_timeout.value)?;
    checks::globs(&wish)?;
    let (endpoint, key) = model::told(&resolved, &keys)?;
    let all = Rows { file: &file };
    let preset = &resolved.preset;
    let named = args.common.agent.preset.map_or(Source::Default, |_| Source::Flag("--preset"));
    let fixed =
        |name, pointer, value: Value| all.row(name, Some(pointer), &Setting::new(value, Source::Preset));
    let flag = |name, pointer, flag: &'static str, given: bool, value: Value| {
        let source = if given { Source::Flag(flag) } else { Source::Default };
        all.row(name, Some(pointer), &Setting::new(value, source))
    };
    let sandbox = resolved.sandbox.unwrap_or(Setting::new(countersign_types::Tier::Native, Source::Default));
    let checks = json!(commands.checks);
    let reviewer = wish.reviewer();
    let settings = vec![
        all.row("preset", Some("/preset/name"), &Setting::new(json!(preset.name), named)),
        all.row("preset_digest", Some("/preset/digest"), &Setting::new(json!(preset.digest()), named)),
        all.row("canonical", Some("/preset/canonical"), &Setting::new(json!(resolved.canonical), named)),
        all.row("trust", Some("/trust"), &resolved.trust.map(|trust| json!(trust))),
        all.row("floor", Some("/floor"), &resolved.trust.map(|trust| json!(trust.floor()))),
        all.maybe("model", Some("/model/reference"), resolved.model.as_ref()),
        all.row("base_url", Some("/model/endpoint"), &endpoint.map(Value::from)),
        key.map(|source| Row { source, ..all.row("api_key", None, &unsaid()) })
            .unwrap_or_else(|| all.row("api_key", None, &unsaid())),
        all.row("sandbox", Some("/sandbox"), &sandbox.map(|tier| json!(tier))),
        all.row("network", Some("/network"), &resolved.network.map(|network| json!(network))),
        all.row("max_turns", Some("/limits/turns"), &resolved.max_turns.map(Value::from)),
        all.maybe("max_tokens", Some("/limits/tokens"), resolved.max_tokens.as_ref()),
        all.maybe("max_cost", Some("/limits/cost"), resolved.max_cost.as_ref()),
        all.row("deadline", Some("/limits/deadline"), &resolved.deadline.map(|time| json!(time))),
        all.row("check_timeout", None, &resolved.check_timeout.map(|time| json!(time))),
        all.row(
            "command_timeout",
            Some("/limits/command_timeout"),
            &resolved.command_timeout.map(|t| json!(t)),
        ),
        all.row("attempts", Some("/attempts"), &resolved.attempts.map(Value::from)),
        fixed("tool_actions", "/limits/tool_actions", json!(resolved.tool_actions)),
        fixed("output_bytes", "/limits/output_bytes", json!(resolved.output.as_u64())),
        fixed("max_output_tokens", "/model/max_output_tokens", json!(resolved.max_output_tokens)),
        fixed("model_retries", "/limits/model_retries", json!(resolved.model_retries)),
        flag("checks", "/checks", "--check", !commands.checks.is_empty(), checks),
        flag("setup", "/environment/setup", "--setup", wish.setup.is_some(), json!(commands.setup)),
        flag("probe", "/environment/probe", "--probe", wish.probe.is_some(), json!(commands.probe)),
        flag("scope", "/scope", "--scope", !wish.scope.is_empty(), json!(commands.scope)),
        flag("protect", "/protect", "--protect", !wish.protect.is_empty(), json!(commands.protect)),
        flag("deps", "/deps", "--deps", wish.deps.is_some(), json!(commands.deps)),
        flag("mutants", "/mutants", "--mutants", wish.mutants > 0, json!(wish.mutants)),
        flag(
            "min_strength",
            "/min_strength",
            "--min-strength",
            wish.min_strength.is_some(),
            json!(wish.min_strength),
        ),
        flag(
            "require_verified",
            "/require_verified",
            "--require",
            wish.require_verified,
            json!(wish.require_verified),
        ),
        flag(
            "review_model",
            "/review/model/reference",
            "--review-model",
            reviewer.is_some(),
            json!(reviewer),
        ),
        all.row(
            "repository_instructions",
            Some("/repository_instructions"),
            &Setting::new(json!(resolved.trust.value != Trust::Untrusted), resolved.trust.source),
        ),
        all.row("toolchains", None, &listed(json!(file.toolchains), file.toolchains.is_empty())),
        all.row("caches", None, &listed(json!(paths(&file)), file.caches.is_empty())),
    ];
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

const fn unsaid() -> Setting<Value> {
    Setting::new(Value::Null, Source::Default)
}

fn listed(value: Value, empty: bool) -> Setting<Value> {
    Setting::new(value, if empty { Source::Default } else { Source::UserFile })
}

fn paths(file: &UserConfig) -> Vec<String> {
    file.caches.iter().map(|cache| format!("{} as {}", cache.host.display(), cache.cell.display())).collect()
}

/// Makes rows that know the configuration file.
#[derive(Clone, Copy)]
struct Rows<'a> {
    file: &'a UserConfig,
}

impl Rows<'_> {
    fn row(self, name: &'static str, contract: Option<&'static str>, setting: &Setting<Value>) -> Row {
        let moved_by = match setting.source {
            Source::Floor(trust) => Some(trust),
            _ => None,
        };
        let moved_from = moved_by.and_then(|_| match name {
            "sandbox" => self.file.sandbox.map(|tier| tier.to_string()),
            "network" => self.file.network.map(|network| network.to_string()),
            _ => None,
        });
        let key = if name == "floor" { "trust" } else { name };
        let from_file = setting.source == Source::UserFile || moved_from.is_some();
        Row {
            name,
            value: setting.value.clone(),
            contract,
            source: setting.source.to_string(),
            line: if from_file { self.file.line(key) } else { None },
            moved_by,
            moved_from,
        }
    }

    fn maybe<T: Serialize>(
        self,
        name: &'static str,
        contract: Option<&'static str>,
        setting: Option<&Setting<T>>,
    ) -> Row {
        let setting = setting.map(|setting| Setting::new(json!(setting.value), setting.source));
        self.row(name, contract, &setting.unwrap_or_else(unsaid))
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
