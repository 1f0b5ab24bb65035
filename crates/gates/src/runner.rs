//! What a known runner's exit codes say, by its own documentation. Without a runner that is recognised, an exit code
//! that is not zero is red and its cause unknown.

use countersign_types::{JobEnd, LimitHit};

/// A test runner that was recognised by argv alone. A shell in front hides it: then it is [`Runner::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runner {
    /// `pytest`, `py.test`, `python -m pytest`.
    Pytest,
    /// `python -m unittest`.
    Unittest,
    /// `cargo nextest run`.
    Nextest,
    /// `cargo test`: 101 for a failed build as for a failed test.
    CargoTest,
    Other,
}

/// What the end of a run says about the tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Green,
    /// The runner's documented code for "tests ran and failed".
    TestsFailed,
    /// The runner's documented code for "nothing was collected".
    NoTests,
    /// pytest stopped before running tests: a collection error or an unloadable `conftest.py`. A missing dependency
    /// and a test that imports what the fix will add look the same.
    NotCollected(&'static str),
    /// The command was used wrongly, or the runner itself broke.
    RunnerBroke(&'static str),
    /// Not zero, and nothing says why.
    Red,
    /// The command could not do its work: not found, killed, out of time, memory or disk. Never red.
    NoAnswer(String),
}

impl Runner {
    /// Recognises a runner. Options of the interpreter that take no value (`-B`, `-I`, `-W…`) may stand before `-m`.
    #[must_use]
    pub fn of(argv: &[String]) -> Self {
        let Some((program, rest)) = argv.split_first() else { return Self::Other };
        match base_name(program) {
            "pytest" | "py.test" => Self::Pytest,
            "cargo" => Self::of_cargo(rest),
            "cargo-nextest" => Self::Nextest,
            name if is_python(name) => match python_module(rest) {
                Some("pytest") => Self::Pytest,
                Some("unittest") => Self::Unittest,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }

    fn of_cargo(args: &[String]) -> Self {
        match args.iter().find(|a| !a.starts_with('+') && !a.starts_with('-')).map(String::as_str) {
            Some("test" | "t") => Self::CargoTest,
            Some("nextest") => Self::Nextest,
            _ => Self::Other,
        }
    }

    pub(crate) fn meaning(self, end: &JobEnd) -> Meaning {
        match end {
            JobEnd::Exited { code } => self.meaning_of_code(*code),
            JobEnd::Signaled { signal } if CRASHES.contains(signal) => Meaning::Red,
            JobEnd::Signaled { signal } => Meaning::NoAnswer(format!("it was killed by signal {signal}")),
            JobEnd::Limit { which } => Meaning::NoAnswer(limit_text(*which).to_owned()),
            JobEnd::Canceled => Meaning::NoAnswer("it was canceled".to_owned()),
            JobEnd::NotStarted { errno: TOO_LONG, .. } => Meaning::NoAnswer(
                "it could not be started: its command line is too long, Linux takes 128 KiB for one argument: put it \
                 into a script of the repository"
                    .to_owned(),
            ),
            JobEnd::NotStarted { what, errno } => Meaning::NoAnswer(format!(
                "it could not be started: {} (errno {errno})",
                crate::feedback::line(what)
            )),
        }
    }

    fn meaning_of_code(self, code: i32) -> Meaning {
        match (self, code) {
            (_, 0) => Meaning::Green,
            (_, 126) => {
                Meaning::NoAnswer("exit code 126: a program was found and could not be executed".to_owned())
            }
            (_, 127) => Meaning::NoAnswer("exit code 127: a program was not found".to_owned()),
            // A shell's way to say SIGKILL; in a cell that is nearly always the memory limit.
            (_, 137) => Meaning::NoAnswer(
                "exit code 137: something was killed, most likely for its memory".to_owned(),
            ),
            (Self::Pytest, 1) | (Self::Nextest, 100) => Meaning::TestsFailed,
            (Self::Pytest | Self::Unittest, 5) | (Self::Nextest, 4) => Meaning::NoTests,
            (Self::Pytest, 2) => Meaning::NotCollected("pytest exit code 2: stopped while collecting tests"),
            (Self::Pytest, 4) => Meaning::NotCollected(
                "pytest exit code 4: wrong usage, a path that does not exist, or a conftest.py that fails",
            ),
            (Self::Pytest, 3) => Meaning::RunnerBroke("pytest exit code 3: an internal error of pytest"),
            (Self::Nextest, 96) => Meaning::RunnerBroke("nextest exit code 96: nextest's own set-up failed"),
            (Self::Nextest, 105) => Meaning::RunnerBroke("nextest exit code 105: a set-up script failed"),
            _ => Meaning::Red,
        }
    }
}

/// E2BIG of exec.
const TOO_LONG: i32 = 7;

/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV: the program's own fault, a real red. Others come from outside.
const CRASHES: &[i32] = &[4, 5, 6, 7, 8, 11];

fn limit_text(which: LimitHit) -> &'static str {
    match which {
        LimitHit::Timeout => "it ran into its time limit",
        LimitHit::Oom => "it ran out of memory",
        LimitHit::Pids => "it ran into the limit on processes",
        LimitHit::Output => "it wrote more output than allowed",
        LimitHit::Disk => "the disk was full",
    }
}

pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// `python`, `python3`, `python3.12`, `pypy3`.
pub(crate) fn is_python(name: &str) -> bool {
    ["python", "pypy"].iter().any(|stem| {
        name.strip_prefix(stem).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
    })
}

/// The module of `-m MODULE` or `-mMODULE`, when nothing but plain options stands before it.
pub(crate) fn python_module(args: &[String]) -> Option<&str> {
    module_position(args).map(|(module, _)| module)
}

/// The module and the position of the argument that ends with it.
pub(crate) fn module_position(args: &[String]) -> Option<(&str, usize)> {
    let mut args = args.iter().enumerate();
    while let Some((at, arg)) = args.next() {
        if arg == "-m" {
            return args.next().map(|(at, module)| (module.as_str(), at));
        }
        if let Some(module) = arg.strip_prefix("-m") {
            return Some((module, at));
        }
        match arg.as_str() {
            "-X" | "-W" => {
                args.next();
            }
            "-c" => return None,
            option if option.starts_with('-') && option.len() > 1 => {}
            _ => return None,
        }
    }
    None
}
