//! Reads the reports that test runners write inside a room.

use crate::protocol::{ReportFormat, TestCase};

/// The test cases of one report. Bytes that are not of `format` give none.
#[must_use]
pub fn read(_bytes: &[u8], _format: ReportFormat) -> Vec<TestCase> {
    Vec::new()
}
