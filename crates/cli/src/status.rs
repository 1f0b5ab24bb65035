//! `status`: where a session stands, what it waits for, who drives it, what it used, and what to do next.

use countersign_kernel::{Session, Turn, TurnStatus};
use countersign_store::{ListFilter, Store as _, StoreError};
use countersign_types::{Digest, Millis, Outcome, Reason, SessionId};
use serde::Serialize;

use crate::args::{Format, StatusArgs, TextOrJson};
use crate::home::Home;
use crate::refusal::Refusal;
use crate::run::{self, session};
use crate::{exit, lease, ports, render, terminal, text};

pub(crate) const STATUS_SCHEMA: &str = "countersign.status/1";

/// Where a session stands. `null` means not there, never zero.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) schema: &'static str,
    pub(crate) session: SessionId,
    pub(crate) turn: u32,
    pub(crate) state: State,
    /// None where nothing has to come from outside.
    pub(crate) waits_for: Option<WaitsFor>,
    /// Who drives it, by their own words; None: nobody does.
    pub(crate) driver: Option<String>,
    /// None while the turn is not over.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) reason: Option<Reason>,
    pub(crate) exit_code: Option<u8>,
    pub(crate) task: String,
    pub(crate) contract: Option<Digest>,
    pub(crate) created_at: Millis,
    pub(crate) updated_at: Millis,
    pub(crate) approved_at: Option<Millis>,
    pub(crate) cancel_requested: bool,
    pub(crate) pause_requested: bool,
    /// What it holds.
    pub(crate) capabilities: Vec<&'static str>,
    /// What it held, and somebody took away.
    pub(crate) revoked: Vec<&'static str>,
    /// Effects whose end is not known yet.
    pub(crate) under_way: Vec<UnderWay>,
    pub(crate) used: Option<Used>,
    /// A retry is not begun before; milliseconds since the Unix epoch.
    pub(crate) not_before: Option<Millis>,
    /// A command that does what is due; None where nothing is.
    pub(crate) next: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Recorded; nothing was approved.
    Ready,
    /// Nobody has driven it yet.
    Approved,
    Preparing,
    Running,
    WaitingRetry,
    Checking,
    /// A pause was asked for, and something is still under way.
    Pausing,
    Parked,
    /// The process that drove it died.
    Lost,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WaitsFor {
    Approval,
    Resume,
    Retry,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct UnderWay {
    pub(crate) effect: String,
    pub(crate) kind: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Used {
    pub(crate) steps: Share<u32>,
    /// Input and output; what is held for calls without an answer counts.
    pub(crate) tokens: Share<u64>,
    pub(crate) tool_actions: Share<u32>,
    pub(crate) output_bytes: Share<u64>,
    pub(crate) active_ms: Share<u64>,
    pub(crate) model_calls: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Share<T> {
    pub(crate) used: T,
    /// None: not limited.
    pub(crate) limit: Option<T>,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Approved => "approved",
            Self::Preparing => "preparing",
            Self::Running => "running",
            Self::WaitingRetry => "waiting for a retry",
            Self::Checking => "checking",
            Self::Pausing => "pausing",
            Self::Parked => "parked",
            Self::Lost => "lost",
            Self::Ended => "ended",
        }
    }

    fn of(turn: &Turn, driven: bool) -> Self {
        match turn.status() {
            TurnStatus::Ended => Self::Ended,
            TurnStatus::Queued => Self::Ready,
            TurnStatus::Parked => Self::Parked,
            _ if turn.drain.is_some() => {
                if driven {
                    Self::Pausing
                } else {
                    Self::Parked
                }
            }
            TurnStatus::Approved if !driven => Self::Approved,
            _ if !driven => Self::Lost,
            TurnStatus::Approved | TurnStatus::Preparing => Self::Preparing,
            TurnStatus::Running => Self::Running,
            TurnStatus::WaitingRetry => Self::WaitingRetry,
            TurnStatus::Checking => Self::Checking,
        }
    }

    const fn waits_for(self) -> Option<WaitsFor> {
        match self {
            Self::Ready => Some(WaitsFor::Approval),
            Self::Approved | Self::Parked | Self::Lost => Some(WaitsFor::Resume),
            Self::WaitingRetry => Some(WaitsFor::Retry),
            _ => None,
        }
    }

    fn next(self, id: &SessionId) -> Option<String> {
        match self {
            Self::Ready => Some(format!("countersign approve {id}")),
            Self::Approved | Self::Parked | Self::Lost => Some(format!("countersign resume {id}")),
            Self::Ended => Some(format!("countersign show {id}")),
            _ => None,
        }
    }
}

impl Status {
    /// Everything that matters on one line.
    pub(crate) fn line(&self) -> String {
        let mut parts = vec![format!("{}  {}", self.session, self.words())];
        if let Some(driver) = &self.driver {
            parts.push(format!("driven by {}", text::one_line(driver, text::LINE)));
        }
        parts.extend(self.next.as_ref().map(|next| format!("next: {next}")));
        parts.join(" · ")
    }

    fn words(&self) -> String {
        let canceling = self.cancel_requested && self.state != State::Ended;
        match (self.outcome, self.reason) {
            (Some(outcome), Some(reason)) => format!("{outcome} ({reason})"),
            _ if canceling => "being canceled".to_owned(),
            _ => self.state.as_str().to_owned(),
        }
    }

    fn for_people(&self) -> String {
        let mut rows = vec![("session", self.session.to_string()), ("state", self.words())];
        rows.push(("driver", self.driver.clone().unwrap_or_else(|| "nobody".to_owned())));
        rows.push(("task", self.task.clone()));
        rows.push(("submitted", ports::time(self.created_at)));
        rows.extend(self.approved_at.map(|at| ("approved", ports::time(at))));
        rows.push(("last event", ports::time(self.updated_at)));
        for UnderWay { effect, kind } in &self.under_way {
            rows.push(("under way", format!("{kind} ({effect})")));
        }
        rows.extend(self.not_before.map(|at| ("retries at", ports::time(at))));
        if let Some(used) = &self.used {
            let active = Share { used: Millis(used.active_ms.used), limit: used.active_ms.limit.map(Millis) };
            rows.push((
                "used",
                format!(
                    "{} steps, {} tokens, {} tool actions, {} active",
                    used.steps.of(),
                    used.tokens.of(),
                    used.tool_actions.of(),
                    active.of()
                ),
            ));
        }
        if !self.capabilities.is_empty() {
            rows.push(("may", self.capabilities.join(" ")));
        }
        if !self.revoked.is_empty() {
            rows.push(("revoked", self.revoked.join(" ")));
        }
        rows.extend(self.next.clone().map(|next| ("next", next)));
        let line = |(name, value): &(&str, String)| format!("{name:<11} {}\n", text::one_line(value, 160));
        rows.iter().map(line).collect()
    }
}

impl<T: std::fmt::Display> Share<T> {
    fn of(&self) -> String {
        match &self.limit {
            Some(limit) => format!("{} of {limit}", self.used),
            None => self.used.to_string(),
        }
    }
}

pub(crate) fn status(args: &StatusArgs) -> u8 {
    let json = args.format == TextOrJson::Json;
    let looked = (|| {
        let home = Home::open()?;
        run::runtime()?.block_on(async {
            match &args.id {
                Some(id) => {
                    session::known(&home, id).await?;
                    Ok(vec![of(&home, id).await?])
                }
                None => open(&home).await,
            }
        })
    })();
    match looked {
        Ok(all) if json && args.id.is_none() => written(&all),
        Ok(all) if json => all.first().map_or(exit::DONE, machine),
        Ok(all) if args.id.is_none() => {
            for status in &all {
                terminal::out_line(&status.line());
            }
            if all.is_empty() {
                terminal::err_line("no session is open: `countersign list` shows those that ended");
            }
            exit::DONE
        }
        Ok(all) => {
            for status in &all {
                terminal::out_bytes(status.for_people().as_bytes());
            }
            exit::DONE
        }
        Err(refusal) => render::refused(if json { Format::Json } else { Format::Text }, &refusal),
    }
}

/// Prints it as one JSON object.
pub(crate) fn machine(status: &Status) -> u8 {
    written(status)
}

fn written(value: &impl Serialize) -> u8 {
    match serde_json::to_string(value) {
        Ok(line) => {
            terminal::out_line(&line);
            exit::DONE
        }
        Err(error) => render::refused(Format::Json, &Refusal::bug(error.to_string())),
    }
}

/// Rows that are read at a time.
const PAGE: u32 = 500;

/// Every session that is not over, newest first.
async fn open(home: &Home) -> Result<Vec<Status>, Refusal> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let filter = ListFilter { limit: PAGE, after: after.clone(), ..ListFilter::default() };
        let page = home.store.sessions(filter).await?;
        let Some(last) = page.last() else { return Ok(all) };
        after = Some(last.id.clone());
        for row in page.iter().filter(|row| row.summary.get("outcome").is_none_or(|o| o.is_null())) {
            all.push(of(home, &row.id).await?);
        }
    }
}

