//! What a person can do about each way to end: one sentence for every reason of the closed list, the same as in
//! `docs/outcomes.md`.

use countersign_types::Reason;

/// What to do next.
pub(crate) const fn next(reason: Reason) -> &'static str {
    match reason {
        Reason::ChecksPassed => "Read the patch, then `countersign apply`",
        Reason::NoClaim => "Judge it yourself",
        Reason::Usage => "The message names the flag and the accepted values, or the place in the patch",
        Reason::Config => "The message names file and field",
        Reason::Trust => {
            "Give `--trust`, or set it in your own configuration; no repository can, and no flag lowers what a level asks for"
        }
        Reason::Key => {
            "The message says which: a model's key is its vendor's variable or `--api-key-file`; for one that signs, see `countersign key --help`"
        }
        Reason::NoCheck => "Name one with `--check`; a run that shall claim nothing says `--no-check`",
        Reason::AlreadyGreen => "Choose a check that fails now, or say `--expect guard`",
        Reason::Environment => {
            "Run it by hand; look at `--setup` and `--probe`; raise `--check-timeout` where its time ran out"
        }
        Reason::SandboxUnavailable => "`countersign doctor` says what is missing and the exact fix",
        Reason::Repository => {
            "Name a git repository or a plain directory with `--repo`; a commit that is named has to be in it. Nothing was changed"
        }
        Reason::CheckFailed => {
            "The gate that failed says which; read its output, run again with `--attempts`"
        }
        Reason::CheckInconclusive => {
            "Raise `--check-timeout` or repair the environment; where the report lacks what it had on the base, look at \
             what the change does to the process of its tests"
        }
        Reason::NoTestsRan => "Name a check that runs the tests",
        Reason::TooWeak => "Use a check with more evidence, or ask for less",
        Reason::GateUnverifiable => "The gate's detail says why",
        Reason::NoChange => "Say the task more exactly; look at `--base`",
        Reason::EmptyAnswer => "Run it again, or use another model",
        Reason::EvidenceStale => "Run it again; report it if it returns",
        Reason::Unsealable => "Remove the path that the message names",
        Reason::Turns => "Raise `--max-turns`, or make the task smaller",
        Reason::Deadline => "Raise `--deadline`",
        Reason::Context => "Make the task smaller, or use a larger model",
        Reason::Tokens => "Raise `--max-tokens`",
        Reason::Budget => "Raise `--max-cost` (refused until a table of prices is built in)",
        Reason::Actions => "Make the task smaller",
        Reason::Output => {
            "Let the command print less; for a cut reply, make the task smaller (more than 8192 tokens in one reply are not asked for), or use a model that thinks less"
        }
        Reason::Repeat | Reason::Alternate => "Say the task more exactly, or use another model",
        Reason::Discovery => "Name the files that matter",
        Reason::Stagnant => "Read the failure; it may need your help",
        Reason::ToolFormat => "Use a model that can call tools",
        Reason::Auth => "Check key and `--base-url`",
        Reason::RateLimit => "Wait; the result names the time if the endpoint did",
        Reason::QuotaExhausted => "Pay, or use another account",
        Reason::Overloaded => "Try later",
        Reason::Transport => "Check network and `--base-url`",
        Reason::BadResponse => "Check that the endpoint speaks the protocol that was named",
        Reason::Declined => "Say the task differently, or do it yourself",
        Reason::Signal | Reason::Request => "Start it again if you wish",
        Reason::Paths => "Widen the scope, if that is what you want",
        Reason::ProtectedFiles => "Read the diff; allow it by a named rule if it is right",
        Reason::PlantedRunnerConfig => "Read the diff before anything else",
        Reason::ProfileChanged => "Find out who changed it",
        Reason::ApprovalImpossible => "Run where a person can answer",
        Reason::EffectUnknown => "Look at what happened there, then run again",
        Reason::CheckpointLost => "Run again",
        Reason::Approval => "Answer, then `countersign resume`",
        Reason::Timer => "`countersign resume` after it",
        Reason::Drained => "`countersign resume`",
        Reason::LeaseLost => "The message names it: wait for its end, then look with `countersign show`",
        Reason::DiskFull => "Make room, then run again",
        Reason::Store => "The message names the file",
        Reason::CellDied => "`countersign doctor`; look at the machine's memory",
    }
}

/// The reason of this spelling.
pub(crate) fn reason(word: &str) -> Option<Reason> {
    Reason::ALL.iter().copied().find(|reason| reason.as_str() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_hint_and_the_table_of_outcomes_says_the_same() {
        let table = include_str!("../../../docs/outcomes.md");
        for word in Reason::ALL {
            let hint = next(*word);
            assert!(hint.len() > 8, "{word}: {hint}");
            let row = format!("| `{}/{word}` |", word.outcome());
            let row = table.lines().find(|line| line.starts_with(&row)).unwrap();
            assert!(row.ends_with(&format!("| {hint} |")), "{word}: {row}");
            assert_eq!(reason(word.as_str()), Some(*word));
        }
    }
}
