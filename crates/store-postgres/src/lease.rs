//! A lease is a row's fencing number and the time, by the server's clock, until which nobody else takes it.

use std::sync::Arc;
use std::time::Duration;

use countersign_store::{Fence, Lease, LeaseGuard, StoreError};
use countersign_types::SessionId;
use futures::future::{BoxFuture, FutureExt as _};

use crate::connect::client;
use crate::fault;
use crate::store::{Inner, Shared, from_db, to_db};

pub(crate) fn acquire(
    shared: &Arc<Shared>,
    session: SessionId,
    holder: &str,
) -> BoxFuture<'static, Result<Lease, StoreError>> {
    // PostgreSQL's text holds every character but this one.
    let holder = holder.replace('\0', "");
    let asked = session.clone();
    let fence = shared.call(|inner| async move { take(&inner, &asked, &holder).await });
    let shared = Arc::clone(shared);
    async move {
        let fence = fence.await?;
        let guard = Guard { shared, session: session.clone(), fence, given_back: false };
        Ok(Lease::new(session, fence, Box::new(guard)))
    }
    .boxed()
}

/// Lost between the statement and its answer it may be taken by nobody that knows of it: then its term ends it.
async fn take(inner: &Inner, session: &SessionId, holder: &str) -> Result<Fence, StoreError> {
    let server = |e: &tokio_postgres::Error| fault::server(&inner.database, e);
    let client = client(&inner.pool, &inner.database).await?;
    let sql = "UPDATE countersign.session SET fence = fence + 1, holder = $2, \
                   lease_until = clock_timestamp() + $3::bigint * interval '1 microsecond' \
               WHERE id = $1 AND (lease_until IS NULL OR lease_until <= clock_timestamp()) RETURNING fence";
    let statement = client.prepare_cached(sql).await.map_err(|e| server(&e))?;
    let term = micros(inner.lease_term);
    let row =
        client.query_opt(&statement, &[&session.as_str(), &holder, &term]).await.map_err(|e| server(&e))?;
    if let Some(row) = row {
        return row.try_get(0).map(|fence| Fence(from_db(fence))).map_err(|e| server(&e));
    }
    let sql = "SELECT holder FROM countersign.session WHERE id = $1";
    let row = client.query_opt(sql, &[&session.as_str()]).await.map_err(|e| server(&e))?;
    let row = row.ok_or_else(|| StoreError::NoSuchSession(session.clone()))?;
    let holder: String = row.try_get(0).map_err(|e| server(&e))?;
    let holder = if holder.is_empty() { "another process".to_owned() } else { holder };
    Err(StoreError::LeaseHeld { session: session.clone(), holder })
}

async fn renew(inner: &Inner, session: &SessionId, fence: Fence) -> Result<(), StoreError> {
    let server = |e: &tokio_postgres::Error| fault::server(&inner.database, e);
    let client = client(&inner.pool, &inner.database).await?;
    let sql = "UPDATE countersign.session SET lease_until = clock_timestamp() + $3::bigint * interval '1 microsecond' \
               WHERE id = $1 AND fence = $2 AND lease_until IS NOT NULL";
    let statement = client.prepare_cached(sql).await.map_err(|e| server(&e))?;
    let term = micros(inner.lease_term);
    let renewed = client.execute(&statement, &[&session.as_str(), &to_db(fence.0), &term]).await;
    if renewed.map_err(|e| server(&e))? == 1 {
        return Ok(());
    }
    let sql = "SELECT fence FROM countersign.session WHERE id = $1";
    let row = client.query_opt(sql, &[&session.as_str()]).await.map_err(|e| server(&e))?;
    let row = row.ok_or_else(|| StoreError::NoSuchSession(session.clone()))?;
    let current = row.try_get(0).map(|fence| Fence(from_db(fence))).map_err(|e| server(&e))?;
    Err(StoreError::Fenced { session: session.clone(), presented: fence, current })
}

async fn give_back(inner: &Inner, session: &SessionId, fence: Fence) -> Result<(), StoreError> {
    let client = client(&inner.pool, &inner.database).await?;
    let sql = "UPDATE countersign.session SET lease_until = NULL WHERE id = $1 AND fence = $2";
    let done = client.execute(sql, &[&session.as_str(), &to_db(fence.0)]).await;
    done.map(drop).map_err(|e| fault::server(&inner.database, &e))
}

fn micros(term: Duration) -> i64 {
    i64::try_from(term.as_micros()).unwrap_or(i64::MAX)
}

#[derive(Debug)]
struct Guard {
    shared: Arc<Shared>,
    session: SessionId,
    fence: Fence,
    given_back: bool,
}

impl LeaseGuard for Guard {
    fn term(&self) -> Option<Duration> {
        Some(self.shared.inner.lease_term)
    }

    fn renew(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let (session, fence) = (self.session.clone(), self.fence);
        self.shared.call(move |inner| async move { renew(&inner, &session, fence).await })
    }

    fn release(mut self: Box<Self>) -> BoxFuture<'static, Result<(), StoreError>> {
        self.given_back = true;
        let (session, fence) = (self.session.clone(), self.fence);
        let done = self.shared.call(move |inner| async move { give_back(&inner, &session, fence).await });
        async move {
            let _lives_until_then = self;
            done.await
        }
        .boxed()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.given_back {
            return;
        }
        let (session, fence) = (self.session.clone(), self.fence);
        self.shared.start(move |inner| async move {
            // Else its term ends it.
            let _ = give_back(&inner, &session, fence).await;
        });
    }
}
