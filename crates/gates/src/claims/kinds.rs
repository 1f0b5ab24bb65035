//! The patterns, one function for each kind of claim.

use countersign_types::GateStatus;

use super::text::{has, means, names_in, paths_in, states};
use super::{ClaimFacts, ClaimVerdict, Ran, Told};
use crate::feedback::line;

/// Beginnings of commands that run tests.
pub(super) const RUNNERS: &[&str] = &[
    "pytest",
    "py.test",
    "unittest",
    "tox",
    "nox",
    "cargo test",
    "cargo t ",
    "cargo nextest",
    "npm test",
    "npm t ",
    "npm run test",
    "yarn test",
    "pnpm test",
    "bun test",
    "node --test",
    "jest",
    "vitest",
    "mocha",
    "go test",
    "make test",
    "make check",
    "ctest",
    "rspec",
    "phpunit",
    "gradle test",
    "mvn test",
    "bazel test",
];

pub(super) fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn tests(one: &Ran, facts: &ClaimFacts<'_>) -> bool {
    let Some(command) = &one.command else { return true };
    let command = squeezed(command);
    facts.checks.iter().any(|check| command.contains(&squeezed(check)))
        || RUNNERS.iter().any(|runner| command.contains(runner.trim_end()))
}

pub(super) fn tests_pass(tokens: &[String], facts: &ClaimFacts<'_>) -> Option<Told> {
    let subject = has(
        tokens,
        &[
            "tests",
            "test",
            "suite",
            "testsuite",
            "specs",
            "check",
            "checks",
            "everything",
            "ci",
            "pytest",
            "all",
        ],
    )?;
    let rest = tokens.get(subject + 1..)?;
    let passes = has(
        rest,
        &[
            "pass",
            "passes",
            "passed",
            "passing",
            "green",
            "succeed",
            "succeeds",
            "succeeded",
            "successful",
            "successfully",
        ],
    )?;
    // "test values are passed to f": what is passed on passes nothing.
    if !states(tokens, subject + 1 + passes) || rest.get(passes + 1).is_some_and(|next| next == "through") {
        return None;
    }
    Some(match facts.judged {
        GateStatus::Passed => {
            (ClaimVerdict::Supported, "the check passed in a room, on what is delivered".to_owned())
        }
        GateStatus::Failed => {
            (ClaimVerdict::Contradicted, "the check failed in a room, on what would be delivered".to_owned())
        }
        _ => match facts.ran.iter().rev().find(|one| tests(one, facts)) {
            None => (ClaimVerdict::NotShown, "no test ran in this turn".to_owned()),
            Some(last) if !last.current => {
                (ClaimVerdict::NotShown, "the last test ran before the last change".to_owned())
            }
            Some(Ran { ok: true, .. }) => {
                (ClaimVerdict::Supported, "the last test that the agent ran ended well".to_owned())
            }
            Some(_) => (ClaimVerdict::Contradicted, "the last test that the agent ran failed".to_owned()),
        },
    })
}

pub(super) fn ran(clause: &str, tokens: &[String], facts: &ClaimFacts<'_>) -> Option<Told> {
    let two = |pair: &[String]| {
        let [first, second] = pair else { return false };
        matches!(
            (first.as_str(), second.as_str()),
            ("were" | "was" | "been" | "have" | "i've", "run")
                | ("after" | "by", "running")
                | ("verified" | "confirmed", "with")
        )
    };
    let verb = has(tokens, &["ran", "reran", "re-ran", "executed"])
        .or_else(|| tokens.windows(2).position(two))
        .filter(|verb| states(tokens, *verb));
    verb?;
    let named = quoted(clause).map(squeezed).or_else(|| {
        let plain = squeezed(&clause.to_lowercase());
        RUNNERS
            .iter()
            .map(|runner| runner.trim_end())
            .find(|runner| plain.contains(runner))
            .map(str::to_owned)
    });
    let generic = has(tokens, &["tests", "suite", "checks", "check", "test"]).is_some();
    if named.is_none() && !generic {
        return None;
    }
    let found = facts.ran.iter().rev().find(|one| match (&named, &one.command) {
        (Some(named), Some(command)) => squeezed(command).contains(named.as_str()),
        (Some(_), None) => false,
        (None, _) => tests(one, facts),
    });
    Some(match found {
        Some(one) => {
            let end = if one.ok { "ended well" } else { "failed" };
            (ClaimVerdict::Supported, format!("it ran and {end} the last time"))
        }
        None if facts.ran.is_empty() => {
            (ClaimVerdict::Contradicted, "no command ran in this turn".to_owned())
        }
        None => (ClaimVerdict::NotShown, "no command of this turn names it".to_owned()),
    })
}

