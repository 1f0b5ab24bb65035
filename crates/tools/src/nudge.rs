use countersign_kernel::Finding;
use countersign_types::Reason;

/// What a model reads when a detector struck: what was seen, and what else there is to do.
#[must_use]
pub fn nudge(finding: &Finding) -> String {
    let Finding { reason, first, last } = finding;
    let (seen, instead) = match reason {
        Reason::ToolFormat => (
            "no tool call could be read",
            "Read the error of the last call, then send one call that names a tool of the list, with its arguments as one \
             JSON object.",
        ),
        Reason::Repeat => (
            "the same calls were made again and again, and nothing came of them",
            "Do something else: read what you have not read, change something, or finish. If you wait for something, wait \
             within one command.",
        ),
        Reason::Alternate => (
            "the same few steps came round again and again, and the files are as they were",
            "Decide on one of them and go on from there, or finish.",
        ),
        Reason::Stagnant => (
            "different actions came to the same failure",
            "Read that failure again: its cause is elsewhere. Look at what you took for granted, undo what did not help, or \
             finish and say what stops you.",
        ),
        // The kernel sends no other.
        _ => (
            "there was only looking around, and nothing was done",
            "You have seen enough to begin: make a change, run something, or finish and say what is missing.",
        ),
    };
    format!("In steps {first} to {last} {seen}. {instead} If it goes on like this, the work ends here.")
}
