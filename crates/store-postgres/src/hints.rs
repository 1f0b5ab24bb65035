//! `NOTIFY`, so that a watcher on another machine need not wait for its next look.
//!
//! It is sent beside the appends and never within one: the server puts all transactions that notify in one line at their
//! commit, and their commits would no longer share a flush.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use countersign_types::SessionId;
use futures::channel::mpsc;
use futures::{Stream, StreamExt as _};
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, NoTls};

use crate::connect::client;
use crate::store::{Inner, Shared};

const CHANNEL: &str = "countersign";

/// Appends within this time are told by one message.
const GATHER: Duration = Duration::from_millis(5);

/// Before a connection that was lost is made again, and between two looks whether anybody watches.
const RECONNECT: Duration = Duration::from_secs(1);

/// Hints that wait for a watcher that does not look; more are dropped.
const WAITING: usize = 1024;

/// Which sessions changed and were not told yet.
#[derive(Debug, Default)]
pub(crate) struct Hinter(Mutex<Pending>);

#[derive(Debug, Default)]
struct Pending {
    sessions: BTreeSet<SessionId>,
    /// Somebody is about to send what gathers here.
    sending: bool,
}

impl Hinter {
    /// Called on the store's thread after a commit.
    pub(crate) fn changed(&self, inner: &Arc<Inner>, session: &SessionId) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.sessions.insert(session.clone());
        if !std::mem::replace(&mut pending.sending, true) {
            let inner = Arc::clone(inner);
            tokio::spawn(async move { send(&inner).await });
        }
    }

    fn take(&self) -> Option<Vec<String>> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.sessions.is_empty() {
            pending.sending = false;
            return None;
        }
        Some(std::mem::take(&mut pending.sessions).iter().map(ToString::to_string).collect())
    }
}

async fn send(inner: &Arc<Inner>) {
    loop {
        sleep(GATHER).await;
        let Some(sessions) = inner.hinter.take() else { return };
        let sql = "SELECT pg_notify($1, id) FROM unnest($2::text[]) AS id";
        if let Ok(client) = client(&inner.pool, &inner.database).await
            && let Ok(statement) = client.prepare_cached(sql).await
        {
            // A hint that is lost costs a watcher its patience and no more.
            let _ = client.execute(&statement, &[&CHANNEL, &sessions]).await;
        }
    }
}

/// Sessions that changed. Dropping it ends its connection soon.
#[derive(Debug)]
pub struct Hints(mpsc::Receiver<SessionId>);

impl Hints {
    pub(crate) fn listen(shared: &Shared) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        shared.start(|inner| async move {
            // Not one of the work that the store's end waits for.
            tokio::spawn(async move { listen(&inner, sender).await });
        });
        Self(receiver)
    }
}

impl Stream for Hints {
    type Item = SessionId;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionId>> {
        self.0.poll_next_unpin(cx)
    }
}

async fn listen(inner: &Inner, mut sender: mpsc::Sender<SessionId>) {
    let watcher = sender.clone();
    while !watcher.is_closed() {
        if let Ok((client, mut connection)) = inner.config.connect(NoTls).await {
            let messages = futures::stream::poll_fn(|cx| connection.poll_message(cx));
            let hints = messages.for_each(|message| {
                if let Ok(AsyncMessage::Notification(note)) = message
                    && let Ok(session) = SessionId::new(note.payload())
                {
                    // Full: it is only a hint.
                    let _ = sender.try_send(session);
                }
                std::future::ready(())
            });
            let listening = async {
                let _ = client.batch_execute(&format!("LISTEN {CHANNEL}")).await;
                while !watcher.is_closed() {
                    sleep(RECONNECT).await;
                }
            };
            futures::future::select(Box::pin(hints), Box::pin(listening)).await;
        }
        sleep(RECONNECT).await;
    }
}