/// Where one session stands now.
pub(crate) async fn of(home: &Home, id: &SessionId) -> Result<Status, Refusal> {
    // Asked for before the journal is read, because a driver commits the end before it lets go.
    let driver = driver(home, id).await;
    let view = countersign_engine::view(home.store.as_ref(), id).await?;
    let ended = view.outcome.filter(|(outcome, _)| *outcome != Outcome::Parked);
    let mut status = Status {
        schema: STATUS_SCHEMA,
        session: id.clone(),
        turn: view.turn.0,
        state: State::Ended,
        waits_for: None,
        driver,
        outcome: ended.map(|(outcome, _)| outcome),
        reason: ended.map(|(_, reason)| reason),
        exit_code: ended.map(|(outcome, _)| outcome.exit_code()),
        task: text::one_line(&view.input, text::LINE),
        contract: None,
        created_at: view.created_at,
        updated_at: view.updated_at,
        approved_at: None,
        cancel_requested: false,
        pause_requested: false,
        capabilities: Vec::new(),
        revoked: Vec::new(),
        under_way: Vec::new(),
        used: None,
        not_before: None,
        next: Some(format!("countersign show {id}")),
    };
    if let Some(session) = &view.session {
        status.contract = session.contract.digest().ok();
        if let Some(turn) = &session.turn {
            status.take(session, turn, view.active_ms);
        }
    }
    Ok(status)
}

