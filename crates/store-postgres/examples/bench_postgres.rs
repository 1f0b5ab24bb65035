//! Measures durable appends over sixteen connections against a bare insert and commit by the same client, in turns within
//! one run: `cargo run --release -p countersign-store-postgres --example bench_postgres -- [ROUNDS] [MILLISECONDS]`.
//!
//! Prints one JSON object; `ratio` is the store's appends over the bare commits in the same time (the target is at least
//! 0.7). Without PostgreSQL it holds `skipped` with the reason. Both sides run on one thread, as the store's client does.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program for developers")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_store::conformance::{append, event, new_session};
use countersign_store::{Append, OutboxItem, Store};
use countersign_store_postgres::{Options, PostgresStore};
use countersign_testkit::postgres::Server;
use futures::executor::block_on;
use futures::future::{join, join_all};
use serde_json::json;
use tokio_postgres::{Client, NoTls};

const CONNECTIONS: usize = 16;

/// As long as the line of the event that the store appends.
const LINE: usize = 500;

fn main() {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(5, |rounds| rounds.parse().unwrap());
    let time = Duration::from_millis(args.next().map_or(1_000, |time| time.parse().unwrap()));
    let server = match Server::start(&[]) {
        Ok(server) => server,
        Err(why) => return println!("{}", json!({ "skipped": why })),
    };
    let url = server.database("bench").unwrap();
    server
        .sql("bench", "CREATE TABLE bare (session bigint, seq bigint, line text, PRIMARY KEY (session, seq))")
        .unwrap();
    let blobs = tempfile::tempdir().unwrap();
    let options = Options { connections: CONNECTIONS, ..Options::default() };
    let store = Arc::new(PostgresStore::open(&url, blobs.path(), options).unwrap());
    let bare = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clients = bare.block_on(connect(&url));
    let mut seqs = vec![0; CONNECTIONS];
    for n in 0..CONNECTIONS {
        block_on(store.create(new_session(&format!("s{n}"), 1))).unwrap();
    }
    let (mut appends, mut one, mut block) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let counts = [
            per_second(time, |end| block_on(append_all(&store, &mut seqs, end))),
            per_second(time, |end| bare.block_on(insert_all(&clients, round as i64 * 2, false, end))),
            per_second(time, |end| bare.block_on(insert_all(&clients, round as i64 * 2 + 1, true, end))),
        ];
        // The first fills the caches.
        if round > 0 {
            for (all, count) in [&mut appends, &mut one, &mut block].into_iter().zip(counts) {
                all.push(count);
            }
        }
    }
    let (appends, one, block) = (median(appends), median(one), median(block));
    println!(
        "{}",
        json!({
            "connections": CONNECTIONS,
            "rounds": rounds,
            "appends_per_s": appends as u64,
            "insert_and_commit_per_s": block as u64,
            "insert_alone_per_s": one as u64,
            "ratio": appends / block,
            "ratio_to_insert_alone": appends / one,
        })
    );
}

fn per_second(time: Duration, work: impl FnOnce(Instant) -> u64) -> f64 {
    let start = Instant::now();
    let count = work(start + time);
    count as f64 / start.elapsed().as_secs_f64()
}

/// One durable event with its summary and an outbox item, in a session for each connection.
async fn append_all(store: &PostgresStore, seqs: &mut [u64], end: Instant) -> u64 {
    let writers = seqs.iter_mut().enumerate().map(|(n, seq)| async move {
        let mut count = 0;
        while Instant::now() < end {
            let new = Append {
                summary: Some(json!({ "turn": 1, "state": "running", "seq": *seq })),
                outbox: vec![OutboxItem { topic: "watch".into(), body: json!({ "seq": *seq }) }],
                ..append(&format!("s{n}"), *seq, vec![event("effect.completed", *seq)])
            };
            *seq = store.append(new).await.unwrap().seq;
            count += 1;
        }
        count
    });
    join_all(writers).await.into_iter().sum()
}

async fn connect(url: &str) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        clients.push(client);
    }
    clients
}

/// With `block` as `BEGIN; INSERT; COMMIT`, the first two sent together; else one statement that commits by itself.
async fn insert_all(clients: &[Client], session: i64, block: bool, end: Instant) -> u64 {
    let line = "x".repeat(LINE);
    let writers = clients.iter().enumerate().map(|(n, client)| {
        let line = &line;
        async move {
            let sql = "INSERT INTO bare (session, seq, line) VALUES ($1, $2, $3)";
            let insert = client.prepare(sql).await.unwrap();
            let session = session * CONNECTIONS as i64 + n as i64;
            let mut seq = 0_i64;
            while Instant::now() < end {
                seq += 1;
                let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&session, &seq, line];
                if block {
                    let (begun, inserted) =
                        join(client.batch_execute("BEGIN"), client.execute(&insert, &params)).await;
                    begun.unwrap();
                    inserted.unwrap();
                    client.batch_execute("COMMIT").await.unwrap();
                } else {
                    client.execute(&insert, &params).await.unwrap();
                }
            }
            seq as u64
        }
    });
    join_all(writers).await.into_iter().sum()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
