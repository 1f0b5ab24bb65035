//! `run` and `ask`, from flags to a result. The order is a promise: nothing of the repository is opened before the
//! trust level is known, and nothing is recorded as begun before everything that can be refused was looked at.

mod checks;
mod contract;
mod explain;
mod layers;
pub(crate) mod model;
pub(crate) mod repository;
pub(crate) mod session;
mod settings;
mod starting;
mod task;
pub(crate) mod work;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use countersign_config::{CODING, Preset, QUESTION};
use countersign_engine::Clock as _;
use countersign_engine::Ids as _;
use countersign_kernel::contract::{Allowance, Contract};
use countersign_tree::Manifest;
use countersign_types::{GateKey, Reason, SessionId, StrengthLevel, Tier};

use crate::args::{
    self, AskArgs, AtEnd, CommonArgs, Expect, Format, JudgeArgs, ProjectArgs, ReviewArgs, RunArgs, TaskArgs,
    TermsArgs, WorkArgs,
};
use crate::home::Home;
use crate::ports::{MachineClock, MachineIds, session_id};
use crate::profile::ProfileStore;
use crate::refusal::Refusal;
use crate::result::{self, RunResult};
use crate::run::checks::Commands;
use crate::run::model::Model;
use crate::run::session::Prepared;
use crate::signals::Signals;
use crate::{apply, render, report, terminal};

pub(crate) use self::settings::user_file;

/// What a command line asks for, `run` and `ask` in one shape.
#[derive(Clone, Debug)]
pub(crate) struct Wish<'a> {
    pub(crate) preset: &'static Preset,
    /// The command's own preset.
    pub(crate) usual: &'static Preset,
    pub(crate) what: &'a TaskArgs,
    pub(crate) common: &'a CommonArgs,
    pub(crate) check: &'a [String],
    pub(crate) check_argv: &'a [String],
    /// A registered profile, by what a person typed.
    pub(crate) profile: Option<&'a str>,
    pub(crate) expect: Option<Expect>,
    pub(crate) check_timeout: Option<countersign_types::Millis>,
    pub(crate) repeats: Option<u32>,
    pub(crate) deps: Option<args::Deps>,
    pub(crate) attempts: Option<u32>,
    pub(crate) no_check: bool,
    pub(crate) scope: &'a [String],
    pub(crate) protect: &'a [String],
    pub(crate) allow: &'a [Allowance],
    pub(crate) no_fence: bool,
    pub(crate) out_of_process: bool,
    pub(crate) setup: Option<&'a str>,
    pub(crate) probe: Option<&'a str>,
    pub(crate) require_verified: bool,
    pub(crate) min_strength: Option<StrengthLevel>,
    pub(crate) mutants: u32,
    pub(crate) review: Option<&'a ReviewArgs>,
    pub(crate) repro_first: bool,
    pub(crate) at_end: AtEnd,
    /// Finished work that is judged; nobody works on it then.
    pub(crate) work: Option<&'a WorkArgs>,
    /// The contract that a judgement is repeated from; it says how the work is judged, in place of flags.
    pub(crate) terms: Option<&'a Contract>,
    /// An empty directory in place of what earlier runs remembered: everything is looked at anew.
    pub(crate) anew: Option<&'a std::path::Path>,
}

impl<'a> Wish<'a> {
    pub(crate) fn run(args: &'a RunArgs) -> Self {
        Self { at_end: args.at_end, ..Self::terms(&args.what, &args.terms) }
    }

    /// A task for an agent, and the terms that it works under.
    pub(crate) fn terms(what: &'a TaskArgs, terms: &'a TermsArgs) -> Self {
        Self {
            attempts: terms.attempts,
            no_check: terms.no_check,
            review: Some(&terms.review),
            repro_first: terms.repro_first,
            ..Self::judging(&CODING, what, &terms.common, &terms.judge)
        }
    }