impl Status {
    fn take(&mut self, session: &Session, turn: &Turn, active: Millis) {
        let limits = &session.contract.limits;
        self.state = State::of(turn, self.driver.is_some());
        self.waits_for = self.state.waits_for();
        self.next = self.state.next(&self.session);
        self.approved_at = turn.approved_at;
        self.cancel_requested = turn.cancel.is_some();
        self.pause_requested = turn.drain.is_some();
        self.capabilities = turn.capabilities.iter().map(|capability| capability.as_str()).collect();
        self.revoked = turn.revoked.iter().map(|capability| capability.as_str()).collect();
        self.not_before = turn.not_before;
        self.under_way = turn
            .outstanding
            .iter()
            .map(|(effect, under_way)| UnderWay { effect: effect.to_string(), kind: under_way.kind.name() })
            .collect();
        let budget = &turn.budget;
        self.used = Some(Used {
            steps: Share { used: turn.step, limit: Some(limits.turns) },
            tokens: Share { used: budget.counted_tokens(), limit: limits.tokens },
            tool_actions: Share { used: budget.tool_actions, limit: Some(limits.tool_actions) },
            output_bytes: Share { used: budget.output_bytes, limit: Some(limits.output_bytes) },
            active_ms: Share { used: active.0, limit: Some(limits.deadline.0) },
            model_calls: budget.model_calls,
        });
    }
}

/// Who holds the session's lease. It is asked for only where somebody does, which changes nothing then.
async fn driver(home: &Home, id: &SessionId) -> Option<String> {
    if !lease::held(home, id) {
        return None;
    }
    match home.store.acquire(id, "status").await {
        Err(StoreError::LeaseHeld { holder, .. }) => Some(holder),
        // It was given back in this moment; or the store says later what is wrong.
        Ok(_) | Err(_) => None,
    }
}
