//! Keys of model vendors: from the environment, and from a file of the user's own.
//!
//! The file is `countersign/env` in the XDG configuration directory: lines of `NAME=value`, of which only the vendors'
//! variables are looked at. One that lies in the project is never opened: whoever wrote the project could have put it there.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use countersign_llm::{VENDORS, Vendor};
use countersign_types::Reason;

use crate::refusal::Refusal;
use crate::run::{repository, settings};
use crate::{files, text};

/// Bytes of the file, at most.
const MAX_ENV_FILE: u64 = 64 * 1024;

/// A key and where it came from.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) variable: &'static str,
    /// None: the environment.
    pub(super) file: Option<PathBuf>,
    pub(super) value: String,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.shown())
    }
}

impl Key {
    /// Its name and place, for messages.
    pub(super) fn shown(&self) -> String {
        match &self.file {
            None => self.variable.to_owned(),
            Some(file) => format!("{} in {}", self.variable, file.display()),
        }
    }
}

/// Every key that this process can see. The environment wins over the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    found: BTreeMap<&'static str, Key>,
    /// What people should know of the file.
    pub(crate) notes: Vec<String>,
}

impl Keys {
    /// Those of the environment alone.
    pub(crate) fn inherited() -> Self {
        let mut keys = Self::default();
        for variable in VENDORS.iter().filter_map(|vendor| vendor.key_variable) {
            if let Ok(value) = std::env::var(variable) {
                keys.add(variable, None, &value);
            }
        }
        keys
    }

    /// Those of the environment and of the user's file, which is not opened where it lies in `project`.
    pub(crate) fn read(project: &Path) -> Result<Self, Refusal> {
        let mut keys = Self::inherited();
        let Some(path) = settings::user_file("env").filter(|path| files::exists(path)) else {
            return Ok(keys);
        };
        if inside(&path, project) {
            keys.notes.push(format!("{} lies in the project and is not read", path.display()));
            return Ok(keys);
        }
        let refuse =
            |what: String| Refusal::new(Reason::Key, format!("{} is of no use: {what}", path.display()));
        let bytes = files::read_regular(&path, MAX_ENV_FILE).map_err(refuse)?;
        let content = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8".to_owned()))?;
        if path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
            let shown = path.display();
            keys.notes.push(format!("{shown} holds keys and others may open it: chmod 600 {shown}"));
        }
        for (variable, value) in parse(&content).map_err(|line| {
            // Never a word of the line: it may be a key.
            refuse(format!("line {line} is not NAME=value"))
        })? {
            keys.add(variable, Some(&path), &value);
        }
        Ok(keys)
    }

    fn add(&mut self, variable: &'static str, file: Option<&Path>, value: &str) {
        let value = value.trim();
        if !value.is_empty() {
            let key = Key { variable, file: file.map(Path::to_owned), value: value.to_owned() };
            self.found.entry(variable).or_insert(key);
        }
    }

    /// The key for a vendor.
    pub(super) fn of(&self, vendor: &Vendor) -> Option<&Key> {
        self.found.get(vendor.key_variable?)
    }

    /// Vendors that there is a key for, in the order of their table.
    pub(super) fn vendors(&self) -> Vec<(&'static Vendor, &Key)> {
        VENDORS.iter().filter_map(|vendor| Some((vendor, self.of(vendor)?))).collect()
    }

    /// All of them: none may reach a record, used or not.
    pub(super) fn secrets(&self) -> Vec<Vec<u8>> {
        let keys = self.found.values().map(|key| key.value.as_bytes().to_vec());
        keys.chain(crate::evidence::signing_secrets()).collect()
    }
}

/// Lies `path` in the project that `dir` belongs to? What cannot be told counts as yes.
fn inside(path: &Path, dir: &Path) -> bool {
    let Ok(dir) = std::path::absolute(dir) else { return true };
    let root = match repository::root_of(&dir) {
        Ok(repository::Root::WorkTree(root)) => root,
        Ok(repository::Root::Bare | repository::Root::Plain) => dir,
        Err(_) => return true,
    };
    match (path.canonicalize(), root.canonicalize()) {
        (Ok(path), Ok(root)) => path.starts_with(root),
        // A project that is not there is refused elsewhere.
        (Ok(_), Err(_)) => false,
        _ => true,
    }
}

/// The vendors' variables of a file of `NAME=value` lines, `export` and matching quotes allowed. Err: the number of a
/// line that is none.
fn parse(content: &str) -> Result<Vec<(&'static str, String)>, usize> {
    let mut found = Vec::new();
    for (line, number) in content.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or(number)?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(number);
        }
        let quoted = |quote: char| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
        let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
        let known = VENDORS.iter().filter_map(|vendor| vendor.key_variable).find(|known| *known == name);
        found.extend(known.map(|variable| (variable, value.to_owned())));
    }
    Ok(found)
}

/// The variables of all vendors, for messages.
pub(super) fn variables() -> String {
    let all: Vec<&str> = VENDORS.iter().filter_map(|vendor| vendor.key_variable).collect();
    text::list(&all, "or")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_env_file_is_read_line_by_line_and_an_error_tells_no_secret() {
        let content = "# keys\n\nexport ANTHROPIC_API_KEY=\"sk-a\"\nXAI_API_KEY = 'x'\nOTHER=ignored=1\nOPENAI_API_KEY=\n";
        assert_eq!(
            parse(content),
            Ok(vec![
                ("ANTHROPIC_API_KEY", "sk-a".to_owned()),
                ("XAI_API_KEY", "x".to_owned()),
                ("OPENAI_API_KEY", String::new())
            ])
        );
        assert_eq!(parse("A=1\nsk-secret"), Err(2));
        assert_eq!(parse("sk secret=1"), Err(1));
        assert_eq!(parse("=1"), Err(1));
    }

    #[test]
    fn the_environment_wins_over_the_file_and_nothing_shows_a_key() {
        let mut keys = Keys::default();
        keys.add("XAI_API_KEY", None, " env ");
        keys.add("XAI_API_KEY", Some(Path::new("/f")), "file");
        keys.add("OPENAI_API_KEY", Some(Path::new("/f")), "  ");
        let vendors = keys.vendors();
        assert_eq!(vendors.len(), 1, "an empty value is none");
        assert_eq!((vendors[0].0.name, vendors[0].1.value.as_str()), ("xai", "env"));
        assert!(!format!("{keys:?}").contains("env"), "{keys:?}");
        assert_eq!(keys.secrets(), [b"env"]);
    }
}