    /// Work that is judged as `judge` says.
    pub(crate) fn judging(
        preset: &'static Preset,
        what: &'a TaskArgs,
        common: &'a CommonArgs,
        judge: &'a JudgeArgs,
    ) -> Self {
        Self {
            preset: common.agent.preset.unwrap_or(preset),
            usual: preset,
            what,
            common,
            check: &judge.check,
            check_argv: &judge.check_argv,
            profile: judge.profile.as_deref(),
            expect: judge.expect,
            check_timeout: judge.check_timeout,
            repeats: judge.repeats,
            deps: judge.deps,
            attempts: None,
            no_check: false,
            scope: &judge.scope,
            protect: &judge.protect,
            allow: &judge.allow,
            no_fence: judge.no_fence,
            out_of_process: judge.out_of_process,
            setup: judge.setup.as_deref(),
            probe: judge.probe.as_deref(),
            require_verified: judge.require.is_some(),
            min_strength: judge.min_strength,
            mutants: judge.mutants,
            review: None,
            repro_first: false,
            at_end: AtEnd::Keep,
            work: None,
            terms: None,
            anew: None,
        }
    }

    fn ask(args: &'a AskArgs) -> Self {
        Self {
            no_check: true,
            require_verified: args.require.is_some(),
            min_strength: args.min_strength,
            ..Self::with(&QUESTION, &args.what, &args.common)
        }
    }

    /// Nothing but a place and a preset.
    fn with(preset: &'static Preset, what: &'a TaskArgs, common: &'a CommonArgs) -> Self {
        Self {
            preset: common.agent.preset.unwrap_or(preset),
            usual: preset,
            what,
            common,
            check: &[],
            check_argv: &[],
            profile: None,
            expect: None,
            check_timeout: None,
            repeats: None,
            deps: None,
            attempts: None,
            no_check: false,
            scope: &[],
            protect: &[],
            allow: &[],
            no_fence: false,
            out_of_process: false,
            setup: None,
            probe: None,
            require_verified: false,
            min_strength: None,
            mutants: 0,
            review: None,
            repro_first: false,
            at_end: AtEnd::Keep,
            work: None,
            terms: None,
            anew: None,
        }
    }

    /// The reviewer, as it was named.
    pub(crate) fn reviewer(&self) -> Option<&'a str> {
        self.review.and_then(|review| review.review_model.as_deref())
    }

    /// The gates that this wish arms, for the result of a run that is refused.
    fn armed(&self) -> Vec<GateKey> {
        let checked = !self.check.is_empty()
            || !self.check_argv.is_empty()
            || self.profile.is_some()
            || self.terms.is_some();
        let mut armed = result::armed(checked, !self.scope.is_empty(), !self.protect.is_empty());
        armed.retain(|key| self.work.is_none() || *key != GateKey::Answer);
        armed.retain(|key| !self.no_fence || *key != GateKey::Fence);
        if checked && self.repro_first {
            armed.push(GateKey::Repro);
        }
        if checked && self.reviewer().is_some() {
            armed.push(GateKey::Review);
        }
        armed
    }
}

pub(crate) use explain::explain;

pub(crate) fn run(args: &RunArgs) -> u8 {
    let result = told(&Wish::run(args), args.terms.common.format);
    apply::at_end(args.at_end, &result);
    result.code()
}

pub(crate) fn ask(args: &AskArgs) -> u8 {
    command(&Wish::ask(args), args.common.format)
}

pub(crate) fn command(wish: &Wish<'_>, format: Format) -> u8 {
    told(wish, format).code()
}

/// Runs one turn, and prints its result.
fn told(wish: &Wish<'_>, format: Format) -> RunResult {
    let mut result = execute(wish, None);
    if let Some(path) = &wish.common.report {
        report::write(path, &mut result);
    }
    render::result(format, &result);
    result
}

/// What is known of a run while it is set up, for the record of one that is refused.
#[derive(Debug, Default)]
struct Known {
    task: Option<String>,
    /// Where the project would be; nobody looked whether it is there.
    repository: Option<String>,
    home: Option<Home>,
    /// A bundle is to be signed at the end.
    signs: bool,
}

