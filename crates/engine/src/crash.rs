//! Points at which a driver may be told to die, so that people and suites see what the next one makes of it.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::str::FromStr;
use std::task::Poll;

use countersign_kernel::{EffectKind, Event, Session};

/// A moment in a driver's life. What the journal holds by then is what the next driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrashPoint {
    /// The session is recorded and approved; nobody drives it yet.
    AfterSubmit,
    /// The request is ready; nothing says that it will be made.
    BeforeIntent,
    /// The intent is durable; nothing was done.
    AfterIntent,
    /// The effect is under way.
    DuringEffect,
    /// The tree's new content is durable; the effect's result is not.
    AfterCheckpoint,
    /// The result is known; nothing says so.
    AfterEffect,
    /// The result is durable.
    AfterReceipt,
    /// What a dead driver left is decided; the new one did nothing yet.
    AfterRecovery,
    /// The turn's end is durable; its bundle is not written.
    AfterEnd,
}

impl CrashPoint {
    pub const ALL: &[Self] = &[
        Self::AfterSubmit,
        Self::BeforeIntent,
        Self::AfterIntent,
        Self::DuringEffect,
        Self::AfterCheckpoint,
        Self::AfterEffect,
        Self::AfterReceipt,
        Self::AfterRecovery,
        Self::AfterEnd,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AfterSubmit => "after-submit",
            Self::BeforeIntent => "before-intent",
            Self::AfterIntent => "after-intent",
            Self::DuringEffect => "during-effect",
            Self::AfterCheckpoint => "after-checkpoint",
            Self::AfterEffect => "after-effect",
            Self::AfterReceipt => "after-receipt",
            Self::AfterRecovery => "after-recovery",
            Self::AfterEnd => "after-end",
        }
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|point| point.as_str() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|point| point.as_str()).collect();
            format!("there is no crash point `{text}`. The points are: {}", names.join(", "))
        })
    }
}

/// Whoever may want to die. `reach` comes back where this is not the moment.
pub trait Crashes: Send + Sync + fmt::Debug {
    fn reach(&self, point: CrashPoint, kind: Option<EffectKind>);
}

/// Goes on whatever is reached.
#[derive(Clone, Copy, Debug)]
pub struct NoCrash;

impl Crashes for NoCrash {
    fn reach(&self, _: CrashPoint, _: Option<EffectKind>) {}
}

/// Before these events are in the journal.
pub(crate) fn before(crashes: &dyn Crashes, session: &Session, events: &[Event]) {
    for event in events {
        match event {
            Event::EffectIntended { kind, .. } => crashes.reach(CrashPoint::BeforeIntent, Some(*kind)),
            Event::EffectCompleted { .. } | Event::EffectFailed { .. } => {
                crashes.reach(CrashPoint::AfterEffect, kind_of(session, event));
            }
            _ => {}
        }
    }
}

/// After these events are in the journal. `session` is the state before them.
pub(crate) fn after(crashes: &dyn Crashes, session: &Session, events: &[Event]) {
    for event in events {
        match event {
            Event::EffectIntended { kind, .. } => crashes.reach(CrashPoint::AfterIntent, Some(*kind)),
            Event::EffectCompleted { .. } | Event::EffectFailed { .. } => {
                crashes.reach(CrashPoint::AfterReceipt, kind_of(session, event));
            }
            Event::Recovered { .. } => crashes.reach(CrashPoint::AfterRecovery, None),
            Event::TurnEnded { .. } => crashes.reach(CrashPoint::AfterEnd, None),
            _ => {}
        }
    }
}

fn kind_of(session: &Session, event: &Event) -> Option<EffectKind> {
    let effect = event.effect()?;
    session.turn.as_ref()?.outstanding.get(&effect).map(|outstanding| outstanding.kind)
}

/// Carries an effect out, and dies, where that is wanted, as soon as it waits for somebody else. One that never waits is
/// over by then, and nobody was told.
pub(crate) async fn during<T>(crashes: &dyn Crashes, kind: EffectKind, acting: impl Future<Output = T>) -> T {
    let mut acting = pin!(acting);
    let mut begun = false;
    std::future::poll_fn(|context| {
        let polled = acting.as_mut().poll(context);
        if !begun {
            begun = true;
            crashes.reach(CrashPoint::DuringEffect, Some(kind));
        }
        if let Poll::Ready(done) = polled { Poll::Ready(done) } else { Poll::Pending }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_found_by_its_name() {
        for point in CrashPoint::ALL {
            assert_eq!(point.as_str().parse(), Ok(*point));
        }
        assert!("after-lunch".parse::<CrashPoint>().unwrap_err().contains("after-submit, before-intent"));
    }
}
