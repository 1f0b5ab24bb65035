use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct UnitError(String);

/// US dollars, held as whole micro-dollars so that sums are exact. Written as a JSON number of micro-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money {
    micro_usd: u64,
}

impl Money {
    #[must_use]
    pub const fn from_micro_usd(micro_usd: u64) -> Self {
        Self { micro_usd }
    }
    #[must_use]
    pub const fn micro_usd(self) -> u64 {
        self.micro_usd
    }
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self { micro_usd: self.micro_usd.saturating_add(other.micro_usd) }
    }
    /// As a floating number of dollars, for a JSON result that people read.
    #[must_use]
    pub fn usd(self) -> f64 {
        // Exact up to 9 billion dollars: 2^53 micro-dollars.
        self.micro_usd as f64 / 1e6
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}.{:06}", self.micro_usd / 1_000_000, self.micro_usd % 1_000_000)
    }
}

impl FromStr for Money {
    type Err = UnitError;
    /// Reads `1`, `0.25` or `$0.25`; at most six decimals.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad = || UnitError(format!("not an amount of US dollars: `{text}` (write for example 0.50)"));
        let digits = text.strip_prefix('$').unwrap_or(text);
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !all_digits(whole) || !all_digits(part) || part.len() > 6 {
            return Err(bad());
        }
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let part: u64 = format!("{part:0<6}").parse().map_err(|_| bad())?;
        whole
            .checked_mul(1_000_000)
            .and_then(|w| w.checked_add(part))
            .map(Self::from_micro_usd)
            .ok_or_else(bad)
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteSize(u64);

impl ByteSize {
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }
    #[must_use]
    pub const fn kib(kib: u64) -> Self {
        Self(kib * 1024)
    }
    #[must_use]
    pub const fn mib(mib: u64) -> Self {
        Self(mib * 1024 * 1024)
    }
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1 << 30 => write!(f, "{:.1} GiB", n as f64 / f64::from(1 << 30)),
            n if n >= 1 << 20 => write!(f, "{:.1} MiB", n as f64 / f64::from(1 << 20)),
            n if n >= 1 << 10 => write!(f, "{:.1} KiB", n as f64 / f64::from(1 << 10)),
            n => write!(f, "{n} B"),
        }
    }
}

/// A duration in whole milliseconds; also a point in time as milliseconds since the Unix epoch where a field says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl FromStr for Millis {
    type Err = UnitError;
    /// Reads `250ms`, `30s`, `10m`, `2h`, or a bare number of seconds. Zero is refused.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bad =
            || UnitError(format!("not a duration: `{text}` (write for example 90s, 10m or 2h; not zero)"));
        let (digits, factor) = if let Some(d) = text.strip_suffix("ms") {
            (d, 1)
        } else if let Some(d) = text.strip_suffix('s') {
            (d, 1000)
        } else if let Some(d) = text.strip_suffix('m') {
            (d, 60_000)
        } else if let Some(d) = text.strip_suffix('h') {
            (d, 3_600_000)
        } else {
            (text, 1000)
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let number: u64 = digits.parse().map_err(|_| bad())?;
        match number.checked_mul(factor) {
            None | Some(0) => Err(bad()),
            Some(ms) => Ok(Self(ms)),
        }
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms if ms < 1000 => write!(f, "{ms}ms"),
            ms if ms < 60_000 => write!(f, "{}.{}s", ms / 1000, ms % 1000 / 100),
            ms => write!(f, "{}m{:02}s", ms / 60_000, ms % 60_000 / 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_exact_and_strict() {
        assert_eq!("0.1".parse::<Money>().unwrap().micro_usd(), 100_000);
        assert_eq!("$2".parse::<Money>().unwrap().to_string(), "$2.000000");
        for bad in ["", ".", "-1", "1e3", "0.0000001", "1,5", "$", "99999999999999999999"] {
            assert!(bad.parse::<Money>().is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_name_their_unit_and_are_never_zero() {
        assert_eq!("250ms".parse::<Millis>().unwrap(), Millis(250));
        assert_eq!("90".parse::<Millis>().unwrap(), Millis(90_000));
        assert_eq!("10m".parse::<Millis>().unwrap(), Millis(600_000));
        for bad in ["", "0", "0s", "s", "-1s", "1.5s", "10 m", "99999999999999999999h"] {
            assert!(bad.parse::<Millis>().is_err(), "{bad}");
        }
    }
}
