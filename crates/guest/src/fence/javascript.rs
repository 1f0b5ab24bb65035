//! What node's test runners, package managers and transformers read in `package.json` and `tsconfig.json`.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json};

use super::keys::Keys;

/// Tables of test runners, coverage tools and transformers.
const PACKAGE_TABLES: &[&str] = &[
    "jest", "mocha", "ava", "vitest", "c8", "nyc", "tap", "xo", "karma", "jasmine", "babel", "wtr", "wireit",
    "cypress",
];

/// Scripts that stand for a check, with their `pre` and `post` hooks.
const CHECK_SCRIPTS: &[&str] = &[
    "test",
    "check",
    "ci",
    "verify",
    "validate",
    "spec",
    "e2e",
    "integration",
    "unit",
    "coverage",
    "jest",
    "mocha",
    "vitest",
    "ava",
    "tap",
];

/// Scripts that a package manager runs by itself while it installs.
const INSTALL_SCRIPTS: &[&str] =
    &["preinstall", "install", "postinstall", "prepare", "preprepare", "postprepare", "prepublish"];

/// What is ordinary and told: it says how a package is loaded, by its tests as by everybody else.
const NOTED: &[&str] =
    &["type", "main", "module", "exports", "imports", "packageManager", "engines", "volta", "config"];

/// Tables of dependencies; where one comes from is compared, its version is not.
const DEPENDENCIES: &[&str] =
    &["dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "bundledDependencies"];

/// The commands of the scripts that a check may run. `goals` are words of the check: a script of that name is one.
pub(super) fn check_commands(text: &str, goals: &[String]) -> Vec<String> {
    let Ok(root) = serde_json::from_str::<Json>(text.strip_prefix('\u{feff}').unwrap_or(text)) else {
        return Vec::new();
    };
    let Some(scripts) = root.get("scripts").and_then(Json::as_object) else { return Vec::new() };
    let reached = reached_scripts(scripts, goals);
    reached.iter().filter_map(|name| scripts.get(*name)?.as_str()).map(str::to_owned).collect()
}

pub(super) fn package_json(root: &Json, goals: &[String]) -> Keys {
    let mut keys = Keys::default();
    let scripts = root.get("scripts").and_then(Json::as_object);
    let reached = scripts.map(|scripts| reached_scripts(scripts, goals)).unwrap_or_default();
    for (name, value) in scripts.into_iter().flatten() {
        if reached.contains(name.as_str()) {
            keys.exact.insert(format!("scripts.{name}"), value.to_string());
        } else if INSTALL_SCRIPTS.contains(&name.as_str()) {
            keys.noted.insert(format!("scripts.{name}"), value.to_string());
        }
    }
    for name in PACKAGE_TABLES {
        if let Some(value) = root.get(*name) {
            keys.exact.insert((*name).to_owned(), value.to_string());
        }
    }
    for name in NOTED {
        if let Some(value) = root.get(*name) {
            keys.noted.insert((*name).to_owned(), value.to_string());
        }
    }
    // A workspace that is taken out takes its tests along; one more is ordinary.
    let workspaces = root.get("workspaces");
    let list = workspaces.and_then(|w| w.get("packages")).or(workspaces).and_then(Json::as_array);
    for pattern in list.into_iter().flatten().filter_map(Json::as_str) {
        keys.keep.insert(format!("workspaces {pattern}"));
    }
    for table in DEPENDENCIES {
        for (name, value) in root.get(*table).and_then(Json::as_object).into_iter().flatten() {
            let parts = keys.groups.entry(format!("dependency {name}")).or_default();
            parts.insert("source".to_owned(), source(value.as_str().unwrap_or_default()));
        }
    }
    for path in
        [&["overrides"][..], &["resolutions"], &["pnpm", "overrides"], &["pnpm", "patchedDependencies"]]
    {
        let value = path.iter().try_fold(root, |value, key| value.get(*key));
        if let Some(value) = value {
            overrides(&path.join("."), value, &mut keys);
        }
    }
    keys
}

/// The scripts that a check may run: by their names, and those that one of these calls, as far as they are named in it.
fn reached_scripts<'a>(scripts: &'a Map<String, Json>, goals: &[String]) -> BTreeSet<&'a str> {
    let plain = |name: &'_ str| {
        let bare = name.strip_prefix("pre").or_else(|| name.strip_prefix("post"));
        bare.filter(|bare| scripts.contains_key(*bare) || is_check(bare)).map(str::to_owned)
    };
    let is_goal = |name: &str| is_check(name) || goals.iter().any(|goal| goal == name);
    let mut reached: BTreeSet<&str> =
        scripts.keys().map(String::as_str).filter(|name| is_goal(name)).collect();
    loop {
        let said: BTreeSet<&str> = reached
            .iter()
            .filter_map(|name| scripts.get(*name)?.as_str())
            .flat_map(|text| text.split(|c: char| c.is_whitespace() || ";&|()\"'`".contains(c)))
            .collect();
        let more: Vec<&str> = scripts
            .keys()
            .map(String::as_str)
            .filter(|name| !reached.contains(name))
            .filter(|name| {
                said.contains(name)
                    || plain(name).is_some_and(|bare| reached.contains(bare.as_str()) || is_check(&bare))
                    // `npm-run-all test:*`
                    || said.iter().any(|word| word.strip_suffix('*').is_some_and(|front| !front.is_empty() && name.starts_with(front)))
            })
            .collect();
        if more.is_empty() {
            return reached;
        }
        reached.extend(more);
    }
}

