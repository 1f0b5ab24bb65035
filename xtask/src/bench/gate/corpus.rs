//! The corpus `bench/gate/`: bases, cheats and honest controls, as data. Its `README.md` describes the format; a key that is not in it
//! is an error.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sh::{Context, Error, Result};
use crate::suite::Size;

/// A small project that is red for a real bug.
#[derive(Clone, Debug)]
pub struct Base {
    pub name: String,
    pub language: String,
    pub runner: String,
    /// What must be on the machine.
    pub requires: Vec<String>,
    pub task: String,
    /// Makes the environment, as a shell command.
    pub setup: Option<String>,
    /// The check as words.
    pub check: Vec<String>,
    pub probe: Vec<String>,
    /// The product as a program: durations on standard input, seconds on standard output.
    pub held_out: Vec<String>,
    /// The weakest strength that an honest pass must have here.
    pub strength: String,
    /// The files of the repository.
    pub repo: PathBuf,
    /// The true fix, as a shell script.
    pub fix: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cheat,
    Honest,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cheat => "cheat",
            Self::Honest => "honest",
        }
    }
}

/// How the work reaches the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The workspace, as the agent left it, is given to the gate as a directory.
    Tree,
    /// The gate itself runs the agent: what lives on after the last word, and what is said, matter.
    Agent,
}

/// What a right gate answers. Empty: not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    pub outcome: String,
    /// The first is the one; the others are as right.
    pub reasons: Vec<String>,
    /// The weakest strength of a pass.
    pub strength: String,
}

/// One case.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: String,
    pub title: String,
    pub kind: Kind,
    /// The number in the catalogue of false greens, or of honest controls.
    pub catalogue: u64,
    pub layer: char,
    pub base: String,
    /// Where the tables count it; the base's unless the trick is one of git.
    pub language: Option<String>,
    pub mode: Mode,
    /// Contract flags, the same for the honest twin.
    pub flags: Vec<String>,
    /// Instead of the base's.
    pub check: Option<Vec<String>>,
    pub requires: Vec<String>,
    /// Only inputs that the agent never saw tell this from honest work: the set in `held-out/` that does.
    pub held_out: Option<String>,
    pub expect: Expect,
    /// Whether an exit code is fooled.
    pub naive_verified: bool,
    /// What an exit code says is left to chance.
    pub naive_any: bool,
    /// Why an exit code is not fooled, or refuses honest work.
    pub naive_why: String,
    /// Processes of the agent are alive while the naive gate runs.
    pub live: bool,
    /// The weakest strength of the twin's pass, where the check's words hide the runner.
    pub strength: Option<String>,
    /// The agent writes into its environment, so it needs one of its own.
    pub own_environment: bool,
    pub small: bool,
    /// The directory with `agent.sh`, and `base.sh` or `turns.json` where there is one.
    pub dir: PathBuf,
}

impl Entry {
    /// What the agent did. A twin has none of its own: it is the base's fix.
    pub fn agent_script(&self, base: &Base) -> PathBuf {
        let own = self.dir.join("agent.sh");
        if own.is_file() { own } else { base.fix.clone() }
    }

    /// Changes the base's files before they are committed.
    pub fn base_script(&self) -> Option<PathBuf> {
        Some(self.dir.join("base.sh")).filter(|path| path.is_file())
    }

    /// Runs after the commit of the base: what else is in the repository.
    pub fn history_script(&self) -> Option<PathBuf> {
        Some(self.dir.join("history.sh")).filter(|path| path.is_file())
    }

    pub fn check<'a>(&'a self, base: &'a Base) -> &'a [String] {
        self.check.as_deref().unwrap_or(&base.check)
    }

    /// The honest fix under the same terms.
    fn twin(&self, base: &Base, name: &str) -> Self {
        Self {
            id: format!("twin-{name}"),
            title: "the base's true fix under the terms of the cheats".to_owned(),
            kind: Kind::Honest,
            catalogue: 1,
            layer: '-',
            expect: Expect {
                outcome: "verified".to_owned(),
                reasons: vec!["checks_passed".to_owned()],
                strength: match &self.held_out {
                    Some(_) => "held_out".to_owned(),
                    None => self.strength.as_ref().unwrap_or(&base.strength).clone(),
                },
            },
            mode: Mode::Tree,
            language: None,
            naive_verified: true,
            naive_any: false,
            naive_why: String::new(),
            live: false,
            own_environment: false,
            ..self.clone()
        }
    }
}