/// Runs one turn to its result. `home` replaces the user's.
pub(crate) fn execute(wish: &Wish<'_>, home: Option<PathBuf>) -> RunResult {
    // Stamped before anything can be refused, so that a refusal has a name too.
    let id = session_id(MachineClock.now(), MachineIds.bytes());
    let armed = wish.armed();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(refusal) => return RunResult::refused(Some(id), None, &armed, &refusal),
    };
    let early = {
        let (id, format, armed) = (id.clone(), wish.common.format, armed.clone());
        move || canceled_early(&id, format, &armed)
    };
    let listening = {
        let _guard = runtime.enter();
        Signals::listen(early)
    };
    let signals = match listening {
        Ok(signals) => signals,
        Err(error) => {
            let refusal = Refusal::new(Reason::CellDied, format!("signals cannot be listened to: {error}"));
            return RunResult::refused(Some(id), None, &armed, &refusal);
        }
    };
    let repository = repository::meant(wish.common.repo.as_deref());
    let mut known = Known { task: wish.what.typed().map(str::to_owned), repository, home: None, signs: true };
    let prepared = prepare(wish, &id, home, &mut known, &signals, &runtime);
    let result = match prepared {
        Ok(prepared) => {
            signals.begin();
            let recorded = prepared.model.recorded.clone();
            let mut result = runtime.block_on(session::begin(prepared));
            if let Some(recorded) = recorded {
                finish(&recorded, wish.common.trace, &mut result);
            }
            result
        }
        Err(refusal) => {
            let task = known.task.as_deref().map(str::as_bytes);
            let mut result = RunResult::refused(Some(id.clone()), task, &armed, &refusal);
            record(&runtime, &id, &known, &refusal, &mut result);
            result
        }
    };
    signals.end();
    // Readers of standard input or of a slow disk may still be at work on threads of their own; nobody waits for them.
    runtime.shutdown_background();
    result
}

/// Puts the recording in its place. A failure changes no outcome and is said.
fn finish(recorded: &model::Recorded, trace: args::TraceMode, result: &mut RunResult) {
    match recorded.finish() {
        Ok(note) => crate::trace::note(trace, &note),
        Err(what) => {
            terminal::err_line(&format!("warning: {what}"));
            result.degraded.push(what);
        }
    }
}

/// One thread beside the main one: signals are heard while the main thread works.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Refusal> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Refusal::new(Reason::CellDied, format!("no threads can be started: {error}")))
}

fn canceled_early(id: &SessionId, format: Format, armed: &[GateKey]) -> u8 {
    let refusal =
        Refusal::new(Reason::Signal, "stopped by a signal before the agent started; nothing was done");
    let result = RunResult::refused(Some(id.clone()), None, armed, &refusal);
    render::result(format, &result);
    result.code()
}

