//! The command line as types. Help texts are generated from here.

mod agent;
mod config;
mod delivery;
mod evidence;
mod generated;
mod looking;
mod profile;
mod review;
mod tasks;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use countersign_config::Network;
use countersign_gates::rules;
use countersign_kernel::contract::Allowance;
use countersign_tree::GlobSet;
use countersign_types::{Millis, Money, SessionId, StrengthLevel, Tier, Trust};

pub(crate) use self::agent::AgentArgs;
pub(crate) use self::config::ConfigCommand;
pub(crate) use self::delivery::{ApplyArgs, AtEnd, DiffArgs, ExportArgs};
pub(crate) use self::evidence::{KeyCommand, KeyTrustArgs, KeyUntrustArgs, ReplayArgs, VerifyArgs};
pub(crate) use self::generated::{CompletionsArgs, GenerateCommand, ManArgs};
pub(crate) use self::looking::{EventsArgs, GcArgs, ListArgs, ReportArgs, ShowArgs, WatchArgs};
pub(crate) use self::profile::{InitArgs, ProfileCheckArgs, ProfileCommand, ProfileNewArgs, ProjectArgs};
pub(crate) use crate::args::review::ReviewArgs;
#[cfg(test)]
pub(crate) use crate::args::tasks::TERMS;
pub(crate) use crate::args::tasks::{ApproveArgs, ControlArgs, RevokeArgs, StatusArgs, SubmitArgs};
use crate::crash::CrashAt;
use crate::refusal::Refusal;
use crate::{terminal, text};

#[derive(Debug, Parser)]
#[command(
    name = "countersign",
    version,
    about = "Runs coding agents and does not take their word for it",
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Die at this moment with exit code 75, for suites and demonstrations
    #[arg(long, global = true, hide = true, value_name = "POINT[:KIND][:N]")]
    pub(crate) crash_at: Option<CrashAt>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The first step in a project: find how it is tested, and write that down as a profile of your own
    Init(InitArgs),
    /// Let an agent do a task, and judge what it delivers
    Run(Box<RunArgs>),
    /// Judge finished work that anyone made: a branch, a patch or a directory. No model is called unless one reviews
    Gate(Box<GateArgs>),
    /// Ask a question about a project; nothing is changed
    Ask(Box<AskArgs>),
    /// Watch a false "done" being accepted without a check, refused with one, and a true fix accepted
    Demo(DemoArgs),
    /// Watch a run whose process dies at a moment of your choice come to the same end as one that nobody disturbs
    CrashDemo(CrashDemoArgs),
    /// Make, register and look at profiles: how a project is judged, pinned by digest
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Check the bundle of a turn offline: intact, by whom, and what it says
    Verify(Box<VerifyArgs>),
    /// Judge the work of a bundle again, here, and compare with what the bundle says
    ReplayCheck(Box<ReplayArgs>),
    /// Say what a run would be set to, and why
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Make, show and trust the keys that sign bundles
    #[command(subcommand)]
    Key(KeyCommand),
    /// List sessions, newest first
    List(ListArgs),
    /// Show a session's result and transcript
    Show(ShowArgs),
    /// Write a session's report in Markdown: outcome, gates, diff, cost, next step
    Report(ReportArgs),
    /// Follow a session as it goes, until it ends; nothing of it is touched
    Watch(WatchArgs),
    /// Show a session's journal
    Events(EventsArgs),
    /// Write a session's patch to standard output
    Diff(DiffArgs),
    /// Apply a session's patch to your work tree
    Apply(ApplyArgs),
    /// Put all that a reviewer needs of an ended session into a new directory
    Export(ExportArgs),
    /// Record a session with its contract and task, and print its id; nothing of it runs before it is approved and resumed
    Submit(Box<SubmitArgs>),
    /// Show what a submitted session would be granted, and grant it
    Approve(ApproveArgs),
    /// Go on with a session that was approved or parked, or whose process died
    Resume(ResumeArgs),
    /// Let a session rest: what is under way ends first, and `resume` goes on
    Pause(ControlArgs),
    /// End a session: what is under way is stopped, and no pass counts any more
    Cancel(ControlArgs),
    /// Take away what a session was granted; what is under way by it is stopped
    Revoke(RevokeArgs),
    /// Say where a session stands, what it waits for, and what to do next
    Status(StatusArgs),
    /// Remove what no session needs any more: working files of processes that died, and with --older-than old patches
    Gc(GcArgs),
    /// Say which sandboxes work here, and how to get the others
    Doctor(DoctorArgs),
    /// Write completions for a shell to standard output
    Completions(CompletionsArgs),
    /// What is made from the command line's types
    #[command(subcommand, hide = true)]
    Generate(GenerateCommand),
    /// Print the version
    Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// One JSON object
    Json,
    /// One JSON object for each event, the result last
    Ndjson,
    /// A report for a pull request; of `gate` only
    #[value(skip)]
    Markdown,
}

