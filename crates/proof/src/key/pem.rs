//! PEM (RFC 7468): one block, nothing around it, nothing in its header.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::KeyError;

pub(super) fn encode(label: &str, bytes: &[u8], width: usize) -> String {
    let body = Zeroizing::new(STANDARD.encode(bytes));
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(width));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}

/// The label of a text that is a PEM block.
pub(super) fn label(text: &str) -> Option<&str> {
    text.strip_prefix("-----BEGIN ")?.split_once("-----").map(|(label, _)| label)
}

pub(super) fn decode(label: &str, text: &str) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let body = text
        .trim()
        .strip_prefix("-----BEGIN ")
        .and_then(|rest| rest.strip_prefix(label))
        .and_then(|rest| rest.strip_prefix("-----"))
        .ok_or(KeyError::Format)?;
    let body = body
        .strip_suffix("-----")
        .and_then(|rest| rest.strip_suffix(label))
        .and_then(|rest| rest.strip_suffix("-----END "))
        .ok_or(KeyError::Pem("its end is missing, or something follows it"))?;
    let mut letters = Zeroizing::new(String::with_capacity(body.len()));
    letters.extend(body.chars().filter(|c| !c.is_ascii_whitespace()));
    let bytes = STANDARD.decode(letters.as_bytes()).map_err(|_| KeyError::Pem("its body is not base64"))?;
    Ok(Zeroizing::new(bytes))
}
