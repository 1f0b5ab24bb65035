//! Scripts of package.json that a package manager runs on an install.

use countersign_tree::TreePath;
use serde_json::Value;

use super::finding;
use crate::protocol::{HygieneFinding, HygieneKind};

const ON_INSTALL: &[&str] = &[
    "preinstall",
    "install",
    "postinstall",
    "preprepare",
    "prepare",
    "postprepare",
    "prepublish",
    "dependencies",
];

pub(super) fn findings(path: &TreePath, before: &[u8], after: &[u8]) -> Option<HygieneFinding> {
    let name = path.as_bytes().rsplit(|b| *b == b'/').next().unwrap_or_default();
    if !name.eq_ignore_ascii_case(b"package.json") {
        return None;
    }
    let (old, new) = (scripts(before), scripts(after));
    let changed: Vec<&str> = ON_INSTALL
        .iter()
        .filter(|name| new.get(**name).is_some() && old.get(**name) != new.get(**name))
        .copied()
        .collect();
    // A file that cannot be read as JSON is not read by a package manager either.
    if changed.is_empty() {
        return None;
    }
    let detail = format!("a package manager runs these scripts on an install: {}", changed.join(", "));
    Some(finding(HygieneKind::SelfStarting, path, None, detail))
}

fn scripts(bytes: &[u8]) -> Value {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    value.get("scripts").cloned().unwrap_or_default()
}
