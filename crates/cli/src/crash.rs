//! `--crash-at`: dies at a chosen moment, as if the process were killed there. For suites and demonstrations.

use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use countersign_engine::{CrashPoint, Crashes, NoCrash};
use countersign_kernel::EffectKind;

use crate::exit;

/// `POINT[:KIND][:N]`: at the Nth time (1 without it) that POINT is reached by an effect of KIND (any without it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CrashAt {
    pub(crate) point: CrashPoint,
    pub(crate) kind: Option<String>,
    pub(crate) nth: u32,
}

impl std::fmt::Display for CrashAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.point.fmt(f)?;
        if let Some(kind) = &self.kind {
            write!(f, ":{kind}")?;
        }
        if self.nth > 1 { write!(f, ":{}", self.nth) } else { Ok(()) }
    }
}

impl FromStr for CrashAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let point = parts.next().unwrap_or_default().parse()?;
        let mut at = Self { point, kind: None, nth: 1 };
        let mut counted = false;
        for part in parts {
            match part.parse::<u32>() {
                Ok(nth) if nth > 0 && !counted => (at.nth, counted) = (nth, true),
                Ok(_) => return Err(format!("`{part}` is no count: POINT[:KIND][:N] with N from 1")),
                Err(_) if at.kind.is_none() && !counted && !part.is_empty() => {
                    at.kind = Some(part.to_owned())
                }
                Err(_) => return Err("the form is POINT[:KIND][:N]".to_owned()),
            }
        }
        Ok(at)
    }
}

#[derive(Debug)]
struct Crash {
    at: CrashAt,
    reached: AtomicU32,
}

impl Crashes for Crash {
    fn reach(&self, point: CrashPoint, kind: Option<EffectKind>) {
        let meant = match (&self.at.kind, kind) {
            (None, _) => true,
            (Some(wanted), Some(kind)) => kind.name() == wanted,
            (Some(_), None) => false,
        };
        if point == self.at.point && meant && self.reached.fetch_add(1, Ordering::Relaxed) + 1 == self.at.nth
        {
            // As a kill would: nothing is dropped, nothing is flushed, no cell is told.
            exit::at_once(exit::CRASHED);
        }
    }
}

/// Set once, by the command line: it is the process that dies.
static WANTED: OnceLock<CrashAt> = OnceLock::new();

pub(crate) fn want(at: Option<&CrashAt>) {
    if let Some(at) = at {
        let _ = WANTED.set(at.clone());
    }
}

pub(crate) fn wanted() -> Arc<dyn Crashes> {
    match WANTED.get() {
        Some(at) => Arc::new(Crash { at: at.clone(), reached: AtomicU32::new(0) }),
        None => Arc::new(NoCrash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_point_a_kind_and_a_count() {
        let at = |text: &str| text.parse::<CrashAt>();
        let expected = CrashAt { point: CrashPoint::AfterIntent, kind: Some("run".to_owned()), nth: 2 };
        assert_eq!(at("after-intent:run:2"), Ok(expected));
        assert_eq!(at("after-end").map(|at| (at.kind, at.nth)), Ok((None, 1)));
        assert_eq!(at("after-intent:3").map(|at| (at.kind, at.nth)), Ok((None, 3)));
        for wrong in
            ["", "lunch", "after-end:", "after-end:0", "after-end:1:2", "after-end:1:run", "after-end:a:b"]
        {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