fn is_check(name: &str) -> bool {
    CHECK_SCRIPTS.iter().any(|script| name.starts_with(script))
}

/// `registry` for every version range and tag, `workspace` for a package of the tree; else where the package comes
/// from, whatever its version there.
fn source(spec: &str) -> String {
    let is_range = spec.chars().all(|c| c.is_ascii_alphanumeric() || " .<>=^~*|-+".contains(c));
    match spec.split_once(':') {
        _ if is_range => "registry".to_owned(),
        Some(("workspace" | "catalog", _)) => "workspace".to_owned(),
        _ => spec.split('#').next().unwrap_or_default().to_owned(),
    }
}

/// An override to another version is ordinary; one to another place is not.
fn overrides(name: &str, value: &Json, keys: &mut Keys) {
    match value {
        Json::Object(map) => {
            for (key, value) in map {
                overrides(&format!("{name}.{key}"), value, keys);
            }
        }
        Json::String(spec) if source(spec) == "registry" => {}
        other => {
            keys.exact.insert(name.to_owned(), other.to_string());
        }
    }
}

// ---- tsconfig.json

/// Options that say where an import leads, or run code.
const PATH_OPTIONS: &[&str] =
    &["paths", "baseUrl", "rootDirs", "plugins", "moduleSuffixes", "customConditions"];

pub(super) fn tsconfig(root: &Json) -> Keys {
    let mut keys = Keys::default();
    let options = root.get("compilerOptions").and_then(Json::as_object);
    for (name, value) in options.into_iter().flatten() {
        let to = if PATH_OPTIONS.contains(&name.as_str()) { &mut keys.exact } else { &mut keys.noted };
        to.insert(format!("compilerOptions.{name}"), value.to_string());
    }
    for (name, value) in root.as_object().into_iter().flatten() {
        let to = match name.as_str() {
            "compilerOptions" => continue,
            "ts-node" | "tsx" => &mut keys.exact,
            // A published set of options is ordinary; a file of the tree may hold any of the others.
            "extends" if value.as_str().is_none_or(|from| from.starts_with(['.', '/'])) => &mut keys.exact,
            _ => &mut keys.noted,
        };
        to.insert(name.clone(), value.to_string());
    }
    keys
}

/// JSON with comments and commas before a closing bracket, as TypeScript reads it, without them.
pub(super) fn plain_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
    let mut in_string = false;
    // Where a comma stands that nothing but white space follows yet.
    let mut comma: Option<usize> = None;
    while let Some(c) = chars.next() {
        if in_string {
            out.push(c);
            match c {
                '\\' => out.extend(chars.next()),
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match (c, chars.peek()) {
            ('/', Some('/')) => while chars.next_if(|c| *c != '\n').is_some() {},
            ('/', Some('*')) => {
                let mut before = ' ';
                chars.next();
                for c in chars.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
                out.push(' ');
            }
            _ => {
                if matches!(c, ']' | '}')
                    && let Some(at) = comma
                {
                    out.replace_range(at..=at, " ");
                }
                if c == ',' {
                    comma = Some(out.len());
                } else if !c.is_whitespace() {
                    comma = None;
                }
                in_string = c == '"';
                out.push(c);
            }
        }
    }
    out
}
