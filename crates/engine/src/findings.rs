//! What becomes of a reviewer's findings: quotes are looked up in a cell, reproductions are run in rooms on the sealed tree
//! and on the base. Nothing of what a reviewer says is believed.

use countersign_gates::review::{
    self, Fate, FeedbackFinding, Quoted, ReviewFinding, first_look, needs_base, settled, wants_repro,
};
use countersign_gates::{CheckPlan, ReproLock};
use countersign_guest::protocol::{MAX_FDS, Quote, Reply, Request};
use countersign_kernel::contract::{Contract, Network};
use countersign_kernel::{EffectResult, ReviewCall, Turn};
use countersign_tree::{Entry, EntryMode, Manifest, TreePath};
use countersign_types::{Digest, JobReceipt, Millis, Reason};

use crate::cells::{self, Fail};
use crate::checks::bytes_of;
use crate::perform::{Named, Outcome};
use crate::setup::base_tree;
use crate::stop::Stop;
use crate::workshop::Workshop;

/// One run of one reproduction.
const WALL: Millis = Millis::from_secs(120);

/// Reproductions of one answer that are run, the gravest first.
const MAX_REPROS: usize = 5;

/// A reproduction that ran.
struct Ran {
    receipt: JobReceipt,
    /// It changed files of the tree.
    changed: bool,
}

