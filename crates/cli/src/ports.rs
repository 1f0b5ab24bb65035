//! The engine's ports, filled with this machine: clock, randomness, files.

use std::io::Write as _;
use std::path::PathBuf;

use countersign_engine::{Artifacts, Clock, Ids};
use countersign_llm::{SystemTimer, Timer as _};
use countersign_types::{Millis, SessionId};
use futures::future::BoxFuture;

/// The machine's clock and tokio's timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineClock;

impl Clock for MachineClock {
    fn now(&self) -> Millis {
        SystemTimer.now()
    }

    fn sleep(&self, wait: Millis) -> BoxFuture<'static, ()> {
        SystemTimer.sleep(wait)
    }
}

/// The kernel's randomness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineIds;

impl Ids for MachineIds {
    #[expect(
        clippy::expect_used,
        reason = "getrandom(2) cannot fail on a kernel that this program runs on; without it no salt is safe"
    )]
    fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
        bytes
    }
}

/// `s-YYYYMMDD-HHMMSS-` and six hex digits; the time is UTC.
#[expect(
    clippy::expect_used,
    reason = "the format has only letters that ids allow and is shorter than the limit"
)]
pub(crate) fn session_id(now: Millis, random: [u8; 16]) -> SessionId {
    let (year, month, day) = civil_date(now.0 / 86_400_000);
    let second = now.0 / 1000 % 86_400;
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    let [a, b, c, ..] = random;
    SessionId::new(format!("s-{year:04}{month:02}{day:02}-{h:02}{m:02}{s:02}-{a:02x}{b:02x}{c:02x}"))
        .expect("digits, letters and dashes")
}

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar (Howard Hinnant's
/// `civil_from_days`, for days after the epoch).
pub(crate) fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

/// A point in time as people read it: `2026-11-30 12:34:56`, UTC.
pub(crate) fn time(at: Millis) -> String {
    let (year, month, day) = civil_date(at.0 / 86_400_000);
    let second = at.0 / 1000 % 86_400;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Files in a session's directory.
#[derive(Clone, Debug)]
pub(crate) struct SessionFiles {
    pub(crate) dir: PathBuf,
}

impl Artifacts for SessionFiles {
    fn write(&self, name: &'static str, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), String>> {
        let dir = self.dir.clone();
        Box::pin(async move {
            let write = move || -> std::io::Result<()> {
                let mut file = tempfile::NamedTempFile::new_in(&dir)?;
                file.write_all(&bytes)?;
                file.as_file().sync_all()?;
                file.persist(dir.join(name)).map_err(|error| error.error)?;
                std::fs::File::open(&dir)?.sync_all()
            };
            match tokio::task::spawn_blocking(write).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => {
                    Err(format!("{name} could not be written into {}: {error}", self.dir.display()))
                }
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // Days by `date -u -d @$((days * 86400)) +%F`.
        for (days, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_787, (2026, 11, 30)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil_date(days), date, "{days}");
        }
        let id = session_id(Millis(1_796_000_000_123), [0xab; 16]);
        assert_eq!(id.as_str(), "s-20261130-005320-ababab");
        assert_eq!(time(Millis(1_796_000_000_123)), "2026-11-30 00:53:20");
    }
}
