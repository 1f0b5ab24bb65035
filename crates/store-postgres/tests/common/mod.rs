//! What the test files of this crate share.

use countersign_testkit::postgres::Server;

/// A server of the test's own, or a line that says why the test was skipped.
#[expect(clippy::print_stderr, reason = "a skipped test is told by name")]
pub fn server(test: &str) -> Option<Server> {
    match Server::start(&[]) {
        Ok(server) => Some(server),
        Err(why) => {
            eprintln!("SKIPPED: {test}: {why}");
            None
        }
    }
}
