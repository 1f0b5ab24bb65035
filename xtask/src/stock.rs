//! Programs of others that our formats are held against: Sigstore's verifier for Node from npm, securesystemslib and the
//! vendors' own SDKs for Python in an environment of their own, all pinned by hash, and cosign as Debian packages it, unpacked
//! beside the materials and not installed.
//!
//! ```text
//! <materials>/sigstore/node_modules/@sigstore/{bundle,verify}
//! <materials>/python/bin/python       imports securesystemslib, openai and anthropic
//! <materials>/cosign/usr/bin/cosign
//! ```
//!
//! What cannot be had on a machine is said here, and its tests are skipped by name.

use std::path::Path;
use std::process::Command;

use crate::materials::Materials;
use crate::sh::{self, Context, Error, Result};

/// The release of Debian that has cosign; the machine's own may be an older one.
const COSIGN_SUITE: &str = "trixie";

/// The interpreter of the environment for Python, below the materials.
pub(crate) const PYTHON: &str = "python/bin/python";

/// Prepares each of them that this machine can have.
pub(crate) fn prepare(all: &Materials<'_>) -> Result<()> {
    all.once("sigstore", &all.npm_stamp("sigstore")?, |dir| all.npm_ci("sigstore", dir))?;
    let lock = all.data("python").join("requirements.lock");
    let stamp = std::fs::read_to_string(&lock).context(lock.display())?;
    // Compiled packages are for one release of Python, and the environment is of one.
    let stamp = stamp + &sh::capture(Command::new("python3").arg("--version")).unwrap_or_default();
    optional("python", all.once("python", &stamp, |dir| python(&lock, dir)));
    optional("cosign", all.once("cosign", COSIGN_SUITE, cosign));
    Ok(())
}

/// A verifier that this machine cannot have is skipped by name, where its tests look for it.
fn optional(name: &str, made: Result<()>) {
    if let Err(error) = made {
        sh::say(&format!("{name} is not to be had here, and its tests are SKIPPED: {error}"));
    }
}

/// An environment of Python with exactly what the lock says, by hash. It has no pip of its own and keeps no path of itself, so that it
/// can be moved to where it belongs.
fn python(lock: &Path, dir: &Path) -> Result<()> {
    sh::run(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(dir))?;
    sh::run(
        Command::new("python3")
            .args(["-m", "pip", "--python"])
            .arg(dir.join("bin").join("python"))
            .args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"])
            .args(["--require-hashes", "--only-binary", ":all:", "-r"])
            .arg(lock),
    )
}

/// Downloads the package through apt, with apt's own check of its signature, into a state of its own.
fn cosign(dir: &Path) -> Result<()> {
    let listed = sh::capture(Command::new("apt-get").args([
        "indextargets",
        "Created-By: Packages",
        "Component: main",
        "Origin: Debian",
        "--format",
        "$(REPO_URI)",
    ]))?;
    // The first is the distribution's own; updates and security come behind it.
    let mirror = listed.lines().next().filter(|line| !line.is_empty());
    let mirror = mirror.ok_or_else(|| Error::new("apt knows no Debian mirror; run apt-get update first"))?;
    let apt = dir.join("apt");
    for name in ["state/lists/partial", "cache/archives/partial", "etc"] {
        std::fs::create_dir_all(apt.join(name)).context(name)?;
    }
    let sources = apt.join("etc/sources.list");
    let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let line = format!("deb [signed-by={keyring}] {mirror} {COSIGN_SUITE} main\n");
    std::fs::write(&sources, line).context(sources.display())?;
    let command = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        let shown = |name: &str| apt.join(name).display().to_string();
        for option in [
            format!("Dir::State={}", shown("state")),
            format!("Dir::Cache={}", shown("cache")),
            format!("Dir::Etc::sourcelist={}", sources.display()),
            "Dir::Etc::sourceparts=-".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
        ] {
            command.args(["-o", option.as_str()]);
        }
        command.arg("--quiet").args(words).current_dir(dir);
        command
    };
    sh::run(&mut command(&["update"]))?;
    sh::run(&mut command(&["download", "cosign"]))?;
    let package = std::fs::read_dir(dir)
        .context(dir.display())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|end| end == "deb"))
        .ok_or_else(|| Error::new("apt downloaded no package"))?;
    sh::run(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(dir))?;
    std::fs::remove_file(&package).context(package.display())?;
    sh::remove_tree(&apt)?;
    let program = dir.join("usr/bin/cosign");
    if program.is_file() { Ok(()) } else { Err(Error::new("the package holds no usr/bin/cosign")) }
}
