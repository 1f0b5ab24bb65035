//! The effect boundary: the only place that acts. One function per kind of effect (in `agent`, `judge` and `setup`),
//! each total: a result, a typed failure, or an interruption.

use std::sync::Arc;

use countersign_kernel::{EffectKind, EffectResult, JobSummary, ReceiptBody, Session, Turn};
use countersign_types::{EffectId, JobEnd};
use futures::future::{join, join_all};

use crate::Trace;
use crate::cells::Fail;
use crate::crash;
use crate::stop::Stop;
use crate::workshop::Workshop;

/// The patch of a turn, below its session's directory.
pub const PATCH_FILE: &str = "patch.diff";

/// One effect's receipt with the texts that go beside it.
pub(crate) struct Done {
    pub(crate) effect: EffectId,
    pub(crate) body: ReceiptBody,
    pub(crate) named: Vec<(&'static str, Vec<u8>)>,
}

pub(crate) struct Performed {
    pub(crate) receipts: Vec<Done>,
    pub(crate) feedback: Option<String>,
}

pub(crate) type Named = Vec<(&'static str, Vec<u8>)>;
pub(crate) type Outcome = Result<(EffectResult, Named), Fail>;

impl Workshop<'_> {
    /// Carries effects out in slot order. After a stop the rest is interrupted, not begun.
    pub(crate) async fn perform(
        &mut self,
        session: &Session,
        effects: &[EffectId],
        stop: &Stop,
    ) -> Performed {
        let mut receipts = Vec::with_capacity(effects.len());
        for effect in effects {
            let Some(turn) = &session.turn else { break };
            let Some(outstanding) = turn.outstanding.get(effect) else { continue };
            let outcome = if stop.is_set() {
                Err(Fail::Interrupted)
            } else {
                let closing = join_all(std::mem::take(&mut self.closing));
                let crashes = Arc::clone(&self.ports.crashes);
                let acting = self.act(session, turn, *effect, outstanding.kind, stop);
                let acting = stop.unless_halted(crash::during(crashes.as_ref(), outstanding.kind, acting));
                let acted = join(acting, closing).await.0;
                acted.unwrap_or_else(|| {
                    self.give_up_cells();
                    Err(Fail::Interrupted)
                })
            };
            receipts.push(match outcome {
                Ok((result, named)) => Done { effect: *effect, body: ReceiptBody::Done(result), named },
                Err(Fail::Interrupted) => {
                    Done { effect: *effect, body: ReceiptBody::Interrupted, named: Vec::new() }
                }
                Err(Fail::Failed { failure, message }) => {
                    let message = self.ports.redactor.redact_str(&message).into_owned();
                    Done {
                        effect: *effect,
                        body: ReceiptBody::Failed(failure),
                        named: vec![("message", message.into_bytes())],
                    }
                }
            });
        }
        Performed { receipts, feedback: self.feedback.take() }
    }

    pub(crate) async fn act(
        &mut self,
        session: &Session,
        turn: &Turn,
        effect: EffectId,
        kind: EffectKind,
        stop: &Stop,
    ) -> Outcome {
        match kind {
            EffectKind::Import => stop.or(self.import()).await.unwrap_or(Err(Fail::Interrupted)),
            EffectKind::Setup => self.setup(turn, stop).await,
            EffectKind::Probe => self.probe(turn, stop).await,
            EffectKind::BaseRun { check } => self.base_run(turn, check, stop).await,
            EffectKind::Candidate => stop.or(self.candidate(turn)).await.unwrap_or(Err(Fail::Interrupted)),
            EffectKind::Open => stop.or(self.open(turn)).await.unwrap_or(Err(Fail::Interrupted)),
            EffectKind::ModelCall => {
                let outcome = self.model_call(turn, effect, stop).await;
                if let Some(text) = self.replies.get(&effect).and_then(|reply| reply.text.as_deref()) {
                    self.ports.observer.see(session, Trace::Said { step: effect.step, text });
                }
                outcome
            }
            EffectKind::Tool { tool } => self.traced_tool(session, turn, effect, tool, stop).await,
            EffectKind::Seal => self.seal(turn).await,
            EffectKind::Inspect => stop.or(self.inspect(turn)).await.unwrap_or(Err(Fail::Interrupted)),
            EffectKind::Room { check } => self.room(turn, check, stop).await,
            EffectKind::Mutants => self.mutants(turn, stop).await,
            EffectKind::Repro => self.repro(turn, stop).await,
            EffectKind::ReviewBrief => {
                stop.or(self.review_brief(turn)).await.unwrap_or(Err(Fail::Interrupted))
            }
            EffectKind::ReviewCall { call } => self.review_call(turn, effect, call, stop).await,
            EffectKind::ReviewJudge { call } => self.review_judge(turn, call, stop).await,
            EffectKind::ReviewRecheck => self.review_recheck(turn, stop).await,
            EffectKind::Patch => stop.or(self.patch(turn)).await.unwrap_or(Err(Fail::Interrupted)),
        }
    }
}

/// How a job ended, without its output.
pub(crate) const fn summary_of(end: &JobEnd) -> JobSummary {
    match end {
        JobEnd::Exited { code } => JobSummary::Exited { code: *code },
        JobEnd::Signaled { signal } => JobSummary::Signaled { signal: *signal },
        JobEnd::Limit { .. } => JobSummary::Limited,
        JobEnd::Canceled => JobSummary::Canceled,
        JobEnd::NotStarted { .. } => JobSummary::NotStarted,
    }
}
