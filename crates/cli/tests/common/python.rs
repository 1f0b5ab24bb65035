//! A project with pytest: its wheels come from the prepared materials, unpacked into a virtual environment by `--setup`.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests, outside of test functions")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::common::Place;

/// How checks of such a project begin.
pub const PYTEST: &str = ".venv/bin/python -m pytest";

/// `--config FILE --setup CMD` for a run with pytest in `.venv`. None after saying what is missing.
pub fn pytest(test: &str, place: &Place) -> Option<Vec<String>> {
    let skip = |why: &str| {
        eprintln!("SKIPPED: {test}: {why}");
        None
    };
    let wheels = std::env::var_os("COUNTERSIGN_MATERIALS")
        .map(|dir| PathBuf::from(dir).join("httpx/wheelhouse"))
        .filter(|dir| dir.is_dir());
    let Some(wheels) = wheels else {
        return skip("COUNTERSIGN_MATERIALS names no prepared materials: run cargo xtask setup");
    };
    let Some(prefix) = python_prefix() else { return skip("python3 with venv is not here") };
    let toolchains = if prefix.starts_with("/usr") {
        String::new()
    } else {
        format!("toolchains = [{}]\n", json!(prefix))
    };
    let wheels = json!(wheels.display().to_string());
    let text = format!("{toolchains}[[caches]]\nhost = {wheels}\ncell = \"/home/agent/wheelhouse\"\n");
    let config = place.write("python.toml", &text).display().to_string();
    let setup = "sh -c 'python3 -m venv --without-pip .venv && for name in pytest pluggy iniconfig packaging; do \
                 python3 -m zipfile -e ~/wheelhouse/$name-*.whl .venv/lib/python3*/site-packages || exit 1; done'";
    Some(["--config", &config, "--setup", setup].map(str::to_owned).to_vec())
}

/// Where the machine's Python lives.
pub fn python_prefix() -> Option<String> {
    let output = Command::new("python3")
        .args(["-c", "import venv, sys; print(sys.base_prefix)"])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

// Every suite compiles this file, and none uses all of it.
const _: () = {
    let _ = (PYTEST, pytest, python_prefix);
};