/// What `gate` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GateFormat {
    /// For people
    Text,
    /// One JSON object, the same as of `run`
    Json,
    /// One JSON object for each event, the result last
    Ndjson,
    /// A report for a pull request
    Markdown,
}

impl From<GateFormat> for Format {
    fn from(format: GateFormat) -> Self {
        match format {
            GateFormat::Text => Self::Text,
            GateFormat::Json => Self::Json,
            GateFormat::Ndjson => Self::Ndjson,
            GateFormat::Markdown => Self::Markdown,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShowFormat {
    Text,
    Json,
    /// The report, without the transcript
    #[value(alias = "md")]
    Markdown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrNdjson {
    Text,
    Ndjson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceMode {
    /// Each message of the model and each call with arguments and result, cut where they are long, with times
    Full,
    /// One line for each thing done, on standard error
    Compact,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Expect {
    /// Red before the change, green after it
    Fix,
    /// The change's own tests: red without the change's product, green with it
    New,
    /// Green before and after
    Guard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deps {
    /// The check is inconclusive
    Deny,
    /// Somebody has to decide
    Ask,
    /// With --setup it is run on the changed lockfile, in a cell of its own, for an environment whose digest stands in the
    /// result; without, the environment needs nothing of the lockfile or holds all that it names
    Fetch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Require {
    Verified,
}

/// The task: exactly one of three.
#[derive(Debug, Args)]
pub(crate) struct TaskArgs {
    /// The task; `-` reads it from standard input. Linux takes 128 KiB for one argument: --task-file takes 1 MiB
    #[arg(value_name = "TASK")]
    pub(crate) text: Option<String>,
    /// The same as a flag; `-` reads it from standard input
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    pub(crate) task: Option<String>,
    /// Read the task from this file
    #[arg(long, value_name = "FILE")]
    pub(crate) task_file: Option<PathBuf>,
}

impl TaskArgs {
    /// The task, where it stands on the command line itself.
    pub(crate) fn typed(&self) -> Option<&str> {
        self.text.as_deref().or(self.task.as_deref()).filter(|text| *text != "-")
    }
}

/// What `run` and `ask` have in common.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// How far repository and task are trusted: trusted-local, reviewed or untrusted. Required here or in your
    /// configuration file
    #[arg(long, value_name = "LEVEL")]
    pub(crate) trust: Option<Trust>,
    /// provider:model or scripted:FILE; providers: openai, anthropic, openrouter, xai, ollama, local [env:
    /// COUNTERSIGN_MODEL] [default: the default model of the only provider that there is a key for]
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Where the model's API lives
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Read the API key from this file instead of the provider's variable, such as OPENAI_API_KEY or ANTHROPIC_API_KEY
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
    /// The project: a git repository or a plain directory [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) repo: Option<PathBuf>,
    /// The commit to start from [default: HEAD]
    #[arg(long, value_name = "REV")]
    pub(crate) base: Option<String>,
    /// Start from the work tree as it is, changes that are not committed included
    #[arg(long)]
    pub(crate) include_dirty: bool,
    /// Where the agent works: host, native [default: native where it works]
    #[arg(long, value_name = "TIER")]
    pub(crate) sandbox: Option<Tier>,
    /// What the agent's commands can reach: none or host [default: none]
    #[arg(long)]
    pub(crate) network: Option<Network>,
    /// Model calls with what they asked for, at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// Input and output tokens together, at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// US dollars, at most; refused as long as no table of prices is built in: use --max-tokens
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<Money>,
    /// Active time until the agent has to end, for example 30m
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<Millis>,
    /// What is written to standard output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// What is written to standard error
    #[arg(long, value_enum, default_value_t = TraceMode::Compact)]
    pub(crate) trace: TraceMode,
    /// Write a report in Markdown into this file too, in place of what is in it
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Your configuration file [default: countersign/config.toml in the XDG configuration directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// How finished work is judged, whoever made it.
#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    /// A command that judges the result in a clean room, split into words; repeatable, all must pass
    #[arg(long, value_name = "CMD")]
    pub(crate) check: Vec<String>,
    /// The same as a JSON array of words
    #[arg(long, value_name = "JSON-ARRAY")]
    pub(crate) check_argv: Vec<String>,
    /// A registered profile that says how the work is judged, in place of --check: NAME or NAME@DIGEST
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// What the checks must show [default: fix]
    #[arg(long, value_enum)]
    pub(crate) expect: Option<Expect>,
    /// Time for one check, for example 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) check_timeout: Option<Millis>,
    /// How often each check is run, before and after; it must show the same every time [default: 1]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) repeats: Option<u32>,
    /// What a changed lockfile means for the environment, which was made from the old one [default: deny]
    #[arg(long, value_enum)]
    pub(crate) deps: Option<Deps>,
    /// What may be changed, as a glob from the root; repeatable [default: all but protected]
    #[arg(long, value_name = "GLOB")]
    pub(crate) scope: Vec<String>,
    /// What must not be changed, besides tests and their configuration; repeatable
    #[arg(long, value_name = "GLOB")]
    pub(crate) protect: Vec<String>,
    /// A rule of the fence that may be broken, everywhere or where a glob says; repeatable, each use makes a pass
    /// weaker. What the names protect: docs/fence.md
    #[arg(long, value_name = "RULE[:GLOB]", value_parser = allowance)]
    pub(crate) allow: Vec<Allowance>,
    /// Protect nothing: tests and what runs them may be changed, and a pass shows no more than that something was red
    #[arg(long)]
    pub(crate) no_fence: bool,
    /// Count no pass that was reported from within the process of the code under test, which could have forged it; held-out
    /// inputs of a profile are asked outside of it
    #[arg(long)]
    pub(crate) out_of_process: bool,
    /// Makes the environment, for example installs dependencies from a cache
    #[arg(long, value_name = "CMD")]
    pub(crate) setup: Option<String>,
    /// Exits 0 where the environment is whole
    #[arg(long, value_name = "CMD")]
    pub(crate) probe: Option<String>,
    /// Refuse to start unless the outcome can be `verified`
    #[arg(long, value_enum)]
    pub(crate) require: Option<Require>,
    /// After a pass, try the checks on this many small faults in the changed lines and list those that they do not notice
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=50))]
    pub(crate) mutants: u32,
    /// The weakest strength that counts: exit_code, red_before, ids, canary, held_out
    #[arg(long, value_name = "STRENGTH", value_parser = strength)]
    pub(crate) min_strength: Option<StrengthLevel>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) what: TaskArgs,
    #[command(flatten)]
    pub(crate) terms: TermsArgs,
    /// What becomes of the patch when it is over; the outcome stays what it is
    #[arg(long, value_enum, default_value_t = AtEnd::Keep)]
    pub(crate) at_end: AtEnd,
}

/// What a session's contract is made of: of `run` and `submit`.
#[derive(Debug, Args)]
pub(crate) struct TermsArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
    #[command(flatten)]
    pub(crate) review: ReviewArgs,
    /// The agent shows with a new test that fails before the change that there is something to mend, or says why not
    #[arg(long)]
    pub(crate) repro_first: bool,
    /// Claims that are judged before a red one is final [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempts: Option<u32>,
    /// Accept the agent's word: the outcome is `answered` and claims nothing
    #[arg(long)]
    pub(crate) no_check: bool,
}

/// The work: exactly one of three.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct WorkArgs {
    /// The work is this patch to the base, as `git diff --binary` writes it; `-` reads it from standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) patch: Option<PathBuf>,
    /// The work is this directory as it is on disk, tracked by git or not
    #[arg(long, value_name = "DIR")]
    pub(crate) tree: Option<PathBuf>,
    /// The work is this revision of the repository
    #[arg(long, value_name = "REV")]
    pub(crate) head: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GateArgs {
    #[command(flatten)]
    pub(crate) work: WorkArgs,
    /// How far repository and work are trusted: trusted-local, reviewed or untrusted. Required here or in your
    /// configuration file
    #[arg(long, value_name = "LEVEL")]
    pub(crate) trust: Option<Trust>,
    /// The project: a git repository or a plain directory [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) repo: Option<PathBuf>,
    /// The commit that the work began from; a plain directory has none
    #[arg(long, value_name = "REV")]
    pub(crate) base: Option<String>,
    #[command(flatten)]
    pub(crate) judge: JudgeArgs,
    #[command(flatten)]
    pub(crate) review: ReviewArgs,
    /// Where everything runs: native, which is the default and the weakest that may judge
    #[arg(long, value_name = "TIER")]
    pub(crate) sandbox: Option<Tier>,
    /// What the commands can reach: none or host [default: none]
    #[arg(long)]
    pub(crate) network: Option<Network>,
    /// What is written to standard output
    #[arg(long, value_enum, default_value_t = GateFormat::Text)]
    pub(crate) format: GateFormat,
    /// What is written to standard error
    #[arg(long, value_enum, default_value_t = TraceMode::Compact)]
    pub(crate) trace: TraceMode,
    /// Write a report in Markdown into this file too, in place of what is in it
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Your configuration file [default: countersign/config.toml in the XDG configuration directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(crate) what: TaskArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[arg(long, value_enum, hide = true)]
    pub(crate) require: Option<Require>,
    #[arg(long, value_parser = strength, hide = true)]
    pub(crate) min_strength: Option<StrengthLevel>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Leave everything in this new directory for a look
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct CrashDemoArgs {
    /// The moment at which the process dies: the Nth time (default: the first) that POINT is reached by an effect of KIND
    /// (default: any), such as `after-intent:run`
    #[arg(long, value_name = "POINT[:KIND][:N]", conflicts_with = "list")]
    pub(crate) at: Option<CrashAt>,
    /// Print the points, one a line
    #[arg(long)]
    pub(crate) list: bool,
    /// Leave everything in this new directory for a look
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[arg(value_name = "SESSION")]
    pub(crate) id: SessionId,
    /// Read the API key from this file instead of the vendor's variable
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Read the reviewer's API key from this file instead of the vendor's variable
    #[arg(long, value_name = "FILE")]
    pub(crate) review_api_key_file: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[arg(long, value_enum, default_value_t = TraceMode::Compact)]
    pub(crate) trace: TraceMode,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

/// `RULE` or `RULE:GLOB`.
fn allowance(text: &str) -> Result<Allowance, String> {
    let (rule, glob) = match text.split_once(':') {
        Some((rule, glob)) => (rule, Some(glob)),
        None => (text, None),
    };
    let names: Vec<&str> =
        rules::catalogue().iter().filter(|row| row.can_be_allowed).map(|row| row.name).collect();
    if !names.contains(&rule) {
        return Err(format!(
            "there is no rule of this name that can be allowed. The rules are: {}",
            names.join(", ")
        ));
    }
    if let Some(glob) = glob {
        GlobSet::new([glob]).map_err(|error| error.to_string())?;
    }
    Ok(Allowance { rule: rule.to_owned(), glob: glob.map(str::to_owned) })
}

fn strength(text: &str) -> Result<StrengthLevel, String> {
    StrengthLevel::ALL.iter().copied().find(|level| level.as_str() == text).ok_or_else(|| {
        let all: Vec<_> = StrengthLevel::ALL.iter().map(|level| level.as_str()).collect();
        format!("expected one of {}", all.join(", "))
    })
}

/// Reads the command line. `None`: help or version was asked for and printed.
pub(crate) fn parse(argv: &[OsString]) -> Result<Option<Cli>, Refusal> {
    match Cli::try_parse_from(argv) {
        Ok(cli) => Ok(Some(cli)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                terminal::out_bytes(error.render().to_string().as_bytes());
                Ok(None)
            }
            _ => Err(Refusal::usage(text::safe(
                error.render().to_string().trim_start_matches("error: ").trim_end(),
            ))),
        },
    }
}

/// The format that the command line asks for, also where the rest of it makes no sense.
pub(crate) fn format_of(argv: &[OsString]) -> Format {
    let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
    let words = &words[..words.iter().position(|word| word == "--").unwrap_or(words.len())];
    let named = |value: &str| match value {
        "json" => Some(Format::Json),
        "ndjson" => Some(Format::Ndjson),
        "markdown" if words.get(1).is_some_and(|word| word == "gate") => Some(Format::Markdown),
        _ => None,
    };
    let spaced = words.windows(2).filter(|pair| pair[0] == "--format").map(|pair| pair[1].as_ref());
    let joined = words.iter().filter_map(|word| word.strip_prefix("--format="));
    spaced.chain(joined).find_map(named).unwrap_or(Format::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn the_format_is_found_in_any_command_line() {
        let of = |line: &str| format_of(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of("countersign run --format json"), Format::Json);
        assert_eq!(of("countersign --bad run --format=ndjson x"), Format::Ndjson);
        assert_eq!(of("countersign run --format"), Format::Text);
        assert_eq!(of("countersign run --format xml"), Format::Text);
        assert_eq!(of("countersign gate --format markdown"), Format::Markdown);
        assert_eq!(of("countersign run --format markdown"), Format::Text);
        assert_eq!(of("countersign run -- --format json"), Format::Text);
    }
}
