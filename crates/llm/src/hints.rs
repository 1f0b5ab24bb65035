//! What a failed response says outside its body.

use countersign_types::Millis;
use hyper::header::HeaderMap;

use crate::failure::{Hints, millis, seconds};

/// Limits that Anthropic counts in headers, each with `-remaining` and `-reset`.
const COUNTED: &[&str] = &["requests", "tokens", "input-tokens", "output-tokens"];

/// Reads the hints of a response that came at `now`.
pub(crate) fn hints(status: u16, headers: &HeaderMap, now: Millis) -> Hints {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |name: &str| text(name).and_then(|value| value.parse::<f64>().ok());
    let exact = number("retry-after-ms").and_then(millis);
    let date =
        |name: &str| text(name).and_then(|value| httpdate::parse_http_date(value).ok()).and_then(epoch);
    let plain = || {
        number("retry-after").and_then(seconds).or_else(|| {
            // A date is by the server's clock, so it is measured against the server's own date where it gives one.
            Some(date("retry-after")?.saturating_sub(date("date").unwrap_or(now)))
        })
    };
    let should_retry = match text("x-should-retry") {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    let retry_after = exact.or_else(plain);
    let used_up = COUNTED.iter().filter_map(|what| {
        let left = text(&format!("anthropic-ratelimit-{what}-remaining"))?.parse::<u64>().ok()?;
        let reset = rfc3339(text(&format!("anthropic-ratelimit-{what}-reset"))?)?;
        (left == 0).then_some(reset)
    });
    // The counters are of a moment; where the server says how long to wait, it knows better.
    let reset_at = if status == 429 && retry_after.is_none() { used_up.max() } else { None };
    Hints { status: Some(status), retry_after, reset_at, should_retry }
}

fn epoch(time: std::time::SystemTime) -> Option<Millis> {
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok().map(Millis)
}

/// A moment as RFC 3339 writes it, cut to whole seconds and never before 1970. None: it is not one.
fn rfc3339(text: &str) -> Option<Millis> {
    let digits = |from: usize, to: usize| -> Option<i64> {
        let part = text.get(from..to)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten()
    };
    let at = |index: usize| text.as_bytes().get(index).copied();
    let marks = [(4, b"-"), (7, b"-"), (13, b":"), (16, b":")];
    if !marks.iter().all(|(index, mark)| at(*index) == Some(mark[0]))
        || !matches!(at(10), Some(b'T' | b't' | b' '))
    {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut zone = text.get(19..)?;
    if let Some(fraction) = zone.strip_prefix('.') {
        zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    let offset = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let hours = zone.get(1..3)?.parse::<i64>().ok()?;
            let minutes = zone.get(4..6)?.parse::<i64>().ok()?;
            let offset = hours * 3600 + minutes * 60;
            if *sign == b'+' { offset } else { -offset }
        }
        _ => return None,
    };
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    u64::try_from(seconds).ok()?.checked_mul(1000).map(Millis)
}

/// Days since 1970-01-01 of a date of the Gregorian calendar, by Howard Hinnant's algorithm.
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = (month + 9) % 12;
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    /// 1994-11-06 08:49:37 UTC
    const NOW: Millis = Millis(784_111_777_000);

    #[test]
    fn retry_after_is_read_in_every_form() {
        let wait = |pairs: &[(&'static str, &str)]| hints(429, &headers(pairs), NOW).retry_after;
        assert_eq!(wait(&[("retry-after", "6")]), Some(Millis(6_000)));
        assert_eq!(wait(&[("retry-after", " 1.5 ")]), Some(Millis(1_500)));
        assert_eq!(wait(&[("retry-after-ms", "250"), ("retry-after", "9")]), Some(Millis(250)));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT")]), Some(Millis(10_000)));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(Millis(0)));
        let skewed =
            [("retry-after", "Mon, 07 Nov 1994 00:00:05 GMT"), ("date", "Mon, 07 Nov 1994 00:00:00 GMT")];
        assert_eq!(wait(&skewed), Some(Millis(5_000)));
        for bad in ["", "soon", "-5", "NaN", "inf", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            assert_eq!(wait(&[("retry-after", bad)]), None, "{bad}");
        }
        assert_eq!(wait(&[("retry-after", "1e300")]), Some(Millis(u64::MAX)));
        assert_eq!(hints(500, &headers(&[("x-should-retry", "false")]), NOW).should_retry, Some(false));
    }

    #[test]
    fn the_reset_of_a_limit_that_is_used_up_counts_where_no_wait_is_named() {
        let counted = |left: &'static str| {
            [
                ("anthropic-ratelimit-requests-remaining", "7"),
                ("anthropic-ratelimit-requests-reset", "1994-11-06T09:49:37Z"),
                ("anthropic-ratelimit-input-tokens-remaining", left),
                ("anthropic-ratelimit-input-tokens-reset", "1994-11-06T08:49:47Z"),
            ]
        };
        let reset =
            |status: u16, pairs: &[(&'static str, &str)]| hints(status, &headers(pairs), NOW).reset_at;
        assert_eq!(reset(429, &counted("0")), Some(Millis(NOW.0 + 10_000)));
        assert_eq!(reset(429, &counted("5")), None, "nothing is used up");
        assert_eq!(reset(529, &counted("0")), None, "it is no rate limit");
        let with_wait = [&counted("0")[..], &[("retry-after", "3")]].concat();
        assert_eq!(reset(429, &with_wait), None);
    }

    #[test]
    fn moments_are_read_as_rfc_3339_writes_them() {
        for (text, moment) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-11-30T21:02:53Z", Some(1_796_072_573_000)),
            ("2026-11-30T21:02:53.987654Z", Some(1_796_072_573_000)),
            ("2026-11-30t23:02:53+02:00", Some(1_796_072_573_000)),
            ("2026-11-30T20:32:53-00:30", Some(1_796_072_573_000)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800_000)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-11-30T24:00:00Z", None),
            ("2026-11-30T21:02:53", None),
            ("2026-11-30", None),
            ("2026-11-30T21:02:53+0200", None),
            ("+026-11-30T21:02:53Z", None),
            ("é026-11-30T21:02:53Z", None),
            ("", None),
        ] {
            assert_eq!(rfc3339(text).map(|at| at.0), moment, "{text}");
        }
    }
}
