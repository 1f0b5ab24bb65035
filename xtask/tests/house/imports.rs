//! The table of who may use whom. A crate that is not in it, or uses more than it may, fails.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::metadata;

/// Package, and the packages of ours that its product code may use. `ARCHITECTURE.md` says why.
const MAY_USE: &[(&str, &[&str])] = &[
    ("countersign-types", &[]),
    ("countersign-kernel", &["countersign-types"]),
    ("countersign-redact", &["countersign-types"]),
    ("countersign-config", &["countersign-types"]),
    ("countersign-tree", &["countersign-types"]),
    ("countersign-cell", &["countersign-types"]),
    ("countersign-jail", &["countersign-types"]),
    ("countersign-guest", &["countersign-types", "countersign-tree"]),
    ("countersign-llm", &["countersign-types"]),
    (
        "countersign-tools",
        &["countersign-types", "countersign-kernel", "countersign-tree", "countersign-guest"],
    ),
    (
        "countersign-gates",
        &["countersign-types", "countersign-kernel", "countersign-tree", "countersign-guest"],
    ),
    ("countersign-store", &["countersign-types", "countersign-kernel"]),
    ("countersign-store-postgres", &["countersign-types", "countersign-store"]),
    ("countersign-proof", &["countersign-types", "countersign-tree"]),
    (
        "countersign-engine",
        &[
            "countersign-types",
            "countersign-kernel",
            "countersign-redact",
            "countersign-tree",
            "countersign-cell",
            "countersign-guest",
            "countersign-llm",
            "countersign-tools",
            "countersign-gates",
            "countersign-store",
        ],
    ),
    (
        "countersign",
        &[
            "countersign-types",
            "countersign-kernel",
            "countersign-redact",
            "countersign-config",
            "countersign-tree",
            "countersign-cell",
            "countersign-guest",
            "countersign-llm",
            "countersign-proof",
            "countersign-tools",
            "countersign-gates",
            "countersign-store",
            "countersign-engine",
        ],
    ),
    ("countersign-testkit", &["countersign-types", "countersign-llm"]),
    ("xtask", &[]),
];

/// All that these may use of others. What is not here is a decision to be made, with its reason.
const OTHERS: &[(&str, &[&str])] = &[
    ("countersign-types", &["base64", "serde", "serde_json", "sha2", "thiserror"]),
    ("countersign-kernel", &["serde", "serde_json", "thiserror"]),
    ("xtask", &["serde_json"]),
];

/// What these may not even reach through others.
const NEVER_REACHED: &[(&str, &[&str])] = &[
    ("countersign-kernel", &["tokio", "hyper", "rand", "getrandom", "rusqlite", "rustix", "mio"]),
    ("countersign-tree", &["tokio", "hyper", "rusqlite", "mio"]),
    ("countersign-proof", &["tokio", "hyper", "rusqlite", "mio", "futures"]),
    ("countersign-jail", &["tokio", "hyper", "rusqlite", "mio", "futures"]),
    ("countersign-guest", &["tokio", "hyper", "rusqlite", "mio", "futures"]),
    ("xtask", &["tokio", "clap", "countersign-types"]),
];

/// Only tests and chores may depend on these.
const DEV_ONLY: &[&str] = &["countersign-testkit", "xtask"];

/// Name and kind (normal, build, dev) of each direct dependency of each package of the workspace.
fn direct(metadata: &Value) -> BTreeMap<String, Vec<(String, bool)>> {
    let members: Vec<&Value> = metadata["workspace_members"].as_array().unwrap().iter().collect();
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| members.contains(&&package["id"]))
        .map(|package| {
            let uses = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .map(|dep| (dep["name"].as_str().unwrap().to_owned(), dep["kind"] == "dev"))
                .collect();
            (package["name"].as_str().unwrap().to_owned(), uses)
        })
        .collect()
}

#[test]
fn crates_use_only_what_the_table_says() {
    let mut wrong = Vec::new();
    let all = direct(&metadata(false));
    let ours: BTreeSet<&str> = all.keys().map(String::as_str).collect();
    for (package, uses) in &all {
        let Some((_, may)) = MAY_USE.iter().find(|(name, _)| name == package) else {
            wrong.push(format!("{package} is not in the table"));
            continue;
        };
        for (used, dev) in uses {
            if *dev {
                continue;
            }
            if DEV_ONLY.contains(&used.as_str()) {
                wrong.push(format!("{package} uses {used}, which is for tests only"));
            } else if ours.contains(used.as_str()) && !may.contains(&used.as_str()) {
                wrong.push(format!("{package} may not use {used}"));
            }
            if let Some((_, others)) = OTHERS.iter().find(|(name, _)| name == package)
                && !ours.contains(used.as_str())
                && !others.contains(&used.as_str())
            {
                wrong.push(format!("{package} may not use {used}"));
            }
        }
    }
    for (package, _) in MAY_USE {
        if !ours.contains(package) {
            wrong.push(format!("{package} is in the table and not in the workspace"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn pure_and_static_crates_reach_no_runtime() {
    let metadata = metadata(true);
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap(), node))
        .collect();
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["id"].as_str().unwrap(), package["name"].as_str().unwrap()))
        .collect();
    let mut wrong = Vec::new();
    for (package, never) in NEVER_REACHED {
        let start = *names.iter().find(|(_, name)| *name == package).unwrap().0;
        let mut seen = BTreeSet::new();
        let mut todo = vec![start];
        while let Some(id) = todo.pop() {
            if !seen.insert(id) {
                continue;
            }
            for dep in nodes[id]["deps"].as_array().unwrap() {
                let normal = dep["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null());
                if normal {
                    todo.push(dep["pkg"].as_str().unwrap());
                }
            }
        }
        seen.remove(start);
        wrong.extend(
            seen.iter()
                .filter(|id| never.contains(&names[**id]))
                .map(|id| format!("{package} reaches {}", names[*id])),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