/// The first piece between backticks.
pub(super) fn quoted(clause: &str) -> Option<&str> {
    clause.split('`').nth(1).filter(|piece| !piece.trim().is_empty())
}

pub(super) fn untouched(
    clause: &str,
    tokens: &[String],
    mentioned: &[String],
    facts: &ClaimFacts<'_>,
) -> Option<Told> {
    let changes = has(
        tokens,
        &[
            "changed", "change", "changes", "modified", "modify", "touched", "touch", "edited", "edit",
            "altered",
        ],
    )
    .is_some();
    let files = has(tokens, &["file", "files", "else", "nothing"]).is_some();
    let others = has(tokens, &["other", "else"]).is_some() && has(tokens, &["no", "nothing"]).is_some();
    let only = has(tokens, &["only"]).is_some();
    let not = tokens
        .iter()
        .any(|word| matches!(word.as_str(), "not" | "no" | "without" | "never") || word.ends_with("n't"));
    let as_it_was = has(tokens, &["untouched", "unchanged", "unmodified"]).is_some();
    let about_tests = has(tokens, &["tests", "test"]).is_some();
    let here = names_in(clause);
    let changed = facts.changed?;
    if changes && files && others {
        if mentioned.is_empty() {
            return Some((ClaimVerdict::NotShown, "it names no file that was changed".to_owned()));
        }
        let other = changed.iter().find(|path| !mentioned.iter().any(|name| means(name, path)));
        return Some(no_other(other));
    }
    if changes && only && !not && !here.is_empty() {
        let other = changed.iter().find(|path| !here.iter().any(|name| means(name, path)));
        return Some(no_other(other));
    }
    if (changes && not) || as_it_was {
        let held = |path: &&String| {
            here.iter().any(|name| means(name, path))
                || here.is_empty() && about_tests && is_named_as_a_test(path)
        };
        if !here.is_empty() || about_tests {
            return Some(match changed.iter().find(held) {
                Some(path) => (ClaimVerdict::Contradicted, format!("`{}` was changed", line(path))),
                None => (ClaimVerdict::Supported, "nothing of it differs from the base".to_owned()),
            });
        }
    }
    None
}

pub(super) fn no_other(other: Option<&String>) -> Told {
    match other {
        Some(path) => (ClaimVerdict::Contradicted, format!("`{}` was changed too", line(path))),
        None => (ClaimVerdict::Supported, "nothing else differs from the base".to_owned()),
    }
}

/// Does a part of the path say that it is a test's?
#[must_use]
pub fn is_named_as_a_test(path: &str) -> bool {
    path.split('/').any(|part| {
        let part = part.to_lowercase();
        part.split(|c: char| !c.is_alphanumeric())
            .any(|word| matches!(word, "test" | "tests" | "spec" | "specs"))
    })
}

pub(super) fn changed(clause: &str, tokens: &[String], facts: &ClaimFacts<'_>) -> Option<Told> {
    let verb = has(
        tokens,
        &[
            "changed", "modified", "edited", "updated", "created", "added", "fixed", "rewrote", "removed",
            "deleted",
        ],
    )
    .filter(|verb| states(tokens, *verb));
    let changed = facts.changed?;
    let here = paths_in(clause);
    let first =
        here.first().filter(|_| verb.is_some() && has(tokens, &["no", "only", "without"]).is_none())?;
    Some(if changed.iter().any(|path| here.iter().any(|name| means(name, path))) {
        (ClaimVerdict::Supported, "it differs from the base".to_owned())
    } else if changed.is_empty() {
        (ClaimVerdict::Contradicted, "nothing differs from the base".to_owned())
    } else {
        (ClaimVerdict::NotShown, format!("no changed path is called `{}`", line(first)))
    })
}
