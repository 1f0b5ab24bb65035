//! Faults that the simulation plants, to see that it finds them. Compiled in only with the feature `planted`, which is for
//! tests; without it the functions below change nothing.

use crate::{Class, StopHow};

/// A fault of the kernel.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What is lost is done again, whatever it is.
    DoubleDispatch,
    /// A cancel is recorded and nobody looks at it.
    LostCancel,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault in this thread, or takes it away.
#[cfg(feature = "planted")]
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

#[cfg(feature = "planted")]
pub(crate) fn class(class: Class) -> Class {
    let planted = PLANTED.get() == Some(Fault::DoubleDispatch) && class == Class::Ask;
    if planted { Class::Rewind } else { class }
}

#[cfg(feature = "planted")]
pub(crate) fn cancel(asked: Option<StopHow>) -> Option<StopHow> {
    asked.filter(|_| PLANTED.get() != Some(Fault::LostCancel))
}

#[cfg(not(feature = "planted"))]
pub(crate) const fn class(class: Class) -> Class {
    class
}

#[cfg(not(feature = "planted"))]
pub(crate) const fn cancel(asked: Option<StopHow>) -> Option<StopHow> {
    asked
}
