//! The reviewer's side of a turn: what it is shown, and the questions to it. What its answers are worth is in `findings`.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_gates::review::{self, ReviewFinding};
use countersign_guest::protocol::{MAX_FDS, Material, PatchChange, Reply, Request};
use countersign_kernel::{EffectKind, EffectResult, Event, ReviewAnswer, ReviewCall, Turn, Usage};
use countersign_llm::{
    Conversation, ErrorClass, Message, Provider, Reply as ModelReply, SendError, Stop as ModelEnd,
};
use countersign_types::{EffectId, JobReceipt, Reason, SessionId};

use crate::cells::{self, Fail};
use crate::error::EngineError;
use crate::perform::Outcome;
use crate::stop::Stop;
use crate::workshop::Workshop;

/// Letters of the digest that mark what a reviewer is shown. No file can hold the digest of the tree that it lies in.
const MARK: usize = 16;

/// What a driver holds of a review.
#[derive(Debug, Default)]
pub(crate) struct ReviewMemory {
    brief: Option<String>,
    /// The first answer of this round, as the second question repeats it.
    first: Option<ModelReply>,
    /// The texts of this round's answers.
    pub(crate) answers: BTreeMap<ReviewCall, String>,
    /// Of all rounds, in the order in which they came.
    pub(crate) findings: Vec<ReviewFinding>,
    /// What reproductions printed last, by the finding's position.
    pub(crate) receipts: BTreeMap<usize, JobReceipt>,
}

impl ReviewMemory {
    /// What was found stays; the next review sees another tree.
    pub(crate) fn begin_round(&mut self) {
        self.brief = None;
        self.first = None;
        self.answers.clear();
    }

    fn take_answer(&mut self, call: ReviewCall, reply: ModelReply) {
        self.answers.insert(call, reply.text.clone().unwrap_or_default());
        if call == ReviewCall::Findings {
            self.first = Some(reply);
        }
    }
}

