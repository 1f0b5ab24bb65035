//! The way to the server: what of a connection string is taken, what every connection is told first, and transactions that
//! leave no connection half done.

use std::net::IpAddr;
use std::time::Duration;

use countersign_store::StoreError;
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Config, NoTls};

use crate::fault;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the kernel tries to bring what was sent to a server that does not answer.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a write waits for the row of its session.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a caller waits for one of the connections.
pub(crate) const POOL_TIMEOUT: Duration = Duration::from_secs(30);

/// What every connection is told first: each wait ends, and a client that died in a transaction holds no session for long.
/// `synchronous_commit` is only ever made stronger.
const SETTINGS: &str = "
    SET lock_timeout = '30s';
    SET statement_timeout = '120s';
    SET idle_in_transaction_session_timeout = '60s';
    SELECT pg_catalog.set_config('synchronous_commit', 'on', false)
        WHERE pg_catalog.current_setting('synchronous_commit') = 'off'";

pub(crate) const COMMIT: &str = "COMMIT";

pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// Statements within see one state of the database.
pub(crate) const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Where a database is, for people: no user and no password.
pub(crate) fn label(config: &Config) -> String {
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(n, host)| {
            let port = config.get_ports().get(n).or(config.get_ports().first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(dir) => format!("{}:{port}", dir.display()),
            }
        })
        .collect();
    format!("postgresql://{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
}

/// Reads a connection string (`postgresql://…` or `key=value …`) and refuses what would not be kept.
pub(crate) fn config(text: &str) -> Result<Config, StoreError> {
    let unsuitable = |database: &str, what: &str| StoreError::Unsuitable {
        database: database.to_owned(),
        what: what.to_owned(),
    };
    // The parser's own words may quote the password.
    let mut config: Config = text.parse().map_err(|_| {
        unsuitable(
            "of the connection string",
            "it is neither `postgresql://user@host/database` nor `host=… user=… dbname=…`",
        )
    })?;
    let database = label(&config);
    if config.get_hosts().is_empty() {
        return Err(unsuitable(&database, "the connection string names no host"));
    }
    if config.get_dbname().is_none() {
        return Err(unsuitable(&database, "the connection string names no database"));
    }
    match config.get_ssl_mode() {
        SslMode::Disable => {}
        SslMode::Prefer if config.get_hosts().iter().all(is_this_machine) => {}
        _ => {
            return Err(unsuitable(
                &database,
                "this version speaks no TLS: use a socket, a tunnel to this machine, or say `sslmode=disable` where the \
                 network itself is trusted",
            ));
        }
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(NETWORK_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("countersign");
    }
    Ok(config)
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
    }
}

pub(crate) fn pool(config: Config, connections: usize) -> Result<Pool, StoreError> {
    let database = label(&config);
    let manager =
        Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let configure = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(async move { client.batch_execute(SETTINGS).await.map_err(HookError::Backend) })
    });
    Pool::builder(manager)
        .max_size(connections)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(POOL_TIMEOUT))
        .create_timeout(Some(CONNECT_TIMEOUT))
        .post_create(configure)
        .build()
        .map_err(|e| StoreError::Unsuitable { database, what: e.to_string() })
}

/// A connection in a transaction. Unless it was ended in order the connection is closed, and the server undoes it.
///
/// Statements that do not wait for each other are sent together: futures that are joined are polled, and so sent, in their
/// order.
pub(crate) struct Transaction {
    client: Option<Object>,
}

impl Transaction {
    /// The caller sends [`BEGIN`] or [`BEGIN_SNAPSHOT`], together with what it asks first.
    pub(crate) fn on(client: Object) -> Self {
        Self { client: Some(client) }
    }

    #[expect(clippy::expect_used, reason = "it is taken only by the methods that consume the transaction")]
    pub(crate) fn client(&self) -> &Object {
        self.client.as_ref().expect("a transaction has its connection")
    }

    /// Takes the answers to a last statement and the [`COMMIT`] that was sent with it. Whether the transaction stands is
    /// certain when this is `Ok`, and when the error is no [`fault::is_lost`].
    pub(crate) fn ended<T>(
        mut self,
        last: Result<T, tokio_postgres::Error>,
        committed: Result<(), tokio_postgres::Error>,
    ) -> Result<T, tokio_postgres::Error> {
        if committed.is_ok() {
            // A commit after a statement that failed is a rollback: the connection is in no transaction in either case.
            drop(self.client.take());
        }
        let last = last?;
        committed?;
        Ok(last)
    }

    pub(crate) async fn rollback(mut self) {
        if self.client().batch_execute("ROLLBACK").await.is_ok() {
            drop(self.client.take());
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            // Out of the pool, and closed.
            drop(Object::take(client));
        }
    }
}

pub(crate) async fn client(pool: &Pool, database: &str) -> Result<Object, StoreError> {
    pool.get().await.map_err(|e| fault::pool(database, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_said_and_nothing_goes_in_the_clear_over_a_network() {
        let named = config("postgresql://me:hunter2@localhost:6000/db").unwrap();
        assert_eq!(label(&named), "postgresql://localhost:6000/db");
        for (text, ok) in [
            ("host=/run/postgresql user=me password=hunter2 dbname=db", true),
            ("postgresql://me:hunter2@127.0.0.1/db", true),
            ("postgresql://me:hunter2@[::1]/db", true),
            ("postgresql://me:hunter2@db.example/db?sslmode=disable", true),
            ("postgresql://me:hunter2@db.example/db", false),
            ("postgresql://me:hunter2@localhost,db.example/db", false),
            ("postgresql://me:hunter2@localhost/db?sslmode=require", false),
            ("postgresql://me:hunter2@localhost/db?hunter2=hunter2", false),
            ("postgresql://me:hunter2@localhost", false),
            ("user=me password=hunter2 dbname=db", false),
            ("hunter2", false),
        ] {
            match config(text) {
                Ok(_) => assert!(ok, "{text}"),
                Err(error) => {
                    assert!(!ok, "{text}: {error}");
                    assert!(!error.to_string().contains("hunter2"), "{error}");
                }
            }
        }
    }
}
