use countersign_types::Millis;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::bounded::{self, AtMost, Object};
use crate::error::printable;
use crate::{ErrorClass, MAX_ERROR_MESSAGE, SendError};

/// A limit that ends later than this is a used-up quota, not a rate to wait out.
const FAR_RESET: Millis = Millis::from_secs(10 * 60);

/// Errors that a list may hold; the first one counts.
const MAX_ERRORS: usize = 64;

/// What a failed response says outside its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    pub status: Option<u16>,
    /// From `retry-after-ms` or `retry-after`.
    pub retry_after: Option<Millis>,
    /// When a limit that is used up is full again, from headers that count it.
    pub reset_at: Option<Millis>,
    /// From `x-should-retry`.
    pub should_retry: Option<bool>,
}

impl Hints {
    pub(crate) const fn status(status: u16) -> Self {
        Self { status: Some(status), retry_after: None, reset_at: None, should_retry: None }
    }
}

/// The error for a response whose status is not a success.
pub(crate) fn failure(body: &[u8], hints: &Hints, now: Millis) -> SendError {
    let said = Said::read(body).unwrap_or_else(|| Said {
        message: Some(String::from_utf8_lossy(body).trim().to_owned()).filter(|text| !text.is_empty()),
        ..Said::default()
    });
    let mut error = said.into_error(hints);
    settle(&mut error, now);
    error
}

/// The error that a body carries under a status of success. None: it carries none.
pub(crate) fn body_failure(body: &[u8], hints: &Hints) -> Option<SendError> {
    Said::read(body).map(|said| said.into_error(hints))
}

/// Completes the two forms of one fact, a wait and a moment, once the time is known.
pub(crate) fn settle(error: &mut SendError, now: Millis) {
    if let Some(reset_at) = error.reset_at {
        let wait = reset_at.saturating_sub(now);
        error.retry_after = Some(error.retry_after.map_or(wait, |asked| asked.max(wait)));
    }
    let Some(wait) = error.retry_after else { return };
    error.reset_at = Some(now.saturating_add(wait));
    if error.class == ErrorClass::RateLimit && wait > FAR_RESET {
        error.class = ErrorClass::QuotaExhausted;
        error.retryable = false;
    }
}

/// An error object, in any of the shapes that servers of this wire use.
#[derive(Debug, Default)]
struct Said {
    /// `details.error_code`, `code`, `type` and `status`, in lower case.
    words: Vec<String>,
    /// A numeric `code` that is an HTTP status.
    code: Option<u16>,
    message: Option<String>,
    retry_after: Option<Millis>,
    reset_at: Option<Millis>,
}

impl Said {
    /// None: the body is not JSON, or holds no error.
    fn read(body: &[u8]) -> Option<Self> {
        let body = std::str::from_utf8(body).ok()?.trim();
        // Gemini's compatible endpoint wraps its error in a list.
        let first =
            body.starts_with('[').then(|| serde_json::from_str::<AtMost<&RawValue, MAX_ERRORS>>(body));
        let body = match &first {
            Some(list) => list.as_ref().ok()?.0.first()?.get(),
            None => body,
        };
        let envelope: Object<'_> = serde_json::from_str(body).ok()?;
        if let Some(error) = envelope.get("error") {
            let mut said = Self::text(error.get());
            if let Some(message) = bounded::text(error) {
                said = Self { message: Some(message), ..Self::text(body) };
            }
            return Some(said);
        }
        // vLLM and FastAPI.
        let flat = envelope.text("object").as_deref() == Some("error");
        let detail = envelope.get("choices").is_none() && envelope.get("detail").is_some();
        (flat || detail).then(|| Self::text(body))
    }

    /// From an error object; from anything longer only its beginning as text.
    fn text(error: &str) -> Self {
        match bounded::tree(error) {
            Some(error) => Self::object(&error),
            None => Self { message: Some(printable(error, MAX_ERROR_MESSAGE)), ..Self::default() },
        }
    }