impl Workshop<'_> {
    fn reviewer(&self) -> Option<Arc<dyn Provider>> {
        self.ports.reviewer.clone()
    }

    /// The findings of this round that the second question is about.
    pub(crate) fn asked(&self, round: u32) -> Vec<usize> {
        let all = self.review.findings.iter().enumerate();
        all.filter(|(_, finding)| finding.round == round && finding.asked).map(|(at, _)| at).collect()
    }

    /// The bytes of a question. They follow from the brief and the answers, which the journal has.
    pub(crate) fn review_request(&self, turn: &Turn, call: ReviewCall) -> Result<Vec<u8>, EngineError> {
        let gone = || EngineError::Bug("the reviewer's brief or its answer is gone".to_owned());
        let reviewer = self.reviewer().ok_or_else(gone)?;
        let mut messages = vec![Message::user(self.review.brief.clone().ok_or_else(gone)?)];
        if call == ReviewCall::Repros {
            messages.push(Message::assistant(self.review.first.as_ref().ok_or_else(gone)?));
            let asked = self.asked(turn.review.rounds);
            let asked: Vec<&ReviewFinding> =
                asked.iter().filter_map(|at| self.review.findings.get(*at)).collect();
            messages.push(Message::user(review::solicitation(&asked)));
        }
        let conversation = Conversation {
            system: review::system(),
            tools: Vec::new(),
            messages,
            max_output_tokens: self.contract.review.as_ref().and_then(|terms| terms.model.max_output_tokens),
            effort: None,
        };
        reviewer
            .encode(&conversation)
            .map_err(|e| EngineError::Bug(format!("the reviewer's request cannot be written: {e}")))
    }

    /// What the reviewer is shown: gathered in a cell, within bounds, without a word of the agent.
    pub(crate) async fn review_brief(&mut self, turn: &Turn) -> Outcome {
        let base = self.facts()?.tree;
        let sealed = turn.sealed.ok_or_else(|| Fail::because(Reason::CheckpointLost, "nothing is sealed"))?;
        let tree = self.tree(sealed.tree)?;
        let changes: Vec<PatchChange> = base
            .changes_to(&tree)
            .into_iter()
            .map(|change| PatchChange { path: change.path, before: change.before, after: change.after })
            .collect();
        let digests: Vec<_> =
            changes.iter().flat_map(|c| [&c.before, &c.after]).flatten().map(|entry| entry.digest).collect();
        let batch = self.ports.objects.gather(&digests, MAX_FDS)?;
        let fds = batch.files.into_iter().map(Into::into).collect();
        let request = Request::ReviewMaterial { changes, located: batch.located };
        let cell =
            cells::open(self.ports, cells::judging(self.ports), &self.contract, Vec::new(), None).await?;
        let reply = cells::ask(cell.as_ref(), &request, fds).await;
        self.see_off(cell);
        let Reply::Material(material) = reply? else { return Err(cells::unexpected("a change to review")) };
        let text = self.brief_of(&material, &sealed.tree.hex());
        let cut = material.diff_cut || material.left_out > 0 || material.files.iter().any(|file| file.cut);
        let bytes = text.len() as u64;
        let named = vec![("brief", text.clone().into_bytes())];
        self.review.brief = Some(text);
        Ok((EffectResult::ReviewBrief { bytes, cut }, named))
    }

    fn brief_of(&self, material: &Material, tree: &str) -> String {
        // Finished work comes without a task.
        let task = if self.contract.candidate.is_some() { "" } else { self.task.as_str() };
        let checks: Vec<Vec<String>> = self.contract.checks.iter().map(|check| check.argv.clone()).collect();
        let mark = tree.get(..MARK).unwrap_or(tree);
        let text = review::brief(task, &checks, material, mark);
        self.ports.redactor.redact_str(&text).into_owned()
    }

    /// One question to the reviewer.
    pub(crate) async fn review_call(
        &mut self,
        turn: &Turn,
        effect: EffectId,
        call: ReviewCall,
        stop: &Stop,
    ) -> Outcome {
        // Whatever comes of a second question, what was confirmed before it may be what the agent gets.
        self.feedback = self.standing_feedback();
        let Some(reviewer) = self.reviewer() else {
            return Err(Fail::because(Reason::Config, "there is no reviewer"));
        };
        let Some(request) = self.encoded.remove(&effect) else {
            return Err(Fail::because(Reason::CellDied, "the request's bytes are gone"));
        };
        let number = turn.review.budget.position();
        let Some(sent) = stop.or(reviewer.send(number, request)).await else { return Err(Fail::Interrupted) };
        let reply = sent.map_err(|error| self.not_sent(turn, &error))?;
        let raw = self.ports.redactor.redact(&reply.raw).into_owned();
        let reply = reviewer
            .decode(number, &raw)
            .map_err(|e| self.not_sent(turn, &SendError::new(ErrorClass::BadResponse, &e.message)))?;
        let text = reply.text.clone().unwrap_or_default();
        let (answer, findings, detail) = match &reply.stop {
            ModelEnd::Refusal | ModelEnd::ContentFilter => {
                (ReviewAnswer::Declined, 0, "the reviewer declined".to_owned())
            }
            _ => {
                let read = match call {
                    ReviewCall::Findings => review::findings(&text).map(|answer| answer.findings.len()),
                    ReviewCall::Repros => {
                        review::repros(&text, self.asked(turn.review.rounds).len()).map(|all| all.len())
                    }
                };
                match read {
                    Ok(count) => (ReviewAnswer::Findings, count, String::new()),
                    Err(why) => (ReviewAnswer::Junk, 0, format!("the reviewer's answer is of no use: {why}")),
                }
            }
        };
        let usage = Usage {
            input: reply.usage.input,
            output: reply.usage.output,
            cached: reply.usage.cached,
            cache_write: reply.usage.cache_write,
            reasoning: reply.usage.reasoning,
        };
        let findings = u32::try_from(findings).unwrap_or(u32::MAX);
        let result = EffectResult::ReviewCall { usage, cost: reply.cost, answer, findings };
        let mut named = vec![("reply", raw)];
        if !detail.is_empty() {
            named.push(("detail", detail.into_bytes()));
        }
        self.review.take_answer(call, reply);
        Ok((result, named))
    }

    /// After a resume: what was found, and how far the review of this attempt has come.
    pub(crate) async fn restore_review(
        &mut self,
        id: &SessionId,
        events: &[(u64, Event)],
    ) -> Result<(), EngineError> {
        let Some(reviewer) = self.reviewer() else { return Ok(()) };
        let store = Arc::clone(&self.ports.store);
        let mut calls: BTreeMap<EffectId, (u64, ReviewCall)> = BTreeMap::new();
        let mut next = 0;
        for (seq, event) in events {
            match event {
                Event::AttemptReturned { .. } => self.review.begin_round(),
                Event::EffectIntended { effect, kind: EffectKind::ReviewCall { call }, .. } => {
                    calls.insert(*effect, (next, *call));
                    next += 1;
                }
                Event::EffectForfeited { effect } if calls.contains_key(effect) => next -= 1,
                Event::EffectCompleted { result: EffectResult::ReviewBrief { .. }, .. } => {
                    let brief = store.payload(id, *seq, "brief").await?;
                    self.review.brief = Some(String::from_utf8_lossy(&brief).into_owned());
                }
                Event::EffectCompleted { effect, result: EffectResult::ReviewCall { .. } } => {
                    let Some((number, call)) = calls.get(effect) else { continue };
                    let raw = store.payload(id, *seq, "reply").await?;
                    let reply = reviewer.decode(*number, &raw).map_err(|e| {
                        EngineError::Bug(format!("the stored answer of {effect} cannot be read: {e}"))
                    })?;
                    self.review.take_answer(*call, reply);
                }
                Event::EffectCompleted {
                    result: EffectResult::ReviewJudge { .. } | EffectResult::ReviewRecheck { .. },
                    ..
                } => {
                    let kept = store.payload(id, *seq, "findings").await?;
                    self.review.findings =
                        serde_json::from_slice(&kept).map_err(|error| EngineError::Bug(error.to_string()))?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
