//! Presets: named, versioned behaviour defaults. They are recorded in every run with their digest, so a constant below
//! never changes under its name; a new behaviour is a new version.

use countersign_types::{ByteSize, Digest, Millis, canonical_json};
use serde::Serialize;

/// Behaviour defaults of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Preset {
    /// `name@version`.
    pub name: &'static str,
    /// The agent may look and nothing else.
    pub read_only: bool,
    /// A success needs a changed tree. A run without a check claims nothing and so demands no change.
    pub change_required: bool,
    /// Steps.
    pub turns: u32,
    /// Active time, milliseconds.
    pub deadline: Millis,
    /// One check, milliseconds.
    pub check_timeout: Millis,
    /// One `run` of the agent at most, milliseconds.
    pub command_timeout: Millis,
    pub tool_actions: u32,
    /// Bytes of tool output over the whole turn.
    pub output: ByteSize,
    /// Tokens that one answer of the model may have.
    pub max_output_tokens: u32,
    /// Claims that are judged.
    pub attempts: u32,
    /// Retries of one model call.
    pub model_retries: u32,
}

/// Of `run`.
pub const CODING: Preset = Preset {
    name: "coding@1",
    read_only: false,
    change_required: true,
    turns: 40,
    deadline: Millis::from_secs(30 * 60),
    check_timeout: Millis::from_secs(10 * 60),
    command_timeout: Millis::from_secs(2 * 60),
    tool_actions: 400,
    output: ByteSize::mib(16),
    max_output_tokens: 8192,
    attempts: 1,
    model_retries: 3,
};

/// Of `ask`.
pub const QUESTION: Preset =
    Preset { name: "question@1", read_only: true, change_required: false, turns: 20, ..CODING };

/// Of `gate`: nobody works, the first judgement is the last.
pub const GATE: Preset = Preset {
    name: "gate@1",
    read_only: false,
    change_required: true,
    turns: 0,
    deadline: Millis(0),
    check_timeout: CODING.check_timeout,
    command_timeout: Millis(0),
    tool_actions: 0,
    output: ByteSize::mib(0),
    max_output_tokens: 0,
    attempts: 1,
    model_retries: 0,
};

/// Every preset of this version.
pub const PRESETS: &[Preset] = &[CODING, QUESTION, GATE];

impl Preset {
    /// sha256 of the canonical JSON of all fields.
    ///
    /// # Panics
    /// Never: a preset holds integers, booleans and strings only.
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "a struct of integers, booleans and strings always has a JSON form"
    )]
    pub fn digest(&self) -> Digest {
        Digest::of(&canonical_json(self).expect("integers, booleans and strings"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A changed digest means a changed behaviour under an old name: raise the version instead.
    #[test]
    fn released_presets_never_change() {
        let pinned = [
            ("coding@1", "1ff5a3bcd2c38bfd38f83288151b1513923e4f679d9a5be7ff4ba0be9080dbd3"),
            ("question@1", "21307d2ca28e4e273270ba39016e88f48ceee7d9f7e78e5994480a00e756c254"),
            ("gate@1", "ae3dd08681e7ff5256c6b3165b0395e61b2a097914a2fc87c66b96336ded3471"),
        ];
        let now: Vec<_> = PRESETS.iter().map(|p| (p.name, p.digest().hex())).collect();
        for (at, (name, digest)) in pinned.iter().enumerate() {
            assert_eq!(now.get(at), Some(&(*name, (*digest).to_owned())));
        }
        assert_eq!(now.len(), pinned.len(), "pin the new preset here");
    }
}