/// Everything that can refuse a run, in its order.
fn prepare(
    wish: &Wish<'_>,
    id: &SessionId,
    home_path: Option<PathBuf>,
    known: &mut Known,
    signals: &Arc<Signals>,
    runtime: &tokio::runtime::Runtime,
) -> Result<Prepared, Refusal> {
    apply::can_ask(wish.at_end)?;
    if let Some(path) = &wish.common.report {
        report::writable(path)?;
    }
    let settings::Settled { file, resolved, keys, tape } = settings::settle(wish)?;
    let task = match wish.work {
        Some(work) => work::named(work),
        None => task::read(wish.what)?,
    };
    known.task = Some(task.clone());
    if known.signs {
        crate::evidence::can_sign()?;
    }
    let mut commands = checks::parse(wish, resolved.check_timeout.value)?;
    checks::globs(wish)?;
    if let Some(contract) = wish.terms {
        commands.repeat(contract, wish.check_timeout)?;
    }
    // Where nobody names a check, the project's own files may: only then is it looked at before a model is chosen.
    let scouting = commands.checks.is_empty() && !wish.no_check && wish.profile.is_none();
    let choose = || model::choose(wish, &resolved, &keys, tape.as_ref());
    let model = if scouting { model::nobody() } else { choose()? };
    let mut home = match home_path {
        Some(path) => Home::open_at(&path)?,
        None => Home::open()?,
    };
    if let Some(dir) = wish.anew {
        home.forget(dir)?;
    }
    known.home = Some(home.clone());
    if let Some(named) = wish.profile {
        commands.take_over(&ProfileStore::new(home.root()), named)?;
    }
    if let Some(pinned) = wish.terms.and_then(|contract| contract.profile.as_ref()) {
        commands.same_profile(&ProfileStore::new(home.root()), pinned)?;
    }
    let tiers = runtime.block_on(crate::tiers::choose(&resolved, !wish.no_check, &home))?;
    if commands.setup.is_some() && tiers.working.tier() == Tier::Host {
        // Rooms would have what it makes and the agent would not.
        return Err(Refusal::usage(
            "--setup needs a sandbox that can mount what it makes, and the host sandbox mounts nothing: leave \
             --setup out, or use --sandbox native (`countersign doctor` says what it needs)",
        ));
    }
    let mut place = repository::find(
        wish.common.repo.as_deref(),
        wish.common.base.as_deref(),
        wish.common.include_dirty,
    )?;
    let work = wish.work.map(|work| work::open(work, wish.common, &mut place, &home)).transpose()?;
    repository::apart(&place, home.root())?;
    model::apart(&wish.common.agent, &place)?;
    let layers = layers::find(&file, home.root(), tiers.working.tier())?;
    let (candidate, directory) = work.map(|work| (work.candidate, work.directory)).unzip();
    let build = |commands: &Commands, model: &Model| {
        let models = (model.terms.as_ref(), model.review.as_ref());
        let sandbox = tiers.working.tier();
        let contract = contract::build(wish, &resolved, commands, models, sandbox, &place.source, &layers);
        // Where the work is finished there is nobody to give a tool to.
        let tools = if candidate.is_some() { Vec::new() } else { contract.tools };
        Contract { candidate: candidate.clone(), tools, ..contract }
    };
    let mut notes = tiers.notes.clone();
    notes.extend(layers.notes.iter().cloned());
    notes.extend(keys.notes.iter().cloned());
    notes.extend(model::found_note(&resolved));
    let mut prepared = Prepared {
        id: id.clone(),
        contract: build(&commands, &model),
        task,
        model,
        home,
        cells: tiers.choice(),
        sources: place.sources.clone(),
        candidate: directory.flatten(),
        notes,
        degraded: tiers.degraded.clone(),
        format: wish.common.format,
        trace: wish.common.trace,
        signals: Arc::clone(signals),
        settings: Some(settings::listed(&resolved)),
    };
    if scouting {
        let found = runtime.block_on(session::scout(&prepared))?;
        prepared.notes.push(commands.begin_with(starting::choose(resolved.trust.value, found)?, wish));
        let model = choose()?;
        prepared.contract = build(&commands, &model);
        prepared.model = model;
    }
    if prepared.contract.reviews_itself() {
        prepared.notes.push("the reviewer is the agent's own model, which is no second opinion".to_owned());
    }
    Ok(prepared)
}

/// The keys that a session may need which goes on.
pub(crate) fn keys_again(contract: &Contract) -> Result<model::Keys, Refusal> {
    let models = contract.model.iter().chain(contract.review.iter().map(|review| &review.model));
    if models.into_iter().all(|terms| terms.endpoint.is_none()) {
        return Ok(model::Keys::inherited());
    }
    model::Keys::read(&repository::work_tree(&contract.source).unwrap_or_default())
}

