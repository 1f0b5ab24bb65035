//! The PostgreSQL server of a test's own.

use countersign_testkit::postgres::Server;

#[test]
fn a_server_keeps_what_was_committed_over_a_crash_and_leaves_nothing_behind() {
    let mut server = match Server::start(&[]) {
        Ok(server) => server,
        Err(why) => {
            eprintln!(
                "SKIPPED: a_server_keeps_what_was_committed_over_a_crash_and_leaves_nothing_behind: {why}"
            );
            return;
        }
    };
    server.database("one").unwrap();
    server.sql("one", "CREATE TABLE t (n int); INSERT INTO t VALUES (7)").unwrap();
    server.crash();
    assert!(server.sql("one", "SELECT 1").is_err());
    server.launch().unwrap();
    assert_eq!(server.sql("one", "SELECT n FROM t").unwrap(), "7");
    assert!(server.sql("one", "SELECT nothing").unwrap_err().contains("nothing"));
    let dir = server.socket_dir();
    let pid = std::fs::read_to_string(dir.join("data/postmaster.pid")).unwrap();
    let process = format!("/proc/{}", pid.lines().next().unwrap());
    assert!(std::path::Path::new(&process).exists());
    drop(server);
    assert!(!std::path::Path::new(&process).exists());
    assert!(!dir.exists());
}
