//! `profile check`: does a profile hold together, and what does it show on a project's base? Nothing of it is kept: a trial has
//! a home of its own.

use std::path::Path;

use countersign_engine::BaseRunView;
use countersign_gates::profile::{Profile, ProfileFiles};
use countersign_types::{Digest, Reason};
use serde::Serialize;

use super::store::{self, ProfileStore};
use super::{out_json, pinned, unusable};
use crate::args::{ProfileCheckArgs, TextOrJson};
use crate::home::Home;
use crate::refusal::Refusal;
use crate::{exit, files, run, terminal, text};

/// What was found.
#[derive(Debug, Serialize)]
struct Report {
    name: String,
    digest: Digest,
    /// What each check showed on the base. None: no project was named.
    base: Option<Vec<BaseRunView>>,
    /// Why the profile cannot judge this project. None: it can.
    problem: Option<String>,
}

pub(super) fn check(args: &ProfileCheckArgs) -> Result<u8, Refusal> {
    let (files, profile) = match read(&args.profile)? {
        Ok(read) => read,
        Err(problem) => {
            match args.format {
                TextOrJson::Json => out_json(&serde_json::json!({ "problem": problem }))?,
                TextOrJson::Text => terminal::out_line(&text::safe(&problem)),
            }
            return Ok(exit::NEGATIVE);
        }
    };
    let tried = args.project.repo.is_some() || args.project.base.is_some();
    let (base, problem) = if tried {
        let (base, problem) = on_base(args, &files, &profile)?;
        (Some(base), problem)
    } else {
        (None, None)
    };
    let report = Report { name: profile.terms.name.clone(), digest: profile.digest, base, problem };
    match args.format {
        TextOrJson::Json => out_json(&report)?,
        TextOrJson::Text => {
            terminal::out_bytes(text::safe(&for_people(&report, &profile)).as_bytes());
            if !tried {
                terminal::err_line("the profile holds together; --repo DIR tries it on a project's base");
            }
        }
    }
    Ok(if report.problem.is_some() { exit::NEGATIVE } else { exit::DONE })
}

/// A directory, or a registered profile. The inner `Err`: it is there and does not hold together.
fn read(named: &str) -> Result<Result<(ProfileFiles, Profile), String>, Refusal> {
    let dir = Path::new(named);
    if !named.contains('/') && !files::exists(dir) {
        let (pinned, profile) = pinned(named)?;
        let files = countersign_engine::Profiles::read(&super::store()?, &pinned).map_err(unusable)?;
        return Ok(Ok((files, profile)));
    }
    if !dir.is_dir() {
        return Err(unusable(format!(
            "{named} is no directory: name a profile's directory or a registered profile"
        )));
    }
    Ok(store::read_dir(dir).and_then(|files| {
        let profile = Profile::read(&files).map_err(|error| format!("{named}: {error}"))?;
        Ok((files, profile))
    }))
}

fn on_base(
    args: &ProfileCheckArgs,
    files: &ProfileFiles,
    profile: &Profile,
) -> Result<(Vec<BaseRunView>, Option<String>), Refusal> {
    let temp = tempfile::Builder::new()
        .prefix("countersign-profile-")
        .tempdir()
        .map_err(|error| Refusal::new(Reason::Config, format!("no temporary directory: {error}")))?;
    let store = ProfileStore::new(temp.path());
    store.register(files, &profile.terms.name).map_err(unusable)?;
    let result = run::try_profile(&args.project, &profile.terms.name, temp.path())?;
    let home = Home::open_at(temp.path())?;
    let Some(id) = &result.session else { return Ok((Vec::new(), result.error.map(|error| error.message))) };
    let base =
        run::runtime()?.block_on(countersign_engine::base_runs(home.store.as_ref(), id)).unwrap_or_default();
    let problem = result.error.map(|error| error.message);
    let whole = base.len() == profile.checks.len();
    Ok((base, problem.or_else(|| (!whole).then(|| "the checks were not all run on the base".to_owned()))))
}

fn for_people(report: &Report, profile: &Profile) -> String {
    let mut out = format!("{}@{}\n", report.name, report.digest);
    for run in report.base.iter().flatten() {
        let check = usize::try_from(run.check).ok().and_then(|index| profile.checks.get(index));
        let command = check.map(|check| text::command(&check.argv)).unwrap_or_default();
        out.push_str(&format!("  {command}\n    {}\n", text::one_line(&run.detail, 400)));
        if let (Some(failed), Some(passed)) = (run.failed, run.passed) {
            out.push_str(&format!("    {failed} tests fail and {passed} pass by name\n"));
        } else {
            out.push_str("    its tests are not known by name\n");
        }
        if let (Some(right), Some(held_out)) = (run.held_out_right, check.and_then(|c| c.held_out.as_ref())) {
            let problem = run.held_out_problem.as_ref().map_or_else(String::new, |what| format!(" ({what})"));
            out.push_str(&format!(
                "    {right} of {} held-out inputs are answered right{problem}\n",
                held_out.cases
            ));
        }
    }
    if let Some(problem) = &report.problem {
        out.push_str(&format!("  PROBLEM: {problem}\n"));
    }
    out
}