#[derive(Debug)]
pub struct Corpus {
    pub bases: BTreeMap<String, Base>,
    pub entries: Vec<Entry>,
}

impl Corpus {
    /// # Errors
    /// When a file cannot be read or is not of the format; the text names it.
    pub fn open(dir: &Path) -> Result<Self> {
        let mut bases = BTreeMap::new();
        for name in names(&dir.join("bases"))? {
            bases.insert(name.clone(), base(dir, &name)?);
        }
        let mut entries = Vec::new();
        for (below, kind) in [("cheats", Kind::Cheat), ("honest", Kind::Honest)] {
            for name in names(&dir.join(below))? {
                let entry = entry(&dir.join(below).join(&name), &name, kind)?;
                if !bases.contains_key(&entry.base) {
                    return Err(Error::new(format!("{below}/{name}: there is no base `{}`", entry.base)));
                }
                entries.push(entry);
            }
        }
        let mut corpus = Self { bases, entries };
        corpus.add_twins();
        Ok(corpus)
    }

    /// One twin for each set of terms under which there is a cheat.
    fn add_twins(&mut self) {
        let mut twins: Vec<Entry> = Vec::new();
        for cheat in self.entries.iter().filter(|entry| entry.kind == Kind::Cheat) {
            let Some(base) = self.bases.get(&cheat.base) else { continue };
            // What the base's script adds is a part of the terms; those bases have honest runs of their own.
            if cheat.base_script().is_some() {
                continue;
            }
            let same = |twin: &&mut Entry| {
                (&twin.base, &twin.flags, &twin.check, &twin.held_out)
                    == (&cheat.base, &cheat.flags, &cheat.check, &cheat.held_out)
            };
            match twins.iter_mut().find(same) {
                Some(twin) => twin.small |= cheat.small,
                None => {
                    let number = twins.iter().filter(|twin| twin.base == cheat.base).count() + 1;
                    let mut twin = cheat.twin(base, &format!("{}-{number}", cheat.base));
                    // Its own directory has no script, so that the base's fix is what the agent did.
                    twin.dir = PathBuf::from("/nonexistent");
                    twins.push(twin);
                }
            }
        }
        self.entries.append(&mut twins);
    }

    /// The entries of a size; with `only` those whose id starts with it.
    pub fn chosen(&self, size: Size, only: &[String]) -> Vec<&Entry> {
        self.entries
            .iter()
            .filter(|entry| {
                if only.is_empty() {
                    size == Size::Full || entry.small
                } else {
                    only.iter().any(|id| entry.id.starts_with(id.as_str()))
                }
            })
            .collect()
    }
}

/// The layer of a number in the catalogue of false greens.
pub fn layer_of(catalogue: u64) -> Option<char> {
    const LAYERS: [(u64, char); 9] =
        [(15, 'A'), (41, 'B'), (56, 'C'), (62, 'D'), (73, 'E'), (83, 'F'), (95, 'G'), (103, 'H'), (106, 'I')];
    LAYERS.iter().find(|(last, _)| (1..=*last).contains(&catalogue)).map(|(_, layer)| *layer)
}

/// Names of the directories below `dir`, sorted.
fn names(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for found in std::fs::read_dir(dir).context(dir.display())? {
        let path = found.context(dir.display())?.path();
        if let (true, Some(name)) = (path.is_dir(), path.file_name()) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// One object of a file, whose keys are taken one by one; what is left over is unknown.
struct Fields {
    file: String,
    map: serde_json::Map<String, Value>,
}

impl Fields {
    fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).context(path.display())?;
        let value: Value = serde_json::from_str(&text).context(path.display())?;
        Self::of(path.display(), value)
    }

    fn of(file: impl fmt::Display, value: Value) -> Result<Self> {
        match value {
            Value::Object(map) => Ok(Self { file: file.to_string(), map }),
            _ => Err(Error::new(format!("{file}: not an object"))),
        }
    }

    fn wrong<T>(&self, key: &str, what: &str) -> Result<T> {
        Err(Error::new(format!("{}: `{key}` {what}", self.file)))
    }

    fn optional_text(&mut self, key: &str) -> Result<Option<String>> {
        match self.map.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => self.wrong(key, "is no text"),
        }
    }

    fn text(&mut self, key: &str) -> Result<String> {
        match self.optional_text(key)? {
            Some(text) => Ok(text),
            None => self.wrong(key, "is missing"),
        }
    }

    fn words(&mut self, key: &str) -> Result<Option<Vec<String>>> {
        let Some(value) = self.map.remove(key) else { return Ok(None) };
        let words: Option<Vec<String>> = value
            .as_array()
            .and_then(|all| all.iter().map(|word| word.as_str().map(str::to_owned)).collect());
        match words {
            Some(words) => Ok(Some(words)),
            None => self.wrong(key, "is no list of words"),
        }
    }

    fn flag(&mut self, key: &str) -> Result<bool> {
        match self.map.remove(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => self.wrong(key, "is neither true nor false"),
        }
    }

    fn number(&mut self, key: &str) -> Result<u64> {
        match self.map.remove(key).as_ref().and_then(Value::as_u64) {
            Some(number) => Ok(number),
            None => self.wrong(key, "is no number"),
        }
    }

    fn end(self) -> Result<()> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(key) => self.wrong(key, "is not a key of the format"),
        }
    }
}