    fn object(error: &Value) -> Self {
        let text = |key: &str| error.get(key).and_then(Value::as_str);
        // The vendors' own codes first: they are finer than the type.
        let detail = error.pointer("/details/error_code").and_then(Value::as_str);
        let words = ["code", "type", "status"].iter().filter_map(|key| text(key));
        let words = detail.into_iter().chain(words).map(str::to_lowercase).collect();
        let code = error.get("code").and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        let message = text("message").or_else(|| text("detail")).map(str::to_owned);
        let seconds = |key: &str| error.get(key).and_then(number).and_then(seconds);
        let in_message = message.as_deref().and_then(wait_in_text);
        let waits = ["resets_in", "resets_in_seconds", "retry_after", "retry_after_seconds"];
        Self {
            words,
            code: code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code)),
            retry_after: waits.iter().filter_map(|key| seconds(key)).chain(in_message).max(),
            reset_at: seconds("resets_at").filter(|at| *at > Millis(0)),
            message: message.or_else(|| (!error.is_null()).then(|| error.to_string())),
        }
    }

    fn into_error(self, hints: &Hints) -> SendError {
        // A status of success says nothing about an error in the body; its own number does.
        let status = hints.status.filter(|status| *status >= 300).or(self.code);
        let (class, billed) = self.classify(status);
        let shown = self.message.as_deref().unwrap_or("the response says no more");
        let lead = match status {
            Some(status) => format!("the model provider answered {status}"),
            None => "the model provider answered with an error".to_owned(),
        };
        let advice = advice(class, status);
        let room = MAX_ERROR_MESSAGE - lead.len() - advice.len() - b": ".len();
        let mut error = SendError::new(class, "");
        error.message = format!("{lead}: {}{advice}", printable(shown, room));
        error.status = hints.status.or(self.code);
        error.retry_after = hints.retry_after.max(self.retry_after);
        error.reset_at = self.reset_at.max(hints.reset_at);
        error.maybe_billed = billed;
        if hints.should_retry == Some(false) {
            error.retryable = false;
        }
        error
    }

    /// The class, and whether the work may have been done. Words that a server is free to choose win over the status,
    /// because a used-up quota and an exceeded rate share 429, and an overflow and a typing error share 400.
    fn classify(&self, status: Option<u16>) -> (ErrorClass, bool) {
        for word in &self.words {
            if let Some(class) = class_of_word(word)
                && (status.is_none_or(|status| agrees(status, class)))
            {
                return (class, false);
            }
        }
        let overflow = self.message.as_deref().is_some_and(tells_of_overflow);
        match status {
            Some(400) if self.message.as_deref().is_some_and(tells_of_money) => {
                (ErrorClass::QuotaExhausted, false)
            }
            Some(400 | 413 | 422) if overflow => (ErrorClass::ContextOverflow, false),
            Some(status) => class_of_status(status),
            None if overflow => (ErrorClass::ContextOverflow, false),
            None => (ErrorClass::BadResponse, false),
        }
    }
}

/// The table for HTTP statuses; the second value says whether the provider may have done the work.
fn class_of_status(status: u16) -> (ErrorClass, bool) {
    match status {
        401 | 403 | 407 => (ErrorClass::Auth, false),
        402 => (ErrorClass::QuotaExhausted, false),
        408 | 499 => (ErrorClass::Transport, true),
        409 | 425 => (ErrorClass::Overloaded, false),
        413 => (ErrorClass::ContextOverflow, false),
        429 => (ErrorClass::RateLimit, false),
        503 | 529 => (ErrorClass::Overloaded, false),
        // A gateway or a worker broke while somebody may have been computing.
        500..=599 => (ErrorClass::Overloaded, true),
        _ => (ErrorClass::BadResponse, false),
    }
}

