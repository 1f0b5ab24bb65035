//! The agent's side of a turn: its cell, the model's calls, and the tools.

use std::sync::Arc;

use countersign_cell::Cell;
use countersign_gates::job_env;
use countersign_guest::protocol::{Reply, Request, ToolBounds};
use countersign_kernel::{
    EffectFailure, EffectKind, EffectResult, ModelStop, PlannedCall, Session, ToolName, Turn, Usage,
};
use countersign_llm::{ErrorClass, Reply as ModelReply, RetryPolicy, SendError, Stop as ModelEnd};
use countersign_tools::{Parsed, ToolCallSpec};
use countersign_types::{Digest, EffectId, JobEnd, Millis, Reason};
use futures::future::join;

use crate::cells::{self, Fail};
use crate::edited;
use crate::perform::{Outcome, summary_of};
use crate::prompt;
use crate::stop::Stop;
use crate::transcript::call_index;
use crate::workshop::{BaseFacts, Workshop};
use crate::{CrashPoint, Trace};

impl Workshop<'_> {
    /// The working cell with the latest checkpoint in it.
    pub(crate) async fn open(&mut self, turn: &Turn) -> Outcome {
        if let Some(old) = self.working.take() {
            self.see_off(old);
        }
        let head =
            turn.head.ok_or_else(|| Fail::because(Reason::CheckpointLost, "there is no checkpoint"))?;
        let tree = self.tree(head)?;
        let base = self.facts()?.tree;
        let commit = turn.base.as_ref().and_then(|base| base.commit.clone());
        let from_git = commit.is_some();
        // The private repository shows the base; what the checkpoint changed on top of it shows as a change.
        let resumed = head != base.digest();
        let cell = match self.spare.take() {
            Some(cell) if !resumed => cell,
            spare => {
                if let Some(spare) = spare {
                    self.see_off(spare);
                }
                let cell = self.open_working(from_git).await?;
                let first = if resumed { &base } else { &tree };
                cells::materialise(cell.as_ref(), &self.ports.objects, first).await?;
                cell
            }
        };
        self.working = Some(Arc::clone(&cell));
        let git = Request::InitPrivateGit {
            git_dir: from_git.then(|| cells::git_dir(self.ports, self.ports.cells.working.tier())),
            commit,
        };
        if resumed {
            cells::ask(cell.as_ref(), &git, Vec::new()).await?;
            cells::materialise(cell.as_ref(), &self.ports.objects, &tree).await?;
        } else if !prompt::read_only(&self.contract) {
            let cell = Arc::clone(&cell);
            self.private_git =
                Some(Box::pin(async move { cells::ask(cell.as_ref(), &git, Vec::new()).await.map(|_| ()) }));
        }
        let observed = cell.observation().await.properties;
        Ok((EffectResult::Open { tier: self.ports.cells.working.tier(), observed }, Vec::new()))
    }

    /// Waits for the private repository before anything else may use the cell.
    pub(crate) async fn ready(&mut self) -> Result<Arc<dyn Cell>, Fail> {
        if let Some(private_git) = self.private_git.take() {
            private_git.await?;
        }
        self.working.clone().ok_or_else(|| Fail::because(Reason::CellDied, "the working cell is gone"))
    }

    pub(crate) async fn model_call(&mut self, turn: &Turn, effect: EffectId, stop: &Stop) -> Outcome {
        let request = match self.encoded.get(&effect) {
            Some(bytes) => Arc::clone(bytes),
            None => return Err(Fail::because(Reason::CellDied, "the request's bytes are gone")),
        };
        let number = turn.budget.position();
        let provider = Arc::clone(&self.ports.provider);
        let mut git = self.private_git.take();
        let meanwhile = async {
            let Some(pending) = git.as_mut() else { return Ok(()) };
            let made = pending.await;
            git = None;
            made
        };
        // The repository is made while the model thinks; its failure is the cell's.
        let both = join(provider.send(number, request), meanwhile);
        let Some((sent, made)) = stop.or(both).await else {
            // The guest may be in the middle of a request. Who uses the cell next, after a deadline, waits for its end.
            self.private_git = git;
            return Err(Fail::Interrupted);
        };
        if let Err(fail) = made {
            // The answer is paid for and stays; whoever uses the cell next meets its failure.
            self.private_git = Some(Box::pin(std::future::ready(Err(fail))));
        }
        match sent {
            Ok(reply) => self.replied(turn, effect, number, &reply),
            Err(error) => Err(self.not_sent(turn, &error)),
        }
    }

    pub(crate) fn replied(
        &mut self,
        turn: &Turn,
        effect: EffectId,
        number: u64,
        reply: &ModelReply,
    ) -> Outcome {
        // Redacted once, at the source: transcript, journal and replay see the same bytes.
        let raw = self.ports.redactor.redact(&reply.raw).into_owned();
        let reply = self
            .ports
            .provider
            .decode(number, &raw)
            .map_err(|e| self.not_sent(turn, &SendError::new(ErrorClass::BadResponse, &e.message)))?;
        let specs: Vec<ToolCallSpec> = reply.calls.iter().map(|call| self.parse(call)).collect();
        let text = reply.text.clone().unwrap_or_default();
        let usage = Usage {
            input: reply.usage.input,
            output: reply.usage.output,
            cached: reply.usage.cached,
            cache_write: reply.usage.cache_write,
            reasoning: reply.usage.reasoning,
        };
        let stop = match &reply.stop {
            ModelEnd::Refusal | ModelEnd::ContentFilter => ModelStop::Declined,
            ModelEnd::Length => ModelStop::Length,
            ModelEnd::Paused => ModelStop::Paused,
            ModelEnd::End | ModelEnd::ToolCalls | ModelEnd::Other(_) => ModelStop::Ordinary,
        };
        let calls: Vec<PlannedCall> = specs.iter().map(|spec| spec.planned).collect();
        let listed: Vec<String> =
            specs.iter().map(|spec| format!("{} {}", spec.planned.tool, spec.summary)).collect();
        let mut named = vec![("reply", raw)];
        if !text.is_empty() {
            named.push(("text", text.clone().into_bytes()));
        }
        if !listed.is_empty() {
            named.push(("calls", listed.join("\n").into_bytes()));
        }
        if let Some(summary) = specs.iter().find_map(|spec| match &spec.parsed {
            Parsed::Finish { summary } => Some(summary.clone()),
            _ => None,
        }) {
            named.push(("summary", summary.into_bytes()));
        }
        self.replies.insert(effect, reply.clone());
        let result = EffectResult::ModelCall {
            usage,
            cost: reply.cost,
            stop,
            calls,
            text_bytes: text.trim().len() as u64,
            reasoning: reply.reasoning.map(|plain| self.hide(plain)),
        };
        Ok((result, named))
    }

    pub(crate) fn not_sent(&self, turn: &Turn, error: &SendError) -> Fail {
        let policy =
            RetryPolicy { max_retries: self.contract.limits.model_retries, ..RetryPolicy::default() };
        let seed = self.ports.ids.bytes();
        let jitter =
            u64::from_le_bytes([seed[0], seed[1], seed[2], seed[3], seed[4], seed[5], seed[6], seed[7]]);
        let failures = turn.retries.saturating_add(1);
        let reason = match error.class {
            ErrorClass::Auth => Reason::Auth,
            ErrorClass::RateLimit => Reason::RateLimit,
            ErrorClass::QuotaExhausted => Reason::QuotaExhausted,
            ErrorClass::Overloaded => Reason::Overloaded,
            ErrorClass::Transport => Reason::Transport,
            ErrorClass::BadResponse => Reason::BadResponse,
            ErrorClass::ContextOverflow => Reason::Context,
            ErrorClass::Refused => Reason::Declined,
        };
        let failure = EffectFailure {
            reason,
            retry_after: policy.next_after(error, failures, jitter),
            reset_at: error.reset_at,
            billed: error.maybe_billed,
        };
        Fail::Failed { failure, message: error.message.clone() }
    }

    pub(crate) async fn traced_tool(
        &mut self,
        session: &Session,
        turn: &Turn,
        effect: EffectId,
        tool: ToolName,
        stop: &Stop,
    ) -> Outcome {
        let began = self.ports.clock.now();
        let spec = self.spec_of(turn, effect).map_err(|e| Fail::because(Reason::CellDied, e.to_string()))?;
        let summary = self.ports.redactor.redact_str(&spec.summary).into_owned();
        let arguments = self.transcript().call(call_index(effect)).map(|call| call.arguments.clone());
        let arguments = self.ports.redactor.redact_str(&arguments.unwrap_or_default()).into_owned();
        let call = Trace::Call { effect, tool, summary: &summary, arguments: &arguments };
        self.ports.observer.see(session, call);
        let outcome = self.tool(turn, effect, tool, stop).await;
        if let Ok((EffectResult::Tool { ok, .. }, _)) = &outcome {
            let wall: Millis = self.ports.clock.now().saturating_sub(began);
            let text = self.results.get(&effect).map(|(text, _)| text.as_str()).unwrap_or_default();
            self.ports.observer.see(session, Trace::Result { effect, tool, ok: *ok, text, wall });
        }
        outcome
    }

    pub(crate) async fn tool(
        &mut self,
        turn: &Turn,
        effect: EffectId,
        tool: ToolName,
        stop: &Stop,
    ) -> Outcome {
        let spec = self.spec_of(turn, effect).map_err(|e| Fail::because(Reason::CellDied, e.to_string()))?;
        let mut silent = false;
        let (mut repro, mut kept) = (None, None);
        let (text, ok, refused, job, wrote) = match &spec.parsed {
            Parsed::Invalid { why } => (format!("error: {why}"), false, true, None, false),
            Parsed::Finish { .. } => {
                ("The work ends here and is judged as it is.".to_owned(), true, false, None, false)
            }
            Parsed::Check => self.check_call(turn, stop).await?,
            Parsed::DeclareRepro { paths, argv } => {
                let said = self.declare_repro(turn, paths, argv, stop).await?;
                (repro, kept) = (said.mark, said.kept);
                (said.text, repro.is_some(), said.refused, None, false)
            }
            Parsed::SkipRepro { reason } => {
                let said = self.skip_repro(turn, reason)?;
                (repro, kept) = (said.mark, said.kept);
                (said.text, repro.is_some(), said.refused, None, false)
            }
            Parsed::File(call) => {
                let cell = self.ready().await?;
                let BaseFacts { tree, guard, .. } = self.facts()?;
                let workspace = cells::paths(cell.as_ref()).workspace;
                let side = edited::Side::of(call, &workspace, &guard, &tree, &self.ports.objects)?;
                let request = Request::Tool {
                    call: call.clone(),
                    bounds: ToolBounds::DEFAULT,
                    guard: guard.as_ref().clone(),
                    base: side.base,
                    located: side.located,
                };
                let Reply::Tool(reply) = cells::ask(cell.as_ref(), &request, side.fds).await? else {
                    return Err(cells::unexpected("a tool call"));
                };
                (reply.text, reply.ok, reply.refused, None, reply.wrote)
            }
            Parsed::Run { command, timeout } => {
                let cell = self.ready().await?;
                let limit = self.contract.limits.command_timeout;
                let wall = timeout.map_or(limit, |asked| asked.min(limit));
                let argv = vec!["sh".to_owned(), "-c".to_owned(), command.clone()];
                let paths = cells::paths(cell.as_ref());
                let env = job_env(&self.contract.environment, &paths);
                let job = cells::job(self.ports, argv, paths.workspace, env, wall)?;
                let receipt = cells::run_job(cell.as_ref(), job, stop).await?;
                let receipt = cells::redacted(&self.ports.redactor, receipt);
                silent = receipt.stdout.total == 0 && receipt.stderr.total == 0;
                let ok = matches!(receipt.end, JobEnd::Exited { code: 0 });
                (countersign_tools::job_result(&receipt), ok, false, Some(summary_of(&receipt.end)), true)
            }
        };
        let text = self.ports.redactor.redact_str(&text).into_owned();
        // Whatever may have written leaves a checkpoint that is durable before this effect's completion.
        let tree = if wrote && tool.may_write() { Some(self.checkpoint(turn).await?) } else { None };
        if tree.is_some() {
            self.ports.crashes.reach(CrashPoint::AfterCheckpoint, Some(EffectKind::Tool { tool }));
        }
        let said = if silent { None } else { countersign_tools::said(&text) };
        let said = said.map(|plain| self.hide(plain));
        let result =
            EffectResult::Tool { ok, refused, tree, output_bytes: text.len() as u64, job, said, repro };
        self.results.insert(effect, (text.clone(), ok));
        let mut named = vec![("result", text.into_bytes())];
        named.extend(kept.map(|kept| ("repro", kept)));
        Ok((result, named))
    }

    pub(crate) async fn checkpoint(&mut self, turn: &Turn) -> Result<Digest, Fail> {
        let cell = self.ready().await?;
        let head =
            turn.head.ok_or_else(|| Fail::because(Reason::CheckpointLost, "there is no checkpoint"))?;
        let before = self.tree(head)?;
        let scratch = self.scratch()?;
        let (sealed, tree) =
            cells::seal(cell.as_ref(), &self.ports.objects, &before, &scratch, false).await?;
        self.keep(sealed.tree, tree);
        Ok(sealed.tree)
    }
}
