//! Reads a profile's directory: strictly, bounded, and from bytes that are already in memory.

use std::collections::{BTreeMap, BTreeSet};

use countersign_kernel::contract::{Allowance, CheckTerms, Compare, Deps, Expect, HeldOutTerms};
use countersign_tree::{Entry, EntryMode, GlobSet, Manifest, TreePath};
use countersign_types::{Digest, Millis};
use serde::{Deserialize, Serialize};

use super::held_out::{self, HeldOutCase};
use crate::adapters::adapter_of;
use crate::rules;

/// A profile's directory as bytes: the path of each file below it, with its mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileFiles(BTreeMap<TreePath, (EntryMode, Vec<u8>)>);

/// Why a directory is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProfileError(pub String);

impl ProfileFiles {
    /// Files that one profile may hold.
    pub const MAX_FILES: usize = 4096;
    /// Bytes that all of them may hold together.
    pub const MAX_BYTES: u64 = 64 << 20;
    /// The file that says everything.
    pub const MAIN: &str = "profile.json";

    /// Adds one file.
    ///
    /// # Errors
    /// A link, and more files or bytes than a profile may hold.
    pub fn add(&mut self, path: TreePath, mode: EntryMode, bytes: Vec<u8>) -> Result<(), ProfileError> {
        if mode == EntryMode::Symlink {
            return Err(ProfileError(format!("{path} is a symbolic link: a profile holds plain files only")));
        }
        self.0.insert(path, (mode, bytes));
        let bytes: u64 = self.0.values().map(|(_, bytes)| bytes.len() as u64).sum();
        if self.0.len() > Self::MAX_FILES || bytes > Self::MAX_BYTES {
            return Err(ProfileError(format!(
                "it holds more than {} files or {} MiB",
                Self::MAX_FILES,
                Self::MAX_BYTES >> 20
            )));
        }
        Ok(())
    }

    /// The digest that pins it: that of a tree with these files.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let entry = |(path, (mode, bytes)): (&TreePath, &(EntryMode, Vec<u8>))| Entry {
            path: path.clone(),
            mode: *mode,
            size: bytes.len() as u64,
            digest: Digest::of(bytes),
        };
        Manifest::new(self.0.iter().map(entry).collect()).digest()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&TreePath, EntryMode, &[u8])> {
        self.0.iter().map(|(path, (mode, bytes))| (path, *mode, bytes.as_slice()))
    }

    fn read(&self, path: &str) -> Option<&[u8]> {
        let path = TreePath::new(path).ok()?;
        self.0.get(&path).map(|(_, bytes)| bytes.as_slice())
    }
}

/// `profile.json`: every key that it may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileTerms {
    /// [`ProfileTerms::SCHEMA`].
    pub schema: String,
    /// Lower-case letters, digits, `.`, `_` and `-`, at most 64, the first a letter or a digit.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Makes the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Vec<String>>,
    /// Exits 0 where the environment is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Vec<String>>,
    /// At least one; all must pass.
    pub checks: Vec<ProfileCheck>,
    /// What may be changed, as globs from the root. Empty: all but protected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<String>,
    /// Protected in addition to the languages' rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
    /// Rules of the fence that may be broken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Allowance>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub deps: Deps,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileCheck {
    pub argv: Vec<String>,
    #[serde(default = "fix")]
    pub expect: Expect,
    /// For example `10m`, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// From 1 to 10.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeats: u32,
    /// The runner that `argv` has to be, so that tests are seen by name. Without it, whatever it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    /// Tests that have to run and pass on the final tree, by the runner's ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<ProfileHeldOut>,
}

/// Inputs that no agent sees, and what a right program answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileHeldOut {
    /// The program, called once for each case.
    pub argv: Vec<String>,
    /// Runs once before the first case, in the same room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Vec<String>>,
    /// A directory of the profile: `NAME.out` for each case, with `NAME.in`, `NAME.args` and `NAME.code` as needed.
    pub cases: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub compare: Compare,
    /// For one case, for example `10s`; the default is one minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// An answer that takes longer is a wrong one, for example `2s`. Leave room for a slow machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
}