/// What servers write into `code`, `type` or `status`.
fn class_of_word(word: &str) -> Option<ErrorClass> {
    Some(match word {
        "insufficient_quota"
        | "usage_limit_reached"
        | "usage_not_included"
        | "quota_exceeded"
        | "quota_exhausted"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "billing_error"
        | "insufficient_balance"
        | "insufficient_credits"
        | "spend_limit_reached"
        | "credit_balance_too_low" => ErrorClass::QuotaExhausted,
        "context_length_exceeded"
        | "exceed_context_size_error"
        | "context_window_exceeded"
        | "model_context_window_exceeded"
        | "string_above_max_length"
        | "request_too_large" => ErrorClass::ContextOverflow,
        "content_policy_violation" | "content_filter" | "invalid_prompt" | "cyber_policy" => {
            ErrorClass::Refused
        }
        "invalid_api_key"
        | "authentication_error"
        | "permission_error"
        | "unauthenticated"
        | "permission_denied" => ErrorClass::Auth,
        "rate_limit_exceeded" | "rate_limit_error" | "resource_exhausted" | "too_many_requests" => {
            ErrorClass::RateLimit
        }
        "overloaded_error"
        | "overloaded"
        | "server_error"
        | "api_error"
        | "internal_server_error"
        | "unavailable"
        | "service_unavailable"
        | "engine_overloaded"
        | "slow_down" => ErrorClass::Overloaded,
        "timeout" | "timeout_error" | "deadline_exceeded" => ErrorClass::Transport,
        _ => return None,
    })
}

/// Whether a word may speak for a status. Each side alone is data from outside; what must never happen is that a word
/// turns a permanent status into one that is retried.
fn agrees(status: u16, class: ErrorClass) -> bool {
    match class {
        ErrorClass::RateLimit => status == 429 || status >= 500,
        ErrorClass::Overloaded | ErrorClass::Transport => {
            matches!(status, 408 | 409 | 425 | 429) || status >= 500
        }
        ErrorClass::Auth => matches!(status, 400..=403),
        ErrorClass::ContextOverflow | ErrorClass::Refused => {
            matches!(status, 400 | 403 | 413 | 422) || status >= 500
        }
        ErrorClass::QuotaExhausted => matches!(status, 400 | 402 | 403 | 429) || status >= 500,
        ErrorClass::BadResponse => true,
    }
}

/// vLLM and others report an overflow as a plain 400 whose only mark is its sentence.
fn tells_of_overflow(message: &str) -> bool {
    let message = message.to_lowercase();
    [
        "maximum context length",
        "context length exceeded",
        "exceeds the context",
        "context window",
        "prompt is too long",
        "exceed context limit",
        "available context size",
    ]
    .iter()
    .any(|phrase| message.contains(phrase))
}

/// Anthropic reports an account without money as a plain 400 whose only mark is its sentence.
fn tells_of_money(message: &str) -> bool {
    message.to_lowercase().contains("credit balance is too low")
}

const fn advice(class: ErrorClass, status: Option<u16>) -> &'static str {
    match (class, status) {
        (ErrorClass::Auth, _) => " (check the API key and what it may use)",
        (ErrorClass::QuotaExhausted, _) => " (check the plan and the billing of this key)",
        (ErrorClass::BadResponse, Some(404)) => " (check the model's name and --base-url)",
        (ErrorClass::BadResponse, Some(300..=399)) => {
            " (redirects are not followed: give the final address with --base-url)"
        }
        _ => "",
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().trim_end_matches('s').parse().ok())
}

/// Seconds as a wait. None: not a number, or negative.
pub(crate) fn seconds(seconds: f64) -> Option<Millis> {
    millis(seconds * 1000.0)
}

/// Milliseconds as a wait. None: not a number, or negative.
pub(crate) fn millis(millis: f64) -> Option<Millis> {
    if !millis.is_finite() || millis < 0.0 {
        return None;
    }
    // Saturates, and rounds up: never earlier than asked.
    Some(Millis(millis.ceil() as u64))
}

