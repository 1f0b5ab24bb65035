//! The kernel: what may happen, decided from values alone.
//!
//! `decide(state, command) -> events | refusal`, `apply(state, event)`, `work(state, now)`. Everything else in the
//! project either feeds these three or carries out what they say.
//!
//! Architecture invariants: no I/O, no clock, no randomness, no threads (clippy's `disallowed-methods` holds this); a
//! state is a function of its events; an ended turn refuses every command; unknown is a value, never a pass.
#![forbid(unsafe_code)]

pub mod contract;
