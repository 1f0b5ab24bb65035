//! Tests of the repository itself: who may use whom, what no file may hold, and documents that tell the truth.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod commands;
mod documents;
mod files;
mod imports;
mod lessons;
mod purity;
mod support;
