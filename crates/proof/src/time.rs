//! Points in time as statements, policies and trust files write them: RFC 3339 in UTC, whole seconds.

use countersign_types::Millis;

const DAY_SECS: u64 = 86_400;

/// The last second of the year 9999; a later one has no four-digit year.
const LAST_SECOND: u64 = 253_402_300_799;

/// `2026-11-30T16:13:07Z`. Parts of a second are dropped; times beyond the year 9999 are written as its last second.
#[must_use]
pub fn rfc3339(at: Millis) -> String {
    let secs = (at.0 / 1000).min(LAST_SECOND);
    let (year, month, day) = civil(secs / DAY_SECS);
    let rest = secs % DAY_SECS;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Reads exactly what [`rfc3339`] writes; nothing else, no other zone, no parts of a second.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<Millis> {
    let bytes = text.as_bytes();
    if bytes.len() != 20 {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = bytes.get(from..to)?;
        let all = digits.iter().all(u8::is_ascii_digit);
        all.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let secs = days(year, month, day) * DAY_SECS + hour * 3600 + minute * 60 + second;
    let at = Millis(secs * 1000);
    // A 31st of February becomes another day, and the separators are compared here as well.
    (rfc3339(at) == text).then_some(at)
}

/// Year, month and day of a number of days since 1970-01-01, by the proleptic Gregorian calendar. The year is counted
/// from March, so that the leap day is the last day of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// The inverse of [`civil`].
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let march_month = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * march_month + 2) / 5 + day - 1;
    let (era, year_of_era) = (year / 400, year % 400);
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_written_and_read_back() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_000_000_000, "2001-09-09T01:46:40Z"),
            (1_796_055_187, "2026-11-30T16:13:07Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (LAST_SECOND, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(Millis::from_secs(secs)), text);
            assert_eq!(parse_rfc3339(text), Some(Millis::from_secs(secs)), "{text}");
        }
        for day in 0..60_000 {
            let at = Millis::from_secs(day * DAY_SECS + 86_399);
            assert_eq!(parse_rfc3339(&rfc3339(at)), Some(at));
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            "",
            "2026-11-30",
            "2026-11-30T16:13:07",
            "2026-11-30T16:13:07+00:00",
            "2026-11-30 16:13:07Z",
            "2026-11-30t16:13:07z",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-11-31T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T23:60:00Z",
            "2026-11-30T23:59:60Z",
            "1969-12-31T23:59:59Z",
            "+026-11-30T16:13:07Z",
            "2026-11-3\u{e9}16:13:07Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
