use std::fmt;

use countersign_types::Trust;

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// The preset of the command.
    Preset,
    /// The user's own configuration file.
    UserFile,
    /// The environment variable of this name.
    Env(&'static str),
    /// The only provider that there is a key for: its default model. The key's variable, and whether it stood in the
    /// user's env file.
    Key { variable: &'static str, file: bool },
    /// The flag of this name, with its dashes.
    Flag(&'static str),
    /// The floor of this trust level raised what another source said.
    Floor(Trust),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset => f.write_str("preset"),
            Self::UserFile => f.write_str("configuration file"),
            Self::Env(name) => write!(f, "${name}"),
            Self::Key { variable, file: false } => write!(f, "default for ${variable}"),
            Self::Key { variable, file: true } => {
                write!(f, "default for {variable} of your env file")
            }
            Self::Flag(name) => f.write_str(name),
            Self::Floor(trust) => write!(f, "floor of trust {trust}"),
        }
    }
}

/// A value and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub source: Source,
}

impl<T> Setting<T> {
    #[must_use]
    pub const fn new(value: T, source: Source) -> Self {
        Self { value, source }
    }

    /// The same value after `f`, from the same source.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Setting<U> {
        Setting { value: f(self.value), source: self.source }
    }
}
