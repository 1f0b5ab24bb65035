//! What the verification of a large bundle costs over `sha256sum` of the same bytes. The bundle holds two hundred megabytes of
//! pre-images, which are read once, hashed, patched, and hashed as the final tree.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Home, Measure, Place, median, millis};
use crate::sh::{self, Context, Error, Result};
use crate::suite::Size;

const FILES: usize = 8;
/// Of each file, bytes, give or take a line: 200 MB together.
const FILE_SIZE: usize = 25_000_000;
/// The promise is at least 0.7 of the speed of `sha256sum`.
const TARGET: f64 = 1.43;
/// Bytes below which the bundle is not the one that is meant.
const LEAST: u64 = 200_000_000;

pub(super) fn measure(place: &Place) -> Result<Vec<Measure>> {
    let pairs = match place.size {
        Size::Small => 5,
        Size::Full => 15,
    };
    let home = place.fresh_home(&place.dir)?;
    let bundle = bundle(place, &home)?;
    let files = sh::files_below(&bundle)?;
    let bytes: u64 = files
        .iter()
        .map(|file| std::fs::metadata(bundle.join(file)).map(|data| data.len()).context(file.display()))
        .sum::<Result<u64>>()?;
    if bytes < LEAST {
        return Err(Error::new(format!("the bundle holds {bytes} bytes, less than {LEAST}")));
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    verified(place, &home, &bundle)?; // brings the files into memory
    for _ in 0..pairs {
        theirs.push(millis(hashed(&bundle, &files)?));
        ours.push(millis(verified(place, &home, &bundle)?));
    }
    let (ours, theirs) = (median(ours).unwrap_or(f64::NAN), median(theirs).unwrap_or(f64::NAN));
    Ok(vec![Measure {
        name: "verify/over-sha256sum",
        value: ours / theirs,
        target: TARGET,
        unit: "x",
        detail: format!(
            "verify {ours:.0} ms, sha256sum {theirs:.0} ms over the same {:.1} MB in {} files: {:.2} of its speed, {pairs} \
             pairs",
            bytes as f64 / 1e6,
            files.len(),
            theirs / ours
        ),
    }])
}

/// A bundle of finished work that changes one line of each large file.
fn bundle(place: &Place, home: &Home) -> Result<PathBuf> {
    // Outside of this workspace, whose repository a plain directory below it would belong to.
    let dir = std::env::temp_dir().join(format!("countersign-bench-verify-{}", std::process::id()));
    sh::remove_tree(&dir)?;
    let made = bundle_in(place, home, &dir);
    sh::remove_tree(&dir)?;
    made
}

fn bundle_in(place: &Place, home: &Home, dir: &Path) -> Result<PathBuf> {
    let (base, work) = (dir.join("base"), dir.join("work"));
    for (at, answer) in [(&base, "wrong"), (&work, "right")] {
        std::fs::create_dir_all(at).context(at.display())?;
        for number in 0..FILES {
            let file = at.join(format!("data-{number}.txt"));
            std::fs::write(&file, content(number, answer)).context(file.display())?;
        }
        let check = "grep -q '^the answer is right$' data-0.txt\n";
        std::fs::write(at.join("check.sh"), check).context("check.sh")?;
    }
    let output = Command::new(&place.bin)
        .env("COUNTERSIGN_HOME", &home.0)
        .args(["gate", "--trust", "trusted-local", "--format", "json", "--trace", "off"])
        .args(["--check", "sh check.sh", "--scope", "data-*.txt", "--repo"])
        .arg(&base)
        .arg("--tree")
        .arg(&work)
        .current_dir(&place.dir)
        .stdin(Stdio::null())
        .output()
        .context("countersign gate")?;
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    match (result["outcome"].as_str(), result["bundle"].as_str()) {
        (Some("verified"), Some(bundle)) => Ok(bundle.into()),
        _ => Err(Error::new(format!(
            "the bundle to be verified was not made: {}/{} {} {}\n{}",
            result["outcome"],
            result["reason"],
            result["error"],
            result["degraded"],
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

/// Lines that differ in every file, and one in the middle that the change is about.
fn content(number: usize, answer: &str) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ (number as u64 + 1);
    let mut text = String::with_capacity(FILE_SIZE + 80);
    let mut told = false;
    while text.len() < FILE_SIZE {
        if !told && text.len() > FILE_SIZE / 2 {
            let _ = writeln!(text, "the answer is {answer}");
            told = true;
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let _ = writeln!(text, "{state:016x} {:016x}", state.rotate_left(17));
    }
    text
}

fn hashed(bundle: &Path, files: &[PathBuf]) -> Result<Duration> {
    let mut command = Command::new("sha256sum");
    command.arg("--").args(files).current_dir(bundle).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status().context("sha256sum")?;
    let time = start.elapsed();
    if status.success() { Ok(time) } else { Err(Error::new(format!("sha256sum ended with {status}"))) }
}

/// One verification, which has to find the bundle intact; nobody trusts its key.
fn verified(place: &Place, home: &Home, bundle: &Path) -> Result<Duration> {
    let mut command = Command::new(&place.bin);
    command.env("COUNTERSIGN_HOME", &home.0).args(["verify", "--format", "json"]).arg(bundle);
    let start = Instant::now();
    let output = command.output().context(sh::shown(&command))?;
    let time = start.elapsed();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    if report["intact"] == true {
        return Ok(time);
    }
    Err(Error::new(format!("the bundle is not intact: {}", report["report"]["findings"])))
}
