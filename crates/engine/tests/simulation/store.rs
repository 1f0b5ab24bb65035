//! The store as one process reaches it: slow, sometimes without an answer, and watched.

use std::sync::Arc;

use countersign_store::{
    Append, Appended, Authority, EventPage, Lease, LeaseGuard, ListFilter, Loaded, NewSession, OutboxRow,
    Revealed, SessionRow, Store, StoreError,
};
use countersign_types::{Digest, SessionId};
use futures::future::{BoxFuture, FutureExt as _};

use super::world::{Process, World};

#[derive(Debug)]
pub struct SimStore {
    pub world: Arc<World>,
    pub process: Arc<Process>,
}

/// A lease as its process holds it. A process that was killed gives nothing back: others wait out the term.
#[derive(Debug)]
struct Held {
    lease: Option<Lease>,
    world: Arc<World>,
    process: Arc<Process>,
}

impl LeaseGuard for Held {
    fn term(&self) -> Option<std::time::Duration> {
        self.lease.as_ref().and_then(Lease::term)
    }

    fn renew(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            self.world.pause(5).await;
            match &self.lease {
                Some(lease) => match lease.renew().await {
                    Err(StoreError::Fenced { .. }) if self.world.story.unfenced_store => Ok(()),
                    renewed => renewed,
                },
                None => Err(StoreError::Closed),
            }
        }
        .boxed()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take()
            && !self.process.lives()
            && lease.term().is_some()
        {
            self.world.leave_behind(lease);
        }
    }
}

impl Store for SimStore {
    fn create(&self, session: NewSession) -> BoxFuture<'_, Result<(), StoreError>> {
        self.world.store.create(session)
    }

    fn begin(&self, session: NewSession, append: Append) -> BoxFuture<'_, Result<Appended, StoreError>> {
        self.world.store.begin(session, append)
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<Appended, StoreError>> {
        async move {
            self.world.pause(3).await;
            let (session, authority) = (append.session.clone(), append.authority.clone());
            let mut appended = self.world.store.append(append.clone()).await;
            if let Err(StoreError::Fenced { .. }) = appended
                && self.world.story.unfenced_store
            {
                let authority = Authority::Lease(self.world.fence());
                appended = self.world.store.append(Append { authority, ..append }).await;
            }
            let appended = appended?;
            if let Authority::Lease(fence) = authority {
                self.world.appended(fence);
            }
            if self.world.loses_the_answer() {
                let database = "simulated".to_owned();
                return Err(StoreError::CommitUnknown {
                    session,
                    database,
                    what: "its answer was lost".to_owned(),
                });
            }
            self.world.pause(3).await;
            Ok(appended)
        }
        .boxed()
    }

    fn load(&self, session: &SessionId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        let session = session.clone();
        async move {
            self.world.pause(3).await;
            self.world.store.load(&session).await
        }
        .boxed()
    }

    fn events(&self, id: &SessionId, after: u64, limit: u32) -> BoxFuture<'_, Result<EventPage, StoreError>> {
        self.world.store.events(id, after, limit)
    }

    fn reveal(&self, id: &SessionId, seq: u64, name: &str) -> BoxFuture<'_, Result<Revealed, StoreError>> {
        self.world.store.reveal(id, seq, name)
    }

    fn drop_payload(&self, id: &SessionId, seq: u64, name: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        self.world.store.drop_payload(id, seq, name)
    }

    fn session(&self, session: &SessionId) -> BoxFuture<'_, Result<SessionRow, StoreError>> {
        self.world.store.session(session)
    }

    fn sessions(&self, filter: ListFilter) -> BoxFuture<'_, Result<Vec<SessionRow>, StoreError>> {
        self.world.store.sessions(filter)
    }

    fn put_blob(&self, bytes: Vec<u8>) -> BoxFuture<'_, Result<Digest, StoreError>> {
        self.world.store.put_blob(bytes)
    }

    fn get_blob(&self, digest: &Digest) -> BoxFuture<'_, Result<Vec<u8>, StoreError>> {
        self.world.store.get_blob(digest)
    }

    fn acquire(&self, session: &SessionId, holder: &str) -> BoxFuture<'_, Result<Lease, StoreError>> {
        let (session, holder) = (session.clone(), holder.to_owned());
        async move {
            self.world.pause(3).await;
            let lease = self.world.store.acquire(&session, &holder).await?;
            let fence = lease.fence;
            self.world.granted(&self.process, fence);
            let held = Held {
                lease: Some(lease),
                world: Arc::clone(&self.world),
                process: Arc::clone(&self.process),
            };
            Ok(Lease::new(session, fence, Box::new(held)))
        }
        .boxed()
    }

    fn outbox(&self, limit: u32) -> BoxFuture<'_, Result<Vec<OutboxRow>, StoreError>> {
        self.world.store.outbox(limit)
    }

    fn outbox_done(&self, id: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        self.world.store.outbox_done(id)
    }
}
