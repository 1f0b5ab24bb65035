//! What runs in a room: argv as the contract says, and an environment of which every variable is named here.

use std::collections::BTreeMap;

use countersign_kernel::contract::{CheckTerms, EnvironmentTerms, LayerKind};
use countersign_types::Millis;

use crate::adapters::{Adapter, Run, adapter_of};

/// Where a job of a cell sees its places. In a native cell `/workspace` and `/home/agent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellPaths {
    pub workspace: String,
    pub home: String,
}

/// `PATH` behind the environment's own entries. The system layer is `/usr`; nothing here can be written by a job.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables that every job of a cell or a room has, beside `HOME`, `PATH`, and what the contract names. Nothing is
/// inherited, so `PYTEST_ADDOPTS`, `RUSTFLAGS`, `NODE_OPTIONS`, `MAKEFLAGS`, `BASH_ENV`, `LD_PRELOAD` and the like are
/// absent because nobody puts them in (false greens 27, 55, 80).
const FIXED: &[(&str, &str)] = &[
    // A check reads the tree and the environment, never a registry; these turn a stray download into a quick error.
    ("CARGO_NET_OFFLINE", "true"),
    ("PIP_NO_INDEX", "1"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    // A byte-code cache would be a file of the tree that the check made: the judged entries are hashed again afterwards.
    ("PYTHONDONTWRITEBYTECODE", "1"),
    // The same order of sets in the base run and the final run.
    ("PYTHONHASHSEED", "0"),
    // A `site-packages` below HOME is nothing that the contract named.
    ("PYTHONNOUSERSITE", "1"),
    ("TZ", "UTC"),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    // No colours and no pagers in what people and the model read.
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// The environment of a job: fixed variables, then `HOME`, `PATH` and toolchain homes, then what the contract names.
/// The contract's own variables win over the fixed ones, never over `HOME`.
#[must_use]
pub fn job_env(environment: &EnvironmentTerms, paths: &CellPaths) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> =
        FIXED.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    for layer in environment.layers.iter().filter(|layer| layer.kind == LayerKind::Toolchain) {
        // A rustup home is read-only in a cell: rustup must find it and must not try to update it, and a
        // `rust-toolchain.toml` must not make it download another toolchain.
        if layer.target.ends_with("/.rustup") || layer.target.ends_with("/rustup") {
            env.insert("RUSTUP_HOME".to_owned(), layer.target.clone());
            env.insert("RUSTUP_AUTO_INSTALL".to_owned(), "0".to_owned());
        }
    }
    env.insert("PATH".to_owned(), path_variable(environment));
    env.insert("TMPDIR".to_owned(), "/tmp".to_owned());
    // cargo reads `.cargo/config.toml` from its home and from every ancestor of the working directory: the home is the
    // cell's own, the ancestors are `/` and the workspace.
    env.insert("CARGO_HOME".to_owned(), format!("{}/.cargo", paths.home));
    for (name, value) in &environment.env {
        env.insert(name.clone(), value.clone());
    }
    env.insert("HOME".to_owned(), paths.home.clone());
    env
}

fn path_variable(environment: &EnvironmentTerms) -> String {
    let mut path = String::new();
    for entry in environment.path.iter().filter(|entry| entry.starts_with('/')) {
        path.push_str(entry);
        path.push(':');
    }
    path.push_str(SYSTEM_PATH);
    path
}

/// One command of the contract, ready to be sent to any cell.
#[derive(Clone, Debug)]
pub struct CheckPlan {
    argv: Vec<String>,
    environment: EnvironmentTerms,
    wall: Millis,
    adapter: Option<&'static dyn Adapter>,
}

/// What a room is told to run. The engine adds the job's id, user and output bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomJob {
    pub argv: Vec<String>,
    pub cwd: String,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// Wall time from start to the kill of the whole tree.
    pub wall: Millis,
}

impl CheckPlan {
    #[must_use]
    pub fn new(terms: &CheckTerms, environment: &EnvironmentTerms) -> Self {
        Self {
            argv: terms.argv.clone(),
            environment: environment.clone(),
            wall: terms.timeout,
            adapter: adapter_of(&terms.argv),
        }
    }

    /// Only the exit code is to be seen.
    #[must_use]
    pub fn without_adapter(self) -> Self {
        Self { adapter: None, ..self }
    }

    #[must_use]
    pub const fn adapter(&self) -> Option<&'static dyn Adapter> {
        self.adapter
    }

    /// The environment's probe with the check's limit: it tells a broken environment from a red check. None: no probe
    /// was declared.
    #[must_use]
    pub fn probe(environment: &EnvironmentTerms, wall: Millis) -> Option<Self> {
        let argv = environment.probe.clone()?;
        Some(Self { argv, environment: environment.clone(), wall, adapter: None })
    }

    /// One run: what the verifier brings, where the report comes from, and the job. `nonce` is new in every run.
    #[must_use]
    pub fn run(&self, paths: &CellPaths, nonce: &str) -> (Run, RoomJob) {
        let run = match self.adapter {
            Some(adapter) => adapter.run(&self.argv, nonce),
            None => Run::plain(&self.argv),
        };
        let job = RoomJob {
            argv: run.argv.clone(),
            cwd: paths.workspace.clone(),
            env: run.env_over(job_env(&self.environment, paths)),
            wall: self.wall,
        };
        (run, job)
    }

    /// The contract's argv as it is, without a shell, at the workspace's root.
    #[must_use]
    pub fn job(&self, paths: &CellPaths) -> RoomJob {
        RoomJob {
            argv: self.argv.clone(),
            cwd: paths.workspace.clone(),
            env: job_env(&self.environment, paths),
            wall: self.wall,
        }
    }
}