impl Workshop<'_> {
    pub(crate) async fn review_judge(&mut self, turn: &Turn, call: ReviewCall, stop: &Stop) -> Outcome {
        let text = self.review.answers.get(&call).cloned().unwrap_or_default();
        match call {
            ReviewCall::Findings => self.judge_findings(turn, &text, stop).await,
            ReviewCall::Repros => self.judge_repros(turn, &text, stop).await,
        }
    }

    async fn judge_findings(&mut self, turn: &Turn, text: &str, stop: &Stop) -> Outcome {
        let unreadable = |why| Fail::because(Reason::CellDied, format!("the reviewer's answer: {why}"));
        let answer = review::findings(text).map_err(unreadable)?;
        let drafts = review::merged(answer.findings);
        let tree = self.sealed_tree(turn)?;
        let quoted = self.quoted(&tree, &drafts).await?;
        let from = self.review.findings.len();
        let mut open = Vec::new();
        for (draft, quoted) in drafts.into_iter().zip(quoted) {
            let settled = first_look(&draft, quoted);
            let at = self.review.findings.len();
            if settled.is_none() {
                open.push(at);
            }
            let (fate, why) = settled.unwrap_or((Fate::Advised, String::new()));
            self.review.findings.push(ReviewFinding {
                round: turn.review.rounds,
                file: draft.file,
                quote: draft.quote,
                severity: draft.severity,
                confidence: draft.confidence,
                failure_scenario: draft.failure_scenario,
                repro: draft.repro,
                fate,
                why,
                asked: false,
                on_final: None,
                on_base: None,
            });
        }
        self.try_all(turn, open, stop).await?;
        for finding in self.review.findings.iter_mut().skip(from) {
            finding.asked = wants_repro(finding);
        }
        let here: Vec<usize> = (from..self.review.findings.len()).collect();
        self.conclude(&here, (answer.malformed, answer.more))
    }

    async fn judge_repros(&mut self, turn: &Turn, text: &str, stop: &Stop) -> Outcome {
        let asked = self.asked(turn.review.rounds);
        let unreadable = |why| Fail::because(Reason::CellDied, format!("the reviewer's answer: {why}"));
        let commands = review::repros(text, asked.len()).map_err(unreadable)?;
        let mut open = Vec::new();
        for (number, argv) in commands {
            let at = number.checked_sub(1).and_then(|index| asked.get(index));
            if let Some((at, finding)) = at.and_then(|at| Some((*at, self.review.findings.get_mut(*at)?))) {
                finding.repro = Some(argv);
                open.push(at);
            }
        }
        self.try_all(turn, open, stop).await?;
        self.conclude(&asked, (0, 0))
    }

    /// Runs the reproductions of some findings, the gravest first and within the bound.
    async fn try_all(&mut self, turn: &Turn, mut open: Vec<usize>, stop: &Stop) -> Result<(), Fail> {
        let grave = |at: &usize| self.review.findings.get(*at).map(|finding| finding.confidence);
        open.sort_by_key(|at| std::cmp::Reverse(grave(at)));
        let left = open.split_off(open.len().min(MAX_REPROS));
        for at in open {
            self.try_one(turn, at, stop).await?;
        }
        for at in left {
            self.set_fate(at, Fate::Advised, format!("only {MAX_REPROS} reproductions of an answer are run"));
        }
        Ok(())
    }

    async fn try_one(&mut self, turn: &Turn, at: usize, stop: &Stop) -> Result<(), Fail> {
        let Some((argv, confidence)) =
            self.review.findings.get(at).and_then(|f| Some((f.repro.clone()?, f.confidence)))
        else {
            return Ok(());
        };
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        let ran = match self.run_command(sealed.tree, &argv, stop).await? {
            Ok(ran) => ran,
            Err(why) => {
                self.set_fate(at, Fate::Advised, format!("its reproduction could not be run: {why}"));
                return Ok(());
            }
        };
        let end = ran.receipt.end.clone();
        let on_base = if needs_base(&argv, &end, ran.changed) {
            self.run_command(base_tree(turn)?, &argv, stop).await?.ok().map(|ran| ran.receipt.end)
        } else {
            None
        };
        let (fate, why) = settled(&argv, confidence, &end, ran.changed, on_base.as_ref());
        self.set_fate(at, fate, why);
        if let Some(finding) = self.review.findings.get_mut(at) {
            finding.on_final = Some(end);
            finding.on_base = on_base;
        }
        self.review.receipts.insert(at, ran.receipt);
        Ok(())
    }

    /// The reproductions of all that was ever confirmed. Nobody but such a run says that a finding is repaired.
    pub(crate) async fn review_recheck(&mut self, turn: &Turn, stop: &Stop) -> Outcome {
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        let all = self.review.findings.iter().enumerate();
        let confirmed: Vec<usize> = all
            .filter(|(_, finding)| matches!(finding.fate, Fate::Blocked | Fate::Repaired))
            .map(|(at, _)| at)
            .collect();
        let (mut repaired, mut red, mut unknown) = (0, 0, 0);
        for at in confirmed {
            let argv = self.review.findings.get(at).and_then(|finding| finding.repro.clone());
            let ran = self.run_command(sealed.tree, &argv.clone().unwrap_or_default(), stop).await?.ok();
            let seen = ran.as_ref().zip(argv.as_ref());
            let again = seen.and_then(|(ran, argv)| review::again(argv, &ran.receipt.end, ran.changed));
            match &again {
                Some((Fate::Repaired, _)) => repaired += 1,
                Some(_) => red += 1,
                None => unknown += 1,
            }
            let unclear = || (Fate::Blocked, "whether it is repaired could not be told".to_owned());
            let (fate, why) = again.unwrap_or_else(unclear);
            self.set_fate(at, fate, why);
            if let (Some(ran), Some(finding)) = (ran, self.review.findings.get_mut(at)) {
                finding.on_final = Some(ran.receipt.end.clone());
                self.review.receipts.insert(at, ran.receipt);
            }
        }
        let named = self.told((0, 0))?;
        Ok((EffectResult::ReviewRecheck { repaired, red, unknown }, named))
    }

    fn set_fate(&mut self, at: usize, fate: Fate, why: String) {
        if let Some(finding) = self.review.findings.get_mut(at) {
            (finding.fate, finding.why) = (fate, why);
        }
    }

    /// Counts what was settled here, and says everything that is known.
    fn conclude(&mut self, here: &[usize], odd: (u32, u32)) -> Outcome {
        let settled: Vec<&ReviewFinding> =
            here.iter().filter_map(|at| self.review.findings.get(*at)).collect();
        let count = |fate: Fate| {
            u32::try_from(settled.iter().filter(|finding| finding.fate == fate).count()).unwrap_or(u32::MAX)
        };
        let asks = settled.iter().filter(|finding| finding.asked && finding.repro.is_none()).count();
        let result = EffectResult::ReviewJudge {
            confirmed: count(Fate::Blocked),
            advised: count(Fate::Advised),
            refuted: count(Fate::Refuted),
            dropped: count(Fate::Dropped).saturating_add(odd.0).saturating_add(odd.1),
            noted: count(Fate::Note),
            solicit: u32::try_from(asks).unwrap_or(u32::MAX),
        };
        Ok((result, self.told(odd)?))
    }

    fn told(&mut self, (malformed, more): (u32, u32)) -> Result<Named, Fail> {
        self.feedback = self.standing_feedback();
        let detail = review::sentence(&self.review.findings, malformed, more);
        Ok(vec![("findings", bytes_of(&self.review.findings)?), ("detail", detail.into_bytes())])
    }

    /// What is confirmed and not repaired, as work for the agent.
    pub(crate) fn standing_feedback(&self) -> Option<String> {
        let blocked: Vec<FeedbackFinding<'_>> = self
            .review
            .findings
            .iter()
            .enumerate()
            .filter(|(_, finding)| finding.fate == Fate::Blocked)
            .map(|(at, finding)| FeedbackFinding { finding, receipt: self.review.receipts.get(&at) })
            .collect();
        (!blocked.is_empty()).then(|| review::review_feedback(&blocked))
    }

    fn sealed_tree(&mut self, turn: &Turn) -> Result<std::sync::Arc<Manifest>, Fail> {
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        self.tree(sealed.tree)
    }

    /// Whether each finding's quote stands in the file that it names.
    async fn quoted(&mut self, tree: &Manifest, drafts: &[review::Draft]) -> Result<Vec<Quoted>, Fail> {
        let entry = |file: &str| -> Option<Entry> {
            let path = TreePath::new(file).ok()?;
            tree.get(&path).filter(|entry| entry.mode != EntryMode::Symlink).cloned()
        };
        let entries: Vec<Option<Entry>> = drafts.iter().map(|draft| entry(&draft.file)).collect();
        let quotes: Vec<Quote> = entries
            .iter()
            .zip(drafts)
            .filter_map(|(entry, draft)| {
                Some(Quote { content: entry.as_ref()?.digest, text: draft.quote.clone() })
            })
            .collect();
        let mut found = if quotes.is_empty() { Vec::new() } else { self.find(quotes).await? }.into_iter();
        Ok(entries
            .iter()
            .map(|entry| match entry {
                None => Quoted::NoFile,
                Some(_) if found.next() == Some(true) => Quoted::Verbatim,
                Some(_) => Quoted::NotThere,
            })
            .collect())
    }

    async fn find(&mut self, quotes: Vec<Quote>) -> Result<Vec<bool>, Fail> {
        let digests: Vec<Digest> = quotes.iter().map(|quote| quote.content).collect();
        let batch = self.ports.objects.gather(&digests, MAX_FDS)?;
        let fds = batch.files.into_iter().map(Into::into).collect();
        let cell =
            cells::open(self.ports, cells::judging(self.ports), &self.contract, Vec::new(), None).await?;
        let request = Request::FindQuotes { quotes, located: batch.located };
        let reply = cells::ask(cell.as_ref(), &request, fds).await;
        self.see_off(cell);
        let Reply::Quotes { found } = reply? else { return Err(cells::unexpected("quotes")) };
        Ok(found)
    }

    /// A reproduction on a tree, in a room of its own without a network, whatever the contract lets the checks have. The inner
    /// `Err`: this machine could not run it, which says nothing about the tree.
    async fn run_command(
        &mut self,
        tree: Digest,
        argv: &[String],
        stop: &Stop,
    ) -> Result<Result<Ran, String>, Fail> {
        match self.run_quietly(tree, argv, stop).await {
            Ok(ran) => Ok(Ok(ran)),
            Err(Fail::Failed { failure, message }) if failure.reason == Reason::CellDied => Ok(Err(message)),
            Err(fail) => Err(fail),
        }
    }

    async fn run_quietly(&mut self, tree: Digest, argv: &[String], stop: &Stop) -> Result<Ran, Fail> {
        let Some(rooms) = &self.ports.cells.rooms else {
            return Err(Fail::because(Reason::SandboxUnavailable, "no room can be made on this machine"));
        };
        let offline = Contract { network: Network::None, ..self.contract.clone() };
        let cell = cells::open(self.ports, rooms, &offline, self.layers.clone(), None).await?;
        let ran = async {
            let manifest = self.tree(tree)?;
            cells::materialise(cell.as_ref(), &self.ports.objects, &manifest).await?;
            cells::ask(cell.as_ref(), &Request::Watch, Vec::new()).await?;
            let terms = ReproLock::terms(argv, WALL);
            let plan = CheckPlan::new(&terms, &self.contract.environment);
            let receipt =
                self.run_in_room(cell.as_ref(), plan.job(&cells::paths(cell.as_ref())), stop).await?;
            let changed = self.drift_of(cell.as_ref(), &manifest).await?.is_some();
            Ok::<_, Fail>(Ran { receipt, changed })
        }
        .await;
        let ended = cell.end(true).await;
        let ran = ran?;
        ended?;
        Ok(ran)
    }
}
