//! What people and other processes ask of a session: appended in their name, without the lease, while somebody may drive
//! it. A driver takes it in at its next look.

use countersign_kernel::{Authority, Command, Refusal, apply, decide};
use countersign_store::{Append, Loaded, Store, StoreError};
use countersign_types::{PrincipalId, SessionId};

use crate::error::EngineError;
use crate::journal::{MAX_MOVED, new_event, replay, summary};
use crate::ports::{Clock, Ids};

/// What a request needs: nothing that acts.
#[derive(Clone, Copy, Debug)]
pub struct Desk<'a> {
    pub store: &'a dyn Store,
    pub ids: &'a dyn Ids,
    pub clock: &'a dyn Clock,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Recorded,
    /// It was so already; nothing was appended.
    Already,
}

impl Desk<'_> {
    /// Decides a command in somebody's name. `why`: their own words, redacted, kept beside the first event.
    pub async fn ask(
        &self,
        id: &SessionId,
        principal: &PrincipalId,
        command: &Command,
        why: Option<&str>,
    ) -> Result<Asked, EngineError> {
        for _ in 0..MAX_MOVED {
            let loaded = self.store.load(id).await?;
            let authority = countersign_store::Authority::External(principal.clone());
            match self.append(id, &loaded, (Authority::External, authority), command, why).await {
                Ok(()) => return Ok(Asked::Recorded),
                Err(EngineError::Refused(Refusal::NothingDue)) => return Ok(Asked::Already),
                Err(EngineError::Store(StoreError::Moved { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Err(EngineError::Bug(format!("the session moved {MAX_MOVED} times under one request")))
    }

    /// Ends what was under way when the last driver died, and with it a turn that is canceled. False: somebody drives it,
    /// or there is nothing of the kind.
    pub async fn settle(&self, id: &SessionId, holder: &str) -> Result<bool, EngineError> {
        let lease = match self.store.acquire(id, holder).await {
            Ok(lease) => lease,
            Err(StoreError::LeaseHeld { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        for _ in 0..MAX_MOVED {
            let loaded = self.store.load(id).await?;
            let authority = (Authority::Driver, lease.authority());
            match self.append(id, &loaded, authority, &Command::Recover, None).await {
                Ok(()) => return Ok(true),
                Err(EngineError::Refused(_)) => return Ok(false),
                Err(EngineError::Store(StoreError::Moved { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    async fn append(
        &self,
        id: &SessionId,
        loaded: &Loaded,
        (authority, recorded): (Authority, countersign_store::Authority),
        command: &Command,
        why: Option<&str>,
    ) -> Result<(), EngineError> {
        let now = self.clock.now();
        let (mut session, input, _) = replay(self.store, id, &loaded.events).await?;
        let events = decide(&session, authority, command, now).map_err(EngineError::Refused)?;
        let mut stored = Vec::with_capacity(events.len());
        for (position, event) in events.iter().enumerate() {
            apply(&mut session, now, event);
            let why = why.filter(|_| position == 0).map(|why| ("reason", why.as_bytes().to_vec()));
            stored.push(new_event(event, why.into_iter().collect(), self.ids)?);
        }
        let append = Append {
            session: id.clone(),
            expected_seq: loaded.seq,
            authority: recorded,
            at: now,
            events: stored,
            summary: Some(summary(&session, &input)),
            outbox: Vec::new(),
        };
        self.store.append(append).await?;
        Ok(())
    }
}

/// The words that somebody gave with an event of this kind, the last ones.
pub async fn reason_of(store: &dyn Store, id: &SessionId, kind: &str) -> Result<Option<String>, EngineError> {
    let loaded = store.load(id).await?;
    let with = loaded.events.iter().rev().find(|e| e.kind == kind && e.payloads.contains_key("reason"));
    let Some(event) = with else { return Ok(None) };
    match store.payload(id, event.seq, "reason").await {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(StoreError::PayloadDropped { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