/// Reads `try again in 6.379s`, `… in 1m2.5s`, `… in 250ms`, `… in 20 seconds` out of a sentence.
fn wait_in_text(message: &str) -> Option<Millis> {
    const LEADS: [&str; 4] = ["try again in ", "retry in ", "retry after ", "reset after "];
    let lower = message.to_ascii_lowercase();
    let (at, lead) = LEADS.iter().find_map(|lead| Some((lower.find(lead)?, lead)))?;
    let mut rest = &lower[at + lead.len()..];
    let mut total = None;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        // A full stop may end the sentence right behind the number's unit, never stand in front of it.
        let Ok(amount) = rest[..digits].parse::<f64>() else { break };
        let tail = rest[digits..].trim_start();
        let word = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let factor = match &tail[..word] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => break,
        };
        total = Some(total.unwrap_or(0.0) + amount * factor);
        rest = tail[word..].trim_start();
    }
    seconds(total?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Millis = Millis(1_800_000_000_000);

    fn at(status: u16, body: Value) -> SendError {
        failure(body.to_string().as_bytes(), &Hints::status(status), NOW)
    }

    #[test]
    fn every_status_has_a_class() {
        use ErrorClass as C;
        for (status, class, retryable, billed) in [
            (301, C::BadResponse, false, false),
            (307, C::BadResponse, false, false),
            (400, C::BadResponse, false, false),
            (401, C::Auth, false, false),
            (402, C::QuotaExhausted, false, false),
            (403, C::Auth, false, false),
            (404, C::BadResponse, false, false),
            (405, C::BadResponse, false, false),
            (408, C::Transport, true, true),
            (409, C::Overloaded, true, false),
            (413, C::ContextOverflow, false, false),
            (415, C::BadResponse, false, false),
            (422, C::BadResponse, false, false),
            (425, C::Overloaded, true, false),
            (429, C::RateLimit, true, false),
            (500, C::Overloaded, true, true),
            (502, C::Overloaded, true, true),
            (503, C::Overloaded, true, false),
            (504, C::Overloaded, true, true),
            (529, C::Overloaded, true, false),
        ] {
            for body in [&b""[..], b"<html>", b"{}", b"{\"error\":{\"message\":\"m\"}}"] {
                let error = failure(body, &Hints::status(status), NOW);
                assert_eq!(
                    (error.class, error.retryable, error.maybe_billed),
                    (class, retryable, billed),
                    "{status} {}",
                    String::from_utf8_lossy(body)
                );
                assert_eq!(error.status, Some(status));
                assert!(error.message.contains(&status.to_string()));
            }
        }
        for status in 100..=999 {
            // 400, 401, 403, 404, 413 and 422 are never retried, whatever word stands in the body.
            for word in ["rate_limit_error", "overloaded_error", "timeout", "server_error"] {
                let error = at(status, json!({"error": {"type": word, "code": word}}));
                if matches!(status, 400 | 401 | 403 | 404 | 413 | 422) {
                    assert!(!error.retryable, "{status} {word}");
                }
            }
        }
    }

    #[test]
    fn words_in_the_body_tell_apart_what_a_status_mixes() {
        use ErrorClass as C;
        for (status, error, class) in [
            (429, json!({"code": "insufficient_quota", "type": "insufficient_quota"}), C::QuotaExhausted),
            (429, json!({"type": "usage_limit_reached", "resets_in": 9568}), C::QuotaExhausted),
            (400, json!({"code": "context_length_exceeded"}), C::ContextOverflow),
            (
                400,
                json!({"type": "exceed_context_size_error", "code": 400, "n_ctx": 4096}),
                C::ContextOverflow,
            ),
            (
                400,
                json!({"message": "This model's maximum context length is 4096 tokens.", "code": 400}),
                C::ContextOverflow,
            ),
            (400, json!({"code": "content_policy_violation"}), C::Refused),
            (400, json!({"code": "content_filter"}), C::Refused),
            (400, json!({"code": "billing_hard_limit_reached"}), C::QuotaExhausted),
            (400, json!({"code": "invalid_api_key"}), C::Auth),
            (500, json!({"type": "rate_limit_error"}), C::RateLimit),
            (404, json!({"code": "model_not_found"}), C::BadResponse),
            (401, json!({"code": "rate_limit_exceeded"}), C::Auth),
        ] {
            assert_eq!(at(status, json!({"error": error})).class, class, "{status} {error}");
        }
    }

    #[test]
    fn the_asked_wait_is_read_from_every_place_and_the_longest_holds() {
        let wait = |error: Value| at(429, json!({"error": error})).retry_after;
        for (message, millis) in [
            ("Rate limit reached. Please try again in 6.379s. Visit https://x", 6_379),
            ("try again in 250ms.", 250),
            ("Please try again in 1m2.5s.", 62_500),
            ("Please retry in 20 seconds", 20_000),
            ("Retry after 3 sec", 3_000),
            ("try again in 1h0m1s", 3_601_000),
        ] {
            assert_eq!(wait(json!({"message": message})), Some(Millis(millis)), "{message}");
        }
        for message in
            ["try again in a while", "try again in ", "try again in .s", "try again in 5 parsecs", "later"]
        {
            assert_eq!(wait(json!({"message": message})), None, "{message}");
        }
        assert_eq!(wait(json!({"message": "try again in 2s", "retry_after": 3.5})), Some(Millis(3_500)));
        assert_eq!(wait(json!({"resets_in_seconds": "4"})), Some(Millis(4_000)));
        assert_eq!(wait(json!({"resets_at": NOW.0 / 1000 + 5})), Some(Millis(5_000)));
        assert_eq!(wait(json!({"retry_after": -1})), None);
        let hints = Hints { retry_after: Some(Millis(6_000)), ..Hints::status(429) };
        let error = failure(br#"{"error":{"message":"try again in 1s"}}"#, &hints, NOW);
        assert_eq!(error.retry_after, Some(Millis(6_000)));
        assert_eq!(error.reset_at, Some(Millis(NOW.0 + 6_000)));
    }

    #[test]
    fn a_far_reset_is_a_used_up_quota_with_its_moment() {
        let error = at(429, json!({"error": {"type": "usage_limit_reached", "resets_in": 9568}}));
        assert_eq!((error.class, error.retryable), (ErrorClass::QuotaExhausted, false));
        assert_eq!(error.reset_at, Some(Millis(NOW.0 + 9_568_000)));
        let error = at(429, json!({"error": {"message": "Please try again in 2h"}}));
        assert_eq!((error.class, error.retryable), (ErrorClass::QuotaExhausted, false));
        let error = at(429, json!({"error": {"message": "Please try again in 90s"}}));
        assert_eq!((error.class, error.retryable), (ErrorClass::RateLimit, true));
        let error = at(429, json!({"error": {"retry_after": 1e300}}));
        assert_eq!(error.class, ErrorClass::QuotaExhausted, "a huge number saturates");
    }

    #[test]
    fn a_server_may_say_that_a_retry_is_no_use_and_text_is_bounded() {
        let hints = Hints { should_retry: Some(false), ..Hints::status(500) };
        assert!(!failure(b"", &hints, NOW).retryable);
        let hints = Hints { should_retry: Some(true), ..Hints::status(401) };
        assert!(!failure(b"", &hints, NOW).retryable, "never a 401");
        for status in [301, 401, 404, 429, 500] {
            let error = failure("\u{1b}[2J\u{202e}".repeat(5000).as_bytes(), &Hints::status(status), NOW);
            assert!(error.message.len() <= MAX_ERROR_MESSAGE);
            assert!(!error.message.contains('\u{1b}') && !error.message.contains('\u{202e}'));
        }
        let error =
            at(400, json!([{"error": {"code": 400, "message": "gemini", "status": "INVALID_ARGUMENT"}}]));
        assert!(error.message.contains("gemini"));
        assert!(at(422, json!({"detail": "fastapi"})).message.contains("fastapi"));
    }
}
