//! Would the checks have noticed? After they passed, they judge the sealed tree again with one small fault in a changed line each
//! time, in rooms, within a time of their own. What comes of it informs and changes no outcome.

use countersign_guest::protocol::{MAX_FDS, Mutant, MutantKind, MutantLanguage, MutateFile, Reply, Request};
use countersign_kernel::{EffectResult, Turn};
use countersign_tree::{Change, Delta, Durability, Entry, EntryMode};
use countersign_types::{CheckIndex, GateStatus, JobEnd, LimitHit, Millis, Reason};
use futures::future::{Either, select};
use serde::{Deserialize, Serialize};

use crate::cells::{self, Fail};
use crate::perform::Outcome;
use crate::stop::{Stop, stop as switch};
use crate::workshop::Workshop;

/// All mutants of a turn together.
const ALL: Millis = Millis::from_secs(5 * 60);

/// The checks of one mutant. A fault that makes a program hang is noticed by waiting.
const ONE: Millis = Millis::from_secs(60);

/// Changed files that are looked at.
const FILES: usize = 50;

/// What the checks made of mutants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutants {
    /// Mutants that were judged to an answer or to the end of their time.
    pub tried: u64,
    /// The checks did not pass: they notice the fault.
    pub killed: u64,
    /// The checks passed in spite of the fault, at most 100.
    pub survived: Vec<Survivor>,
    /// No answer within a minute. Nobody knows whether the checks would have noticed.
    pub timed_out: u64,
    /// Not begun within five minutes.
    pub not_tried: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// Control characters escaped. Hostile.
    pub path: String,
    /// From 1, in the sealed tree.
    pub line: u32,
    pub kind: MutantKind,
}

/// What judging one mutant came to.
enum Fate {
    Killed,
    Survived,
    TimedOut,
}

impl Workshop<'_> {
    pub(crate) async fn mutants(&mut self, turn: &Turn, stop: &Stop) -> Outcome {
        let begun = self.ports.clock.now();
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        let tree = self.tree(sealed.tree)?;
        let changes = self.facts()?.tree.changes_to(&tree);
        let files: Vec<MutateFile> = changes.iter().filter_map(source).take(FILES).collect();
        let made = if files.is_empty() { Vec::new() } else { self.make_mutants(files).await? };
        let mut found = Mutants::default();
        for mutant in made {
            let left = begun.saturating_add(ALL).saturating_sub(self.ports.clock.now());
            if left == Millis(0) {
                found.not_tried += 1;
                continue;
            }
            let mode = tree.get(&mutant.path).map_or(EntryMode::File, |entry| entry.mode);
            let entry = Entry { path: mutant.path.clone(), mode, size: mutant.size, digest: mutant.content };
            let faulty = tree.with(&Delta { put: vec![entry], remove: Vec::new() });
            let digest = faulty.digest();
            self.keep(digest, faulty);
            self.same_environment(tree.digest(), digest);
            let fate = self.try_mutant(turn, digest, left.min(ONE), stop).await;
            self.trees.remove(&digest);
            found.tried += 1;
            match fate? {
                Fate::Killed => found.killed += 1,
                Fate::TimedOut => found.timed_out += 1,
                Fate::Survived => found.survived.push(Survivor {
                    path: mutant.path.to_string(),
                    line: mutant.line,
                    kind: mutant.kind,
                }),
            }
        }
        let result = EffectResult::Mutants {
            tried: found.tried,
            killed: found.killed,
            survived: found.survived.len() as u64,
        };
        Ok((result, vec![("mutants", serde_json::to_vec(&found).unwrap_or_default())]))
    }

    /// Sources are read and changed in a cell; their contents come back as any content does.
    async fn make_mutants(&mut self, files: Vec<MutateFile>) -> Result<Vec<Mutant>, Fail> {
        let digests: Vec<_> =
            files.iter().flat_map(|file| file.before.into_iter().chain([file.after])).collect();
        let batch = self.ports.objects.gather(&digests, MAX_FDS - 1)?;
        let segment = self.ports.objects.new_segment()?;
        let mut fds = vec![cells::lend(&segment)?];
        fds.extend(batch.files.into_iter().map(Into::into));
        let cell =
            cells::open(self.ports, cells::judging(self.ports), &self.contract, Vec::new(), None).await?;
        let request = Request::Mutate { files, most: self.contract.mutants, located: batch.located };
        let reply = cells::ask(cell.as_ref(), &request, fds).await;
        self.see_off(cell);
        let Reply::Mutants { mutants, located } = reply? else { return Err(cells::unexpected("mutants")) };
        self.ports.objects.adopt(segment, &located, Durability::Later)?;
        let most = usize::try_from(self.contract.mutants).unwrap_or(usize::MAX);
        Ok(mutants.into_iter().take(most).collect())
    }

    /// Every check on the tree with the fault, until one does not pass.
    async fn try_mutant(
        &mut self,
        turn: &Turn,
        tree: countersign_types::Digest,
        wall: Millis,
        outer: &Stop,
    ) -> Result<Fate, Fail> {
        let ports = self.ports;
        let (mut stopper, inner) = switch();
        let judged = {
            let judging = std::pin::pin!(self.judge_all(turn, tree, &inner));
            let late = ports.clock.sleep(wall);
            let stopped = std::pin::pin!(outer.or(std::future::pending::<()>()));
            match select(judging, select(late, stopped)).await {
                Either::Left((judged, _)) => judged,
                Either::Right((_, judging)) => {
                    // Commands end, and the rooms with them.
                    stopper.stop();
                    judging.await
                }
            }
        };
        match judged {
            Err(Fail::Interrupted) if outer.is_set() => Err(Fail::Interrupted),
            Err(Fail::Interrupted) => Ok(Fate::TimedOut),
            judged => judged,
        }
    }

    async fn judge_all(
        &mut self,
        turn: &Turn,
        tree: countersign_types::Digest,
        stop: &Stop,
    ) -> Result<Fate, Fail> {
        for index in 0..self.contract.checks.len() {
            let check = CheckIndex(u32::try_from(index).unwrap_or(u32::MAX));
            let judged = self.judge(turn, tree, check, stop).await?;
            if judged.receipt.end == (JobEnd::Limit { which: LimitHit::Timeout }) {
                return Ok(Fate::TimedOut);
            }
            if judged.decision.status != GateStatus::Passed {
                return Ok(Fate::Killed);
            }
        }
        Ok(Fate::Survived)
    }
}

/// A changed product source in a language that we can change further.
fn source(change: &Change) -> Option<MutateFile> {
    let after = change.after.as_ref().filter(|entry| entry.mode.is_file())?;
    let before = change.before.as_ref().filter(|entry| entry.mode.is_file());
    let path = change.path.to_string();
    let language = match path.rsplit_once('.')?.1 {
        "py" => MutantLanguage::Python,
        "rs" => MutantLanguage::Rust,
        "js" | "mjs" | "cjs" | "jsx" | "ts" | "mts" | "cts" | "tsx" => MutantLanguage::JavaScript,
        "go" => MutantLanguage::Go,
        _ => return None,
    };
    if countersign_gates::is_named_as_a_test(&path) || before.is_some_and(|b| b.digest == after.digest) {
        return None;
    }
    Some(MutateFile {
        path: change.path.clone(),
        language,
        before: before.map(|entry| entry.digest),
        after: after.digest,
    })
}
