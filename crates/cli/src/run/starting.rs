//! The check where nobody named one: what the project's own files say, if they say one thing.

use countersign_engine::StartingCheck;
use countersign_types::{Reason, Trust};

use crate::refusal::Refusal;
use crate::text;

/// Takes the one candidate. None, several, and one of a project that is not trusted to say how it is judged are refused.
pub(super) fn choose(trust: Trust, mut found: Vec<StartingCheck>) -> Result<StartingCheck, Refusal> {
    let shown = |one: &StartingCheck| {
        let line = |words: &str| text::one_line(words, text::LINE);
        format!("`{}` ({})", line(&one.check.join(" ")), line(&one.because))
    };
    let refuse = |what: String| Err(Refusal::new(Reason::NoCheck, what));
    match (found.len(), trust) {
        (1, Trust::TrustedLocal | Trust::Reviewed) => Ok(found.remove(0)),
        (1, Trust::Untrusted) => refuse(format!(
            "nothing says when the task is done. The project's own files name {}, and an untrusted project does not choose \
             how it is judged: confirm it with --check, or register a profile",
            found.iter().map(shown).collect::<String>()
        )),
        (0, _) => refuse(
            "nothing says when the task is done, and the project's own files name no way to test it: give a command that \
             shows it with --check, or accept the agent's word with --no-check"
                .to_owned(),
        ),
        _ => refuse(format!(
            "nothing says when the task is done, and the project's own files name {} ways to test it: {}. Choose with \
             --check",
            found.len(),
            found.iter().map(shown).collect::<Vec<_>>().join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(check: &str) -> StartingCheck {
        StartingCheck { because: "x".to_owned(), check: vec![check.to_owned()], probe: Vec::new() }
    }

    #[test]
    fn exactly_one_candidate_of_a_trusted_project_is_taken() {
        assert_eq!(choose(Trust::Reviewed, vec![candidate("a")]).unwrap().check, ["a"]);
        for (trust, found) in [
            (Trust::TrustedLocal, vec![]),
            (Trust::TrustedLocal, vec![candidate("a"), candidate("b")]),
            (Trust::Untrusted, vec![candidate("a")]),
        ] {
            let names: Vec<String> = found.iter().map(|one| one.check.join(" ")).collect();
            let refusal = choose(trust, found).unwrap_err();
            assert_eq!(refusal.reason, Some(Reason::NoCheck));
            assert!(names.iter().all(|name| refusal.message.contains(&format!("`{name}`"))), "{refusal}");
        }
    }
}
