//! Detectors: does a turn go round in circles? Read off digests and counters of its steps, never off text.
//!
//! The set `detectors@1`. A step is one message with all its calls, so that calls side by side count once. What a
//! step weighs depends on how much patience it deserves: a model whose opaque reasoning moves may be thinking, a command
//! that took its time may be waiting, and a result that differs is news. What is found is told to the agent once in a
//! turn; after that, at a higher count, the turn ends as `stuck` through the whole gate plan.
//!
//! | reason | what is counted | told | ends |
//! |---|---|---|---|
//! | `tool_format` | steps in a row in which no call could be read | 3 | 6 |
//! | `repeat` | steps in a row with the same calls, results and tree | 3 | 6 |
//! | `alternate` | rounds of two to four steps with the same calls, results and tree | 3 | 5 |
//! | `stagnant` | the same failing result of different actions; with a new tree each time, patience is longer | 4 or 6 | 7 or 10 |
//! | `discovery` | steps in a row that only list, search, or read what was read before | 6 | 10 |
//! | `discovery` | steps in a row that only look, what is new included | 32 | 64 |

mod step;
mod watch;

use countersign_types::Reason;
use serde::{Deserialize, Serialize};

use crate::contract::{Contract, Detectors};
use crate::state::Turn;

pub(crate) use step::Seen;
pub use watch::Watch;

/// What a detector saw: why it struck and over which steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    pub reason: Reason,
    /// The first step that counted.
    pub first: u32,
    /// The last step that counted.
    pub last: u32,
}

/// What is due because of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Tell the agent, once.
    Nudge(Finding),
    /// It was told and went on.
    Stop(Finding),
}

/// What the detectors of the contract want now. Asked between steps.
pub(crate) fn due(turn: &Turn, contract: &Contract) -> Option<Due> {
    match contract.detectors {
        Detectors::Off => None,
        Detectors::V1 => {
            // Who may only look is not in circles because it looks.
            let looking = if contract.looks_only() { 2 } else { 1 };
            let told = turn.watch.nudged().is_some();
            match turn.watch.find(told, looking) {
                Some(finding) if told => Some(Due::Stop(finding)),
                other => other.map(Due::Nudge),
            }
        }
    }
}
