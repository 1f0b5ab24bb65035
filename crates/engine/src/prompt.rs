//! What the model is told at the start. Both texts are functions of recorded values alone, so that a resumed process
//! sends the same bytes.

use countersign_kernel::contract::Contract;
use countersign_tree::Manifest;

/// Entries of the root that the opening names.
const MAX_LISTED: usize = 60;

/// The system text. It never changes within a session.
pub(crate) fn system(contract: &Contract) -> String {
    if read_only(contract) {
        return "You answer a question about a software project. You can list, read and search its files; you cannot \
                change them or run anything. Look before you answer, name the files that the answer rests on, and say \
                plainly what you could not find. Reply with text alone when you have the answer."
            .to_owned();
    }
    let mut text = String::from(
        "You are a software engineer working in a project. Use the tools to look at the files, change them and run \
         commands. Commands run in a sandbox; nothing that they start outlives them.\n\
         Read before you edit. Keep the change as small as the task allows and in the project's own style. Run the \
         project's tests while you work.\n",
    );
    if contract.checks.is_empty() {
        text.push_str("Call `finish` with a short summary when the task is done.");
    } else {
        text.push_str(
            "When the task is done, call `finish`. Your word that it works is not what counts: the files as they are \
             then are copied into a clean room and judged by the project's check. If you cannot solve the task, say so \
             in `finish`.",
        );
        if contract.repro_first {
            text.push_str(
                "\nShow first that there is something to mend: write a new test that fails because of it and call \
                 `declare_repro`, before you change anything else. If no test can show it, call `skip_repro` with the \
                 reason.",
            );
        }
    }
    text
}

/// The first message: the task, then where it happens.
pub(crate) fn opening(contract: &Contract, task: &str, base: &Manifest, allowed: Option<&str>) -> String {
    let mut text = task.trim_end().to_owned();
    text.push_str("\n\n---\nThe project's root is /workspace and every command starts there. It holds:\n");
    let mut names: Vec<String> = Vec::new();
    for entry in base.entries() {
        let bytes = entry.path.as_bytes();
        let shown = entry.path.to_string();
        let name = match bytes.iter().position(|b| *b == b'/') {
            Some(_) => format!("{}/", shown.split('/').next().unwrap_or_default()),
            None => shown,
        };
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(MAX_LISTED);
    names.truncate(MAX_LISTED);
    text.push_str(&names.join("\n"));
    if more > 0 {
        text.push_str(&format!("\n… and {more} more"));
    }
    text.push('\n');
    for check in &contract.checks {
        text.push_str(&format!("The check is: {}\n", check.argv.join(" ")));
    }
    if !contract.scope.is_empty() {
        text.push_str(&format!("Only these paths may be changed: {}\n", contract.scope.join(", ")));
    }
    if let Some(allowed) = allowed {
        text.push_str(allowed);
        text.push('\n');
    }
    text
}

/// A question may look and ask, nothing else.
pub(crate) fn read_only(contract: &Contract) -> bool {
    contract.preset.name.starts_with("question")
}

#[cfg(test)]
mod tests {
    use countersign_types::Digest;
    use serde_json::{Value, json};

    use super::*;

    fn contract(preset: &str, checks: &Value, repro_first: bool) -> Contract {
        let nothing = Digest::of(b"");
        serde_json::from_value(json!({
            "schema": countersign_kernel::contract::CONTRACT_SCHEMA,
            "preset": { "name": preset, "digest": nothing, "canonical": true },
            "model": null, "trust": "reviewed", "sandbox": "native", "floor": [], "network": "none",
            "source": { "kind": "directory", "path": "/p" },
            "environment": { "setup": null, "probe": null, "layers": [], "path": [], "env": {} },
            "checks": checks, "scope": [], "protect": [], "change_required": true, "require_verified": false,
            "min_strength": null, "attempts": 1, "repository_instructions": true, "repro_first": repro_first,
            "limits": { "turns": 1, "tokens": null, "cost": null, "deadline": 1, "tool_actions": 1, "output_bytes": 1,
                "command_timeout": 1, "model_retries": 0 },
        }))
        .unwrap()
    }

    /// A changed digest means another behaviour under an old name: raise the version of the preset instead.
    #[test]
    fn what_a_preset_tells_the_agent_never_changes() {
        let check = json!([{ "argv": ["true"], "expect": "fix", "timeout": 1 }]);
        let told = |preset, checks: &Value, repro| {
            Digest::of(system(&contract(preset, checks, repro)).as_bytes()).hex()[..16].to_owned()
        };
        assert_eq!(
            [
                told("coding@1", &json!([]), false),
                told("coding@1", &check, false),
                told("coding@1", &check, true),
                told("question@1", &json!([]), false),
            ],
            ["d6ef5ec055b5afe5", "9f75db32cf12a3cb", "14404b766bc393ae", "2516c2a847061c7a"]
        );
    }
}
