//! `cargo xtask setup`: what must be on the machine, what is missing, and the one line that installs it.

use std::path::Path;
use std::process::Command;

use crate::sh::{self, Context as _, Error, Result};
use crate::workspace::Workspace;

/// The test runner's version. A newer one of the same major and minor number is taken as it is.
pub const NEXTEST: (u32, u32, u32) = (0, 9, 143);

/// Debian's name of the newest server that it has.
const POSTGRESQL: &str = "postgresql";

/// What the machine is made ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Building and running `countersign demo`: no test runner, no Python, no Node.
    Demo,
    /// All of `cargo xtask test`.
    Test,
}

/// Something of the machine: how it is seen, and the Debian package that brings it.
struct Need {
    what: &'static str,
    packages: &'static [&'static str],
    for_demo: bool,
    present: fn() -> bool,
}

const NEEDS: &[Need] = &[
    Need {
        what: "a C compiler (linking, bundled SQLite)",
        packages: &["gcc"],
        for_demo: true,
        present: || sh::which("cc").is_some() && sh::which("gcc").is_some(),
    },
    Need {
        what: "the static C library (the programs inside cells)",
        packages: &["libc6-dev"],
        for_demo: true,
        present: has_static_libc,
    },
    Need { what: "git", packages: &["git"], for_demo: true, present: || sh::which("git").is_some() },
    Need {
        what: "newuidmap (native cells for an ordinary user)",
        packages: &["uidmap"],
        for_demo: false,
        present: || sh::which("newuidmap").is_some(),
    },
    Need {
        what: "bubblewrap (the peer of the start measurements)",
        packages: &["bubblewrap"],
        for_demo: false,
        present: || sh::which("bwrap").is_some(),
    },
    Need {
        what: "strace (what the controller asks of the kernel)",
        packages: &["strace"],
        for_demo: false,
        present: || sh::which("strace").is_some(),
    },
    Need {
        what: "PostgreSQL (tests start servers of their own)",
        packages: &[POSTGRESQL],
        for_demo: false,
        present: has_postgresql,
    },
    Need {
        what: "Go (the benchmark of gates)",
        packages: &["golang-go"],
        for_demo: false,
        present: || sh::which("go").is_some(),
    },
    Need {
        what: "make (the benchmark of gates)",
        packages: &["make"],
        for_demo: false,
        present: || sh::which("make").is_some(),
    },
    Need {
        what: "Python with venv and pip (a real Python package as input)",
        packages: &["python3", "python3-venv", "python3-pip"],
        for_demo: false,
        present: || sh::succeeds(Command::new("python3").args(["-c", "import venv, ensurepip, pip"])),
    },
    Need {
        what: "Node and npm (an independent model server)",
        packages: &["nodejs", "npm"],
        for_demo: false,
        present: || sh::which("node").is_some() && sh::which("npm").is_some(),
    },
];

/// Looks first, and installs only what is missing.
///
/// # Errors
/// When something is missing and cannot be installed from here; the text holds the line that does it.
pub fn setup(workspace: &Workspace, goal: For) -> Result<()> {
    let missing: Vec<&Need> =
        NEEDS.iter().filter(|need| (need.for_demo || goal == For::Test) && !(need.present)()).collect();
    if !missing.is_empty() {
        install(&missing)?;
        if let Some(still) = missing.iter().find(|need| !(need.present)()) {
            return Err(Error::new(format!(
                "{} is still not found after installing {}; put it on PATH and try again",
                still.what,
                still.packages.join(" ")
            )));
        }
    }
    if goal == For::Test { nextest(workspace) } else { Ok(()) }
}

fn install(missing: &[&Need]) -> Result<()> {
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages.iter().copied()).collect();
    for need in missing {
        sh::say(&format!("missing: {}", need.what));
    }
    let line = format!(
        "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    );
    if sh::which("apt-get").is_none() {
        return Err(Error::new(format!(
            "install these with this machine's package manager (Debian's names): {}",
            packages.join(" ")
        )));
    }
    if !is_root() {
        sh::say(&format!("sudo sh -c '{line}'"));
        return Err(Error::new("not root: run the line above once, then this again"));
    }
    if packages.contains(&POSTGRESQL) {
        without_a_cluster()?;
    }
    sh::say(&format!("as root: {line}"));
    sh::run(Command::new("apt-get").args(["update", "--quiet"]))?;
    sh::run(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "-y", "--quiet", "--no-install-recommends"])
            .args(&packages),
    )
}

/// The effective user of this process, from the kernel's own record.
fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|ids| ids.split_whitespace().nth(1))
            == Some("0")
    })
}

fn has_static_libc() -> bool {
    // The compiler answers with the bare name when it has no such file.
    sh::capture(Command::new("cc").arg("-print-file-name=libc.a"))
        .is_ok_and(|path| Path::new(path.trim()).is_absolute())
}

/// Debian keeps the server's programs off PATH, in a directory for each version.
fn has_postgresql() -> bool {
    let installed = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|version| version.path().join("bin/initdb").is_file())
    };
    sh::which("initdb").is_some()
        || std::fs::read_dir("/usr/lib/postgresql").is_ok_and(|mut versions| versions.any(installed))
}

/// Debian's package would make a cluster of the whole machine and start it; tests make their own. What an administrator
/// decided stays.
fn without_a_cluster() -> Result<()> {
    let dir = Path::new("/etc/postgresql-common/createcluster.d");
    let conf = dir.join("countersign.conf");
    std::fs::create_dir_all(dir).context(dir.display())?;
    std::fs::write(&conf, "create_main_cluster = false\n").context(conf.display())
}

fn nextest(workspace: &Workspace) -> Result<()> {
    let found = sh::capture(workspace.cargo().args(["nextest", "--version"])).ok();
    if found.as_deref().and_then(version).is_some_and(new_enough) {
        return Ok(());
    }
    let (major, minor, patch) = NEXTEST;
    let version = format!("{major}.{minor}.{patch}");
    sh::say(&format!("installing cargo-nextest {version} (some minutes, once)"));
    sh::run(workspace.cargo().env_remove("CARGO_NET_OFFLINE").env_remove("CARGO_TARGET_DIR").args([
        "install",
        "cargo-nextest",
        "--locked",
        "--version",
        &version,
    ]))
    .map_err(|error| {
        Error::new(format!("{error}\nwithout the test runner nothing is tested; is there a network?"))
    })
}

/// `cargo-nextest 0.9.143 (…)` as numbers.
fn version(text: &str) -> Option<(u32, u32, u32)> {
    let mut parts = text.split_whitespace().nth(1)?.split('.');
    let mut next = || parts.next()?.parse().ok();
    Some((next()?, next()?, next()?))
}

fn new_enough(found: (u32, u32, u32)) -> bool {
    found.0 == NEXTEST.0 && found.1 == NEXTEST.1 && found.2 >= NEXTEST.2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_or_unknown_runner_is_not_taken() {
        let taken = |text: &str| version(text).is_some_and(new_enough);
        assert!(taken("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)\nrelease: 0.9.143"));
        assert!(taken("cargo-nextest 0.9.200"));
        assert!(!taken("cargo-nextest 0.9.99 (abc)"));
        assert!(!taken("cargo-nextest 0.10.0"));
        assert!(!taken("cargo-nextest"));
        assert!(!taken(""));
    }

    #[test]
    fn the_demo_needs_no_runner_python_or_node() {
        for need in NEEDS.iter().filter(|need| need.for_demo) {
            for package in need.packages {
                assert!(!package.contains("python") && !package.contains("node"), "{package}");
            }
        }
    }
}
