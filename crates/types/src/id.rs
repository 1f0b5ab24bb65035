use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Ids become file names and command arguments, so only letters that are safe in both are taken: no leading `-`, no
/// `.` or `/`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not an id: expected 1 to 64 of a-z, 0-9, `_` and `-`, beginning with a letter or digit")]
pub struct IdError;

fn check(text: &str) -> Result<(), IdError> {
    let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    let bytes = text.as_bytes();
    let starts_well = bytes.first().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if starts_well && bytes.len() <= 64 && bytes.iter().all(|b| ok(*b)) { Ok(()) } else { Err(IdError) }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                check(&text)?;
                Ok(Self(text))
            }
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    };
}

text_id!(
    /// A session: a series of turns over one workspace.
    SessionId
);
text_id!(
    /// Who owns the data. The one-user command line uses `local`.
    TenantId
);
text_id!(
    /// Who asked. The one-user command line uses `cli`.
    PrincipalId
);
text_id!(
    /// A cell (working or room) of a session.
    CellId
);
text_id!(
    /// One command in a cell.
    JobId
);

/// The n-th turn of a session, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(pub u32);

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// The n-th check of a contract, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckIndex(pub u32);

/// Names one try of one effect: (turn, step, slot, try), written `t1.s3.c0.r0`. A retry of the same work is a new try.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId {
    pub turn: TurnId,
    /// One model call and the calls that it asked for share a step.
    pub step: u32,
    /// Position within the step.
    pub slot: u32,
    /// 0 for the first try.
    pub attempt: u32,
}

impl fmt::Display for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.s{}.c{}.r{}", self.turn, self.step, self.slot, self.attempt)
    }
}

impl fmt::Debug for EffectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for EffectId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let mut parts = text.split('.');
        let mut number = |prefix: char| -> Result<u32, IdError> {
            let digits = parts.next().and_then(|p| p.strip_prefix(prefix)).ok_or(IdError)?;
            digits.parse().map_err(|_| IdError)
        };
        let id = Self {
            turn: TurnId(number('t')?),
            step: number('s')?,
            slot: number('c')?,
            attempt: number('r')?,
        };
        if parts.next().is_some() || id.to_string() != text { Err(IdError) } else { Ok(id) }
    }
}

impl Serialize for EffectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EffectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_be_flags_or_paths_are_refused() {
        for bad in ["", "-x", ".", "..", "a/b", "A", "a b", "a\n", &"a".repeat(65)] {
            assert!(SessionId::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(SessionId::new("s-20261130-ab12").unwrap().to_string(), "s-20261130-ab12");
    }

    #[test]
    fn effect_ids_have_one_spelling() {
        let id = EffectId { turn: TurnId(1), step: 3, slot: 0, attempt: 2 };
        assert_eq!(id.to_string().parse::<EffectId>().unwrap(), id);
        for bad in ["t1.s3.c0", "t1.s03.c0.r0", "t1.s3.c0.r0.x", "1.3.0.0", "t1.s3.c0.r+1"] {
            assert!(bad.parse::<EffectId>().is_err(), "{bad}");
        }
    }
}
