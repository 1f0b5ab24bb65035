use countersign_types::Millis;
use serde::{Deserialize, Serialize};

use crate::{ErrorClass, SendError};

/// When to send a failed call again. Pure data: the jitter comes from outside and the caller makes the wait durable as
/// an absolute time before it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Sends of one step after the first.
    pub max_retries: u32,
    /// The first wait; it doubles with every retry.
    pub first_wait: Millis,
    /// The longest wait that the policy chooses by itself.
    pub longest_wait: Millis,
    /// The longest wait that a provider may ask for. Beyond it the turn ends and names the reset time.
    pub longest_asked: Millis,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 3,
            first_wait: Millis(500),
            longest_wait: Millis(8_000),
            longest_asked: Millis::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// The wait before the next send, or None to give up. `failures` is how many sends of this step have failed, from 1.
    ///
    /// The wait is 0.5 to 1 times the doubled step, chosen by `jitter` (any number). What the provider asked for only
    /// ever extends it.
    #[must_use]
    pub fn next(
        &self,
        class: ErrorClass,
        failures: u32,
        retry_after: Option<Millis>,
        jitter: u64,
    ) -> Option<Millis> {
        if !class.is_retryable() || failures > self.max_retries {
            return None;
        }
        let doublings = failures.saturating_sub(1).min(32);
        let step = self.first_wait.0.saturating_mul(1 << doublings).min(self.longest_wait.0);
        // The first wait is the floor: jitter only ever shortens the later ones.
        let low = (step / 2).max(self.first_wait.0.min(step));
        let own = low + jitter % (step - low + 1);
        match retry_after {
            Some(asked) if asked > self.longest_asked => None,
            Some(asked) => {
                // Everybody who was told the same moment must not come back at the same moment.
                Some(Millis(own.max(asked.0.saturating_add(jitter % (self.first_wait.0 / 2 + 1)))))
            }
            None => Some(Millis(own)),
        }
    }

    /// The same for an error, which also knows when the provider said that a retry is no use.
    #[must_use]
    pub fn next_after(&self, error: &SendError, failures: u32, jitter: u64) -> Option<Millis> {
        if !error.retryable {
            return None;
        }
        self.next(error.class, failures, error.retry_after, jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_retries_between_half_a_second_and_eight() {
        let policy = RetryPolicy::default();
        for class in ErrorClass::ALL {
            for failures in 1..=5 {
                for jitter in [0, 1, 999, 12_345_678, u64::MAX] {
                    let wait = policy.next(*class, failures, None, jitter);
                    let may = class.is_retryable() && failures <= 3;
                    assert_eq!(wait.is_some(), may, "{class:?} {failures}");
                    if let Some(wait) = wait {
                        assert!((500..=8000).contains(&wait.0), "{wait:?}");
                    }
                }
            }
        }
        let patient = RetryPolicy { max_retries: u32::MAX, ..policy };
        assert!(patient.next(ErrorClass::Transport, u32::MAX, None, u64::MAX).unwrap() <= Millis(8000));
    }

    #[test]
    fn the_provider_may_extend_a_wait_and_a_far_reset_ends_it() {
        let policy = RetryPolicy::default();
        let next = |asked| policy.next(ErrorClass::RateLimit, 1, Some(Millis(asked)), 7);
        assert_eq!(next(6_379), Some(Millis(6_386)));
        assert!(next(0).unwrap() >= Millis(500));
        assert!(next(60_000).is_some());
        assert_eq!(next(60_001), None);
        assert_eq!(next(u64::MAX), None);
        let error = SendError { retryable: false, ..SendError::new(ErrorClass::Overloaded, "x") };
        assert_eq!(policy.next_after(&error, 1, 0), None);
    }
}
