//! What a verdict costs whose base result is remembered: `countersign gate` on a fix of a real project, over the same command
//! in the same environment outside a room. Both compile everything from nothing.
//!
//! The fix touches the product only, so there is one room: the final tree's. A change with test files of its own has a control
//! run besides, which is a second run of the same command.
//!
//! Only a quiet machine tells: jobs of a cell may have a control group of their own, and beside other people's work a group
//! gets more of the processors than a process does.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Home, Measure, Place, median, millis};
use crate::materials;
use crate::sh::{self, Context, Error, Result};
use crate::suite::Size;
use crate::workspace::Workspace;

const PROJECT: &str = "globset";
const ARGV: [&str; 4] = ["cargo", "test", "--offline", "--locked"];
/// The verdict without [`FIXED_MS`], over the command.
const ROOM_TARGET: f64 = 1.3;
/// What a verdict may cost besides, whatever the command: cells, tree, seals, patch. Milliseconds.
const FIXED_MS: f64 = 300.0;
/// As in a room.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const CELL_REGISTRY: &str = "/home/agent/.cargo/registry";

pub(super) fn measure(place: &Place, workspace: &Workspace) -> Result<Vec<Measure>> {
    let pairs = match place.size {
        Size::Small => 3,
        Size::Full => 7,
    };
    let room = Room::make(place, workspace)?;
    let home = place.fresh_home(&place.dir)?;
    room.verdict(place, &home)?; // runs the base, which is remembered from then on
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        theirs.push(millis(room.outside(workspace)?));
        ours.push(millis(room.verdict(place, &home)?));
    }
    let (ours, theirs) = (median(ours).unwrap_or(f64::NAN), median(theirs).unwrap_or(f64::NAN));
    Ok(vec![Measure {
        name: "room/cached-verdict",
        value: (ours - FIXED_MS) / theirs,
        target: ROOM_TARGET,
        unit: "x",
        detail: format!(
            "verdict {ours:.0} ms less {FIXED_MS} ms, over `{}` {theirs:.0} ms outside, {pairs} pairs, {PROJECT}",
            ARGV.join(" ")
        ),
    }])
}

struct Room {
    /// The project before the fix.
    repo: PathBuf,
    patch: PathBuf,
    config: PathBuf,
    sysroot: PathBuf,
    cargo_home: PathBuf,
    /// For what is made anew in each run. Outside of this workspace, else cargo takes it for a forgotten member.
    scratch: PathBuf,
    /// Nobody's: no toolchain or cache of this user is found there.
    nobody: PathBuf,
}

impl Room {
    fn make(place: &Place, workspace: &Workspace) -> Result<Self> {
        let dir = place.dir.join("room");
        sh::remove_tree(&dir)?;
        let at = |name: &str| dir.join(name);
        let (repo, fixed, nobody) = (at("repo"), at("fixed"), at("nobody"));
        materials::copy(workspace, PROJECT, &repo, false)?;
        materials::copy(workspace, PROJECT, &fixed, true)?;
        std::fs::create_dir_all(&nobody).context(nobody.display())?;
        let patch = at("fix.patch");
        let text = sh::capture(sh::plain_git(&fixed).args(["diff", "--binary", "HEAD"]))?;
        std::fs::write(&patch, text + "\n").context(patch.display())?;
        let sysroot = sh::capture(Command::new("rustc").args(["--print", "sysroot"]))?;
        let sysroot = PathBuf::from(sysroot.trim());
        let cargo_home = workspace.materials().join(PROJECT).join("cargo-home");
        let toolchains = if sysroot.starts_with("/usr") { json!([]) } else { json!([sysroot]) };
        let registry = json!(cargo_home.join("registry"));
        let config = at("config.toml");
        let text = format!(
            "toolchains = {toolchains}\n[[caches]]\nhost = {registry}\ncell = {}\n",
            json!(CELL_REGISTRY)
        );
        std::fs::write(&config, text).context(config.display())?;
        let scratch = std::env::temp_dir().join(format!("countersign-bench-room-{}", std::process::id()));
        Ok(Self { repo, patch, config, sysroot, cargo_home, scratch, nobody })
    }

    /// One verdict, which has to be `verified` and to have used no room beside the final one and the base's, whether that was
    /// run now or is remembered: a base that had to be asked again is told as a third.
    fn verdict(&self, place: &Place, home: &Home) -> Result<Duration> {
        let mut command = Command::new(&place.bin);
        command
            .env("COUNTERSIGN_HOME", &home.0)
            .env("HOME", &self.nobody)
            .env_remove("CARGO_HOME")
            .env_remove("RUSTUP_HOME")
            .env_remove("PYENV_ROOT")
            .args(["gate", "--trust", "trusted-local", "--format", "json", "--base", "HEAD"])
            .args(["--trace", "off", "--check-argv", &json!(ARGV).to_string()])
            .arg("--config")
            .arg(&self.config)
            .arg("--repo")
            .arg(&self.repo)
            .arg("--patch")
            .arg(&self.patch)
            .current_dir(&place.dir)
            .stdin(Stdio::null());
        let start = Instant::now();
        let output = command.output().context(sh::shown(&command))?;
        let time = start.elapsed();
        let text = String::from_utf8_lossy(&output.stdout);
        let result: Value = serde_json::from_str(text.trim()).unwrap_or(Value::Null);
        let rooms = result["gates"]["check"]["evidence"][0]["rooms"].as_array();
        let roles: Vec<&str> = rooms.into_iter().flatten().filter_map(|room| room["role"].as_str()).collect();
        if result["outcome"] != "verified" || roles != ["base", "final"] {
            return Err(Error::new(format!(
                "the measured verdict was {}/{} with the rooms {roles:?} instead of verified with base and final\n{}",
                result["outcome"],
                result["reason"],
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
        Ok(time)
    }

    /// The same command on the same files, as a user would run it, with nothing compiled before.
    fn outside(&self, workspace: &Workspace) -> Result<Duration> {
        materials::copy(workspace, PROJECT, &self.scratch, true)?;
        let path = format!("{}:{SYSTEM_PATH}", self.sysroot.join("bin").display());
        let mut command = Command::new(ARGV[0]);
        command
            .args(&ARGV[1..])
            .current_dir(&self.scratch)
            .env_clear()
            .env("PATH", &path)
            .env("HOME", &self.nobody)
            .env("CARGO_HOME", &self.cargo_home)
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        let start = Instant::now();
        let output = command.output().context(sh::shown(&command))?;
        let time = start.elapsed();
        sh::remove_tree(&self.scratch)?;
        if output.status.success() {
            return Ok(time);
        }
        let text = String::from_utf8_lossy(&output.stderr);
        Err(Error::new(format!("{} outside a room: {}\n{}", sh::shown(&command), output.status, text.trim())))
    }
}