/// A project's base as the work, which changes nothing: what is looked at is the base alone.
fn on_base<T>(project: &ProjectArgs, look: impl FnOnce(&Wish<'_>) -> T) -> Result<T, Refusal> {
    let dir = project.repo.clone().unwrap_or_else(|| PathBuf::from("."));
    let shown = dir.display().to_string();
    let root = std::path::absolute(&dir)
        .map_err(|error| error.to_string())
        .and_then(|dir| repository::root_of(&dir))
        .map_err(|what| Refusal::new(Reason::Repository, format!("{shown}: {what}")))?;
    let plain = root == repository::Root::Plain;
    if plain && project.base.is_some() {
        return Err(Refusal::usage(format!("--base names a commit, but {shown} is in no git repository")));
    }
    let base = (!plain).then(|| project.base.clone().unwrap_or_else(|| "HEAD".to_owned()));
    let work = WorkArgs { patch: None, tree: plain.then(|| dir.clone()), head: base.clone() };
    let what = TaskArgs { text: None, task: None, task_file: None };
    let common = crate::gate::judging(project, base);
    let wish =
        Wish { work: Some(&work), no_check: true, ..Wish::with(&countersign_config::GATE, &what, &common) };
    Ok(look(&wish))
}

/// What the project's own files say of how it is tested.
pub(crate) fn scout(project: &ProjectArgs) -> Result<Vec<countersign_engine::StartingCheck>, Refusal> {
    looking(project, |prepared, runtime| runtime.block_on(session::scout(prepared)))
}

/// The tree of a project's base, read in a cell, and its commit where it is one.
pub(crate) fn base_tree(project: &ProjectArgs) -> Result<(Arc<Manifest>, Option<String>), Refusal> {
    looking(project, |prepared, runtime| runtime.block_on(session::base_tree(prepared)))
}

/// A look at a project's base that leaves no session behind.
fn looking<T>(
    project: &ProjectArgs,
    look: impl FnOnce(&Prepared, &tokio::runtime::Runtime) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    on_base(project, |wish| prepared(wish, |prepared, runtime| look(&prepared, runtime)))?
}

/// Everything that a run begins with, for what does not drive. A signal ends the process.
pub(crate) fn prepared<T>(
    wish: &Wish<'_>,
    go: impl FnOnce(Prepared, &tokio::runtime::Runtime) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let runtime = runtime()?;
    let id = session_id(MachineClock.now(), MachineIds.bytes());
    let signals = {
        let _guard = runtime.enter();
        Signals::listen(|| crate::exit::UNWRITTEN)
    };
    let signals = signals
        .map_err(|error| Refusal::new(Reason::CellDied, format!("signals cannot be listened to: {error}")))?;
    let prepared = prepare(wish, &id, None, &mut Known::default(), &signals, &runtime)?;
    go(prepared, &runtime)
}

/// The checks of a profile on a project's base, in a home of its own.
pub(crate) fn try_profile(
    project: &ProjectArgs,
    profile: &str,
    home: &std::path::Path,
) -> Result<RunResult, Refusal> {
    on_base(project, |wish| {
        let wish = Wish { profile: Some(profile), no_check: false, ..wish.clone() };
        execute(&wish, Some(home.to_owned()))
    })
}

/// Leaves a line in the list, and a bundle, for a run that was refused, where there is a home to leave them in.
fn record(
    runtime: &tokio::runtime::Runtime,
    id: &SessionId,
    known: &Known,
    refusal: &Refusal,
    result: &mut RunResult,
) {
    let Some(reason) = refusal.reason else { return };
    let home = match &known.home {
        Some(home) => home.clone(),
        None => match Home::open() {
            Ok(home) => home,
            // The refusal itself is what people need to read; where the home is its cause, it says so.
            Err(_) => return,
        },
    };
    let task = known.task.as_deref().unwrap_or_default();
    let repository = known.repository.as_deref();
    let refused = session::refuse(&home, id, task, repository, reason, &refusal.message);
    match runtime.block_on(refused) {
        Ok(()) => runtime.block_on(crate::evidence::attach(&home, result)),
        Err(error) => {
            terminal::err_line(&format!("note: this run is missing in `countersign list`: {error}"))
        }
    }
}

/// A command line that makes no sense. One that was meant for an agent is recorded as a run.
pub(crate) fn refused_at_parse(argv: &[OsString], format: Format, refusal: &Refusal) -> u8 {
    let runs = argv.get(1).is_some_and(|word| word == "run" || word == "ask" || word == "gate");
    let id = runs.then(|| session_id(MachineClock.now(), MachineIds.bytes()));
    let mut result = RunResult::refused(id.clone(), None, &[], refusal);
    if let Some(id) = &id
        && let Ok(runtime) = runtime()
    {
        record(&runtime, id, &Known::default(), refusal, &mut result);
    }
    render::result(format, &result);
    refusal.exit_code()
}