const fn fix() -> Expect {
    Expect::Fix
}

const fn once() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_once(repeats: &u32) -> bool {
    *repeats == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A profile that holds together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub digest: Digest,
    pub terms: ProfileTerms,
    /// What a contract takes over.
    pub checks: Vec<CheckTerms>,
    /// For each check, its held-out cases in the order of their names.
    held_out: Vec<Vec<HeldOutCase>>,
}

impl ProfileTerms {
    pub const SCHEMA: &str = "countersign.profile/1";
    /// Checks of one profile.
    pub const MAX_CHECKS: usize = 16;

    /// Whether a text can be a profile's name.
    #[must_use]
    pub fn is_name(text: &str) -> bool {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        text.len() <= 64
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|b| plain(b) || matches!(b, b'.' | b'_' | b'-'))
    }
}

impl Profile {
    /// The time of a check that names none.
    pub const CHECK_TIMEOUT: Millis = Millis::from_secs(600);
    /// The time of a held-out case where none is named.
    pub const CASE_TIMEOUT: Millis = Millis::from_secs(60);

    /// Reads a profile from its files.
    ///
    /// # Errors
    /// What does not hold, with the place in `profile.json`.
    pub fn read(files: &ProfileFiles) -> Result<Self, ProfileError> {
        let main = ProfileFiles::MAIN;
        let bytes = files.read(main).ok_or_else(|| ProfileError(format!("it has no {main}")))?;
        let terms: ProfileTerms =
            serde_json::from_slice(bytes).map_err(|error| ProfileError(format!("{main}: {error}")))?;
        let at = |place: &str, what: String| ProfileError(format!("{main}: {place}: {what}"));
        if terms.schema != ProfileTerms::SCHEMA {
            return Err(at(
                "schema",
                format!("it is `{}`, and this program reads {}", terms.schema, ProfileTerms::SCHEMA),
            ));
        }
        if !ProfileTerms::is_name(&terms.name) {
            return Err(at(
                "name",
                "it has to be lower-case letters, digits, `.`, `_` or `-`, at most 64, a letter or digit first"
                    .to_owned(),
            ));
        }
        if terms.checks.is_empty() || terms.checks.len() > ProfileTerms::MAX_CHECKS {
            return Err(at("checks", format!("there have to be 1 to {}", ProfileTerms::MAX_CHECKS)));
        }
        for (place, argv) in [("setup", &terms.setup), ("probe", &terms.probe)] {
            words(argv.as_deref()).map_err(|what| at(place, what))?;
        }
        for (place, globs) in [("scope", &terms.scope), ("protect", &terms.protect)] {
            for glob in globs {
                GlobSet::new([glob]).map_err(|error| at(place, format!("`{glob}`: {error}")))?;
            }
        }
        for allowance in &terms.allow {
            if !rules::catalogue().iter().any(|row| row.can_be_allowed && row.name == allowance.rule) {
                return Err(at(
                    "allow",
                    format!("`{}` is no rule of the fence that can be allowed", allowance.rule),
                ));
            }
            if let Some(glob) = &allowance.glob {
                GlobSet::new([glob]).map_err(|error| at("allow", format!("`{glob}`: {error}")))?;
            }
        }
        let (mut checks, mut held_out) = (Vec::new(), Vec::new());
        for (index, check) in terms.checks.iter().enumerate() {
            let (one, cases) =
                check.read(files).map_err(|ProfileError(what)| at(&format!("checks[{index}]"), what))?;
            checks.push(one);
            held_out.push(cases);
        }
        Ok(Self { digest: files.digest(), terms, checks, held_out })
    }

