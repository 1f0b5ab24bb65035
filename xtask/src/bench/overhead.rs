//! What a step costs beside the model: from a reply with one `read_file` call to the next request.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::server::{Reply, Server};
use super::{Home, Measure, Place, claimed_without_change, median, millis, repository};
use crate::sh::{self, Context, Error, Result};
use crate::suite::Size;

const FILES: usize = 100;
/// Steps with one call in each run; each reads another file.
const STEPS: usize = 24;
/// Milliseconds for a step where a sync costs nothing.
const STEP_TARGET_MS: f64 = 5.0;
/// What the disk adds to a step over one raw append and fdatasync for every two commits.
const SYNC_TARGET: f64 = 3.2;
/// What one durable event is about as long as, bytes.
const RAW_APPEND: usize = 512;
const RAW_APPENDS: usize = 40;
/// A memory file system on every Linux.
const MEMORY: &str = "/dev/shm";

pub(super) fn measure(place: &Place) -> Result<Vec<Measure>> {
    let runs = match place.size {
        Size::Small => 9,
        Size::Full => 15,
    };
    let repo = repository::make(&place.dir, FILES)?;
    let memory = place.fresh_home(Path::new(MEMORY)).map_err(|error| {
        Error::new(format!(
            "{error}\nthis measurement needs a memory file system at {MEMORY}; mount one there"
        ))
    })?;
    let disk = place.fresh_home(&place.dir)?;
    let warm = one(place, &memory, &repo, STEPS)?; // fills the caches
    // A step has two commits and works between them. A disk that is asked again at once answers sooner than one that had
    // time to rest (measured: 0.32 and 0.52 ms), so the raw appends come at the same pace.
    let pace = Duration::from_secs_f64(median(warm.steps).unwrap_or_default() / 2000.0);
    let without = one(place, &disk, &repo, 0)?;
    let idle = commits(place, &disk, &without.session)?;
    let (mut raw, mut in_memory, mut on_disk, mut per_step) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for _ in 0..runs {
        in_memory.extend(one(place, &memory, &repo, STEPS)?.steps);
        raw.extend(raw_appends(&disk, pace)?);
        let run = one(place, &disk, &repo, STEPS)?;
        let more = commits(place, &disk, &run.session)?.saturating_sub(idle);
        per_step = more as f64 / STEPS as f64;
        on_disk.extend(run.steps);
    }
    raw.extend(raw_appends(&disk, pace)?);
    let middle = |values| median(values).unwrap_or(f64::NAN);
    let (in_memory, on_disk, raw) = (middle(in_memory), middle(on_disk), middle(raw));
    Ok(vec![
        Measure {
            name: "overhead/step-in-memory",
            value: in_memory,
            target: STEP_TARGET_MS,
            unit: "ms",
            detail: format!("median of {} steps", runs * STEPS),
        },
        Measure {
            name: "overhead/durability",
            value: if per_step > 0.0 { (on_disk - in_memory) / (raw * per_step / 2.0) } else { f64::NAN },
            target: SYNC_TARGET,
            unit: "x",
            detail: format!(
                "step {on_disk:.2} ms on disk, {in_memory:.2} ms in memory, {per_step:.1} commits, raw append + \
                 fdatasync {raw:.2} ms"
            ),
        },
    ])
}

struct Run {
    session: String,
    /// Milliseconds from each reply to the next request.
    steps: Vec<f64>,
}

fn one(place: &Place, home: &Home, repo: &Path, steps: usize) -> Result<Run> {
    let server = Server::start(move |index| {
        if index < steps { Reply::ReadFile(repository::name(index)) } else { Reply::Text("done") }
    })?;
    let mut command = place.run_command(home, repo, server.port)?;
    let output = command.output().context(sh::shown(&command))?;
    let result = claimed_without_change(&output)?;
    let exchanges: Vec<_> = server.exchanges.try_iter().collect();
    if exchanges.len() != steps + 1 {
        return Err(Error::new(format!(
            "the run made {} model requests instead of {}",
            exchanges.len(),
            steps + 1
        )));
    }
    let between = exchanges
        .iter()
        .zip(exchanges.iter().skip(1))
        .map(|(one, next)| next.arrived.duration_since(one.answered));
    Ok(Run {
        session: result["session"].as_str().unwrap_or_default().to_owned(),
        steps: between.map(millis).collect(),
    })
}

/// How many commits the journal of a session holds.
fn commits(place: &Place, home: &Home, session: &str) -> Result<usize> {
    let text = sh::capture(
        Command::new(&place.bin)
            .env("COUNTERSIGN_HOME", &home.0)
            .args(["events", session, "--format", "ndjson"]),
    )?;
    count_commits(&text).ok_or_else(|| Error::new("the journal's lines do not say of what kind they are"))
}

/// A result stands in one commit with the intent that follows from it, so a commit ends where an intent is followed by
/// anything else. Two commits without an intent between them count as one, which makes the target harder, never easier.
fn count_commits(ndjson: &str) -> Option<usize> {
    let mut commits = 0;
    let mut intended = true;
    for line in ndjson.lines().filter(|line| !line.trim().is_empty()) {
        let event: Value = serde_json::from_str(line).ok()?;
        let intent = matches!(event["kind"].as_str()?, "effect_intended" | "effect_dispatched");
        if intended && !intent {
            commits += 1;
        }
        intended = intent;
    }
    Some(commits)
}

/// Milliseconds of each of some appends with fdatasync beside the home, with a pause before each.
fn raw_appends(home: &Home, pause: Duration) -> Result<Vec<f64>> {
    let path = home.0.join("raw-append");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).context(path.display())?;
    let line = [b'x'; RAW_APPEND];
    let mut times = Vec::new();
    for _ in 0..RAW_APPENDS {
        std::thread::sleep(pause);
        let start = Instant::now();
        file.write_all(&line).context(path.display())?;
        file.sync_data().context(path.display())?;
        times.push(millis(start.elapsed()));
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_counted_once_and_unknown_stays_unknown() {
        let kinds = [
            "turn_approved",
            "effect_intended",
            "effect_dispatched",
            "effect_completed",
            "effect_intended",
            "effect_dispatched",
            "effect_completed",
            "attempt_begun",
            "turn_ended",
        ];
        let journal: String = kinds.iter().map(|kind| format!("{{\"kind\":\"{kind}\"}}\n")).collect();
        assert_eq!(count_commits(&journal), Some(3));
        assert_eq!(count_commits("{\"seq\":1}\n"), None);
    }
}
