//! What a session's contract grants, in words: what a person approves.

use countersign_kernel::contract::{Contract, Network, Source};

use crate::text;

/// Characters of one thing on a line.
const WIDTH: usize = 160;

/// One line for each thing that is granted or asked for, safe to print.
pub(crate) fn lines(contract: &Contract, task: &str) -> Vec<String> {
    let mut rows: Vec<(&str, String)> = Vec::new();
    rows.push(("task", text::one_line(task, WIDTH)));
    rows.push(("project", project(contract)));
    if let Some(pinned) = contract.pinned {
        rows.push(("base tree", pinned.to_string()));
    }
    match &contract.model {
        Some(model) => {
            let endpoint = model.endpoint.as_deref().map(text::address).unwrap_or_default();
            rows.push(("model", format!("{} {endpoint}", model.reference)));
        }
        None => rows.push(("model", "none".to_owned())),
    }
    rows.push(("trust", contract.trust.to_string()));
    rows.push(("works in", format!("the {} sandbox, {}", contract.sandbox, network(contract))));
    if !contract.tools.is_empty() {
        let tools: Vec<&str> = contract.tools.iter().map(|tool| tool.as_str()).collect();
        rows.push(("tools", tools.join(" ")));
    }
    let commands = [("set-up", &contract.environment.setup), ("probe", &contract.environment.probe)];
    for (name, argv) in commands {
        rows.extend(argv.as_ref().map(|argv| (name, words(argv))));
    }
    for layer in &contract.environment.layers {
        rows.push(("reads", format!("{} as {}", layer.source, layer.target)));
    }
    for check in &contract.checks {
        rows.push((
            "check",
            format!("{} ({}, {} at most)", words(&check.argv), check.expect.as_str(), check.timeout),
        ));
    }
    if contract.checks.is_empty() {
        rows.push(("check", "none: the outcome claims nothing".to_owned()));
    }
    let list = |globs: &[String]| globs.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    rows.push(match contract.scope.is_empty() {
        true => ("may change", "everything but tests and what runs them".to_owned()),
        false => ("may change", list(&contract.scope)),
    });
    if contract.unfenced {
        rows.push(("may change", "tests and what runs them too: nothing is protected".to_owned()));
    }
    if !contract.protect.is_empty() {
        rows.push(("protected", list(&contract.protect)));
    }
    for allowance in &contract.allow {
        let place = allowance.glob.as_deref().map(|glob| format!(" in {glob}")).unwrap_or_default();
        rows.push(("allowed", format!("{}{place}", allowance.rule)));
    }
    if let Some(review) = &contract.review {
        rows.push(("reviewer", format!("{}, {} rounds at most", review.model.reference, review.rounds)));
    }
    rows.push(("limits", limits(contract)));
    let capabilities: Vec<&str> =
        countersign_kernel::granted(contract).iter().map(|capability| capability.as_str()).collect();
    rows.push(("may", capabilities.join(" ")));
    if let Ok(digest) = contract.digest() {
        rows.push(("contract", digest.to_string()));
    }
    rows.into_iter().map(|(name, value)| format!("{name:<11} {}", text::one_line(&value, WIDTH))).collect()
}

fn project(contract: &Contract) -> String {
    match &contract.source {
        Source::Git { repository, rev, include_dirty } => {
            let dirty = if *include_dirty { " with what is not committed" } else { "" };
            format!("{repository} at {rev}{dirty}")
        }
        Source::Directory { path } => path.clone(),
    }
}

const fn network(contract: &Contract) -> &'static str {
    match contract.network {
        Network::None => "no network",
        Network::Host => "with this machine's network",
    }
}

/// An argv as a person types it.
fn words(argv: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c))
    };
    let quoted = argv
        .iter()
        .map(|word| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) });
    quoted.collect::<Vec<_>>().join(" ")
}

fn limits(contract: &Contract) -> String {
    let limits = &contract.limits;
    let mut all = vec![format!("{} steps", limits.turns), format!("{} active", limits.deadline)];
    all.extend(limits.tokens.map(|tokens| format!("{tokens} tokens")));
    all.extend(limits.cost.map(|cost| format!("{cost} USD")));
    all.push(format!("{} tool actions", limits.tool_actions));
    all.push(format!("{} attempts", contract.attempts));
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_reads_them() {
        let argv = ["sh", "-c", "echo 'it'; rm x", ""].map(str::to_owned);
        assert_eq!(words(&argv), r"sh -c 'echo '\''it'\''; rm x' ''");
    }
}