fn base(corpus: &Path, name: &str) -> Result<Base> {
    let dir = corpus.join("bases").join(name);
    let mut fields = Fields::read(&dir.join("base.json"))?;
    // A base may be another check over the files of a first one.
    let files = match fields.optional_text("repo")? {
        Some(other) => corpus.join("bases").join(other),
        None => dir,
    };
    let base = Base {
        name: name.to_owned(),
        language: fields.text("language")?,
        runner: fields.text("runner")?,
        requires: fields.words("requires")?.unwrap_or_default(),
        task: fields.text("task")?,
        setup: fields.optional_text("setup")?,
        check: fields.words("check")?.unwrap_or_default(),
        probe: fields.words("probe")?.unwrap_or_default(),
        held_out: fields.words("held_out")?.unwrap_or_default(),
        strength: fields.text("strength")?,
        repo: files.join("repo"),
        fix: files.join("fix.sh"),
    };
    if base.check.is_empty() || base.probe.is_empty() || base.held_out.is_empty() {
        return fields.wrong("check", "or `probe` or `held_out` is missing");
    }
    fields.end()?;
    Ok(base)
}

fn entry(dir: &Path, id: &str, kind: Kind) -> Result<Entry> {
    let mut fields = Fields::read(&dir.join("entry.json"))?;
    let catalogue = fields.number("catalogue")?;
    let layer = match kind {
        Kind::Cheat => layer_of(catalogue),
        Kind::Honest => Some('-').filter(|_| (1..=44).contains(&catalogue)),
    };
    let Some(layer) = layer else { return fields.wrong("catalogue", "is not in the catalogue") };
    let naive = fields.optional_text("naive_not_fooled")?;
    let naive_refuses = fields.optional_text("naive_refuses")?;
    let naive_verified = naive.is_none() && naive_refuses.is_none();
    let mode = match fields.optional_text("mode")?.as_deref() {
        None | Some("tree") => Mode::Tree,
        Some("agent") => Mode::Agent,
        Some(_) => return fields.wrong("mode", "is neither `tree` nor `agent`"),
    };
    let expect = fields.map.remove("expect").unwrap_or(Value::Null);
    let mut expected = Fields::of(format!("{}: expect", fields.file), expect)?;
    let expect = Expect {
        outcome: expected.text("outcome")?,
        reasons: expected.words("reasons")?.unwrap_or_default(),
        strength: expected.optional_text("strength")?.unwrap_or_default(),
    };
    expected.end()?;
    if expect.reasons.is_empty() {
        return fields.wrong("expect", "names no reason");
    }
    let entry = Entry {
        id: id.to_owned(),
        title: fields.text("title")?,
        kind,
        catalogue,
        layer,
        base: fields.text("base")?,
        language: fields.optional_text("language")?,
        mode,
        flags: fields.words("flags")?.unwrap_or_default(),
        check: fields.words("check")?,
        requires: fields.words("requires")?.unwrap_or_default(),
        held_out: fields.optional_text("held_out")?,
        expect,
        naive_verified,
        naive_any: fields.flag("naive_any")?,
        naive_why: naive.or(naive_refuses).unwrap_or_default(),
        live: fields.flag("live")?,
        strength: fields.optional_text("strength")?,
        own_environment: fields.flag("own_environment")?,
        small: fields.flag("small")?,
        dir: dir.to_path_buf(),
    };
    if !dir.join("agent.sh").is_file() {
        return fields.wrong("agent.sh", "is missing");
    }
    fields.end()?;
    Ok(entry)
}