    /// The held-out cases of a check, by its position.
    #[must_use]
    pub fn cases(&self, check: usize) -> &[HeldOutCase] {
        self.held_out.get(check).map_or(&[], Vec::as_slice)
    }
}

impl ProfileCheck {
    /// A command that is run once and must turn from red to green.
    #[must_use]
    pub const fn new(argv: Vec<String>) -> Self {
        let (timeout, runner, held_out) = (None, None, None);
        Self { argv, expect: Expect::Fix, timeout, repeats: 1, runner, ids: Vec::new(), held_out }
    }

    fn read(&self, files: &ProfileFiles) -> Result<(CheckTerms, Vec<HeldOutCase>), ProfileError> {
        let fail = |place: &str, what: String| ProfileError(format!("{place}: {what}"));
        words(Some(&self.argv)).map_err(|what| fail("argv", what))?;
        if !(1..=10).contains(&self.repeats) {
            return Err(fail("repeats", "it has to be from 1 to 10".to_owned()));
        }
        let adapter = adapter_of(&self.argv);
        if let Some(runner) = &self.runner
            && adapter.is_none_or(|adapter| adapter.name() != runner)
        {
            let is = adapter.map_or("no runner whose tests are known by name", |adapter| adapter.name());
            return Err(fail("runner", format!("argv has to be `{runner}`, and it is {is}")));
        }
        let names: BTreeSet<&String> = self.ids.iter().collect();
        if names.len() != self.ids.len() || names.iter().any(|id| id.is_empty()) {
            return Err(fail("ids", "a name is empty or stands twice".to_owned()));
        }
        if !self.ids.is_empty() && adapter.is_none() {
            return Err(fail(
                "ids",
                "the tests of this argv are not known by name: call the runner itself".to_owned(),
            ));
        }
        let time = |place: &str, text: &Option<String>, default| match text {
            None => Ok(default),
            Some(text) => match text.parse::<Millis>() {
                Ok(time) if time.0 > 0 => Ok(time),
                Ok(_) => Err(fail(place, "no time at all".to_owned())),
                Err(error) => Err(fail(place, error.to_string())),
            },
        };
        let timeout = time("timeout", &self.timeout, Profile::CHECK_TIMEOUT)?;
        let (held_out, cases) = match &self.held_out {
            None => (None, Vec::new()),
            Some(held_out) => {
                let cases = held_out::read(files, &held_out.cases)
                    .map_err(|ProfileError(what)| fail("held_out.cases", what))?;
                words(Some(&held_out.argv)).map_err(|what| fail("held_out.argv", what))?;
                words(held_out.build.as_deref()).map_err(|what| fail("held_out.build", what))?;
                let within = held_out.within.is_some();
                let within = within
                    .then(|| time("held_out.within", &held_out.within, Profile::CASE_TIMEOUT))
                    .transpose()?;
                let terms = HeldOutTerms {
                    within,
                    argv: held_out.argv.clone(),
                    build: held_out.build.clone(),
                    compare: held_out.compare,
                    timeout: time("held_out.timeout", &held_out.timeout, Profile::CASE_TIMEOUT)?,
                    cases: u32::try_from(cases.len()).unwrap_or(u32::MAX),
                    digest: held_out::digest(&cases),
                };
                (Some(terms), cases)
            }
        };
        let terms = CheckTerms {
            argv: self.argv.clone(),
            expect: self.expect,
            timeout,
            repeats: self.repeats,
            runner: self.runner.clone(),
            ids: self.ids.clone(),
            held_out,
        };
        Ok((terms, cases))
    }
}

/// What a command's words must be.
fn words(argv: Option<&[String]>) -> Result<(), String> {
    let Some(argv) = argv else { return Ok(()) };
    if argv.first().is_none_or(String::is_empty) {
        return Err("it has to be a list of words of which the first is a program".to_owned());
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err("a word holds a NUL byte".to_owned());
    }
    Ok(())
}
