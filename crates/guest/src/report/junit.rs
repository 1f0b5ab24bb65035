//! JUnit XML, as most runners can write it.

use super::{Draft, MAX_CASES};
use crate::protocol::{Report, TestStatus};

/// Elements inside elements at most; JUnit needs five.
const MAX_DEPTH: usize = 32;

#[derive(Debug, PartialEq, Eq)]
enum Event<'a> {
    Start { name: &'a str, attributes: Vec<(&'a str, String)>, is_empty: bool },
    End { name: &'a str },
    Finished,
}

/// A pull parser for the part of XML that JUnit reports need.
struct Xml<'a> {
    rest: &'a str,
}

impl<'a> Xml<'a> {
    /// The next tag. Text, comments, CDATA and processing instructions are stepped over; a document type is refused.
    fn next(&mut self) -> Option<Event<'a>> {
        loop {
            let Some(at) = self.rest.find('<') else {
                return Some(Event::Finished);
            };
            self.rest = &self.rest[at..];
            if let Some(body) = self.rest.strip_prefix("<!--") {
                self.rest = &body[body.find("-->")? + 3..];
            } else if let Some(body) = self.rest.strip_prefix("<![CDATA[") {
                self.rest = &body[body.find("]]>")? + 3..];
            } else if let Some(body) = self.rest.strip_prefix("<?") {
                self.rest = &body[body.find("?>")? + 2..];
            } else if self.rest.starts_with("<!") {
                return None;
            } else if let Some(body) = self.rest.strip_prefix("</") {
                let end = body.find('>')?;
                let name = body[..end].trim_end();
                self.rest = &body[end + 1..];
                return is_name(name).then_some(Event::End { name });
            } else {
                return self.start();
            }
        }
    }

    fn start(&mut self) -> Option<Event<'a>> {
        let body = &self.rest[1..];
        let name_end = body.find(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/')?;
        let name = &body[..name_end];
        if !is_name(name) {
            return None;
        }
        let mut attributes = Vec::new();
        let mut rest = &body[name_end..];
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix("/>") {
                self.rest = after;
                return Some(Event::Start { name, attributes, is_empty: true });
            }
            if let Some(after) = rest.strip_prefix('>') {
                self.rest = after;
                return Some(Event::Start { name, attributes, is_empty: false });
            }
            let equals = rest.find('=')?;
            let key = rest[..equals].trim_end();
            if !is_name(key) || attributes.iter().any(|(known, _)| *known == key) || attributes.len() >= 64 {
                return None;
            }
            rest = rest[equals + 1..].trim_start();
            let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let value_end = rest[1..].find(quote)? + 1;
            attributes.push((key, unescape(&rest[1..value_end])?));
            rest = &rest[value_end + 1..];
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c))
}

/// The five entities and character references; anything else is refused.
fn unescape(text: &str) -> Option<String> {
    if text.contains('<') {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        // The longest reference that can be meant is `&#x10FFFF;`.
        let window = rest[at..].char_indices().nth(12).map_or(&rest[at..], |(end, _)| &rest[at..at + end]);
        let end = window.find(';')?;
        let name = &window[1..end];
        out.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                let number = name.strip_prefix('#')?;
                let code = match number.strip_prefix('x') {
                    Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(code)?
            }
        });
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    Some(out)
}

/// None: it is not JUnit, or not to its end.
pub(super) fn read(text: &str) -> Option<Report> {
    let mut xml = Xml { rest: text.strip_prefix('\u{feff}').unwrap_or(text) };
    let mut open: Vec<&str> = Vec::new();
    let mut draft = Draft::default();
    // The case whose element is open.
    let mut current: Option<(String, TestStatus)> = None;
    let mut seen_root = false;
    loop {
        match xml.next()? {
            Event::Finished if open.is_empty() && seen_root => return draft.complete(),
            Event::Finished => return None,
            Event::Start { name, attributes, is_empty } => {
                if open.is_empty() {
                    if seen_root || !matches!(name, "testsuites" | "testsuite") {
                        return None;
                    }
                    seen_root = true;
                }
                if open.len() >= MAX_DEPTH || draft.len() > MAX_CASES {
                    return None;
                }
                if name == "testcase" {
                    if current.is_some() {
                        return None;
                    }
                    let case = (case_id(&attributes)?, TestStatus::Passed);
                    if is_empty { draft.case(case.0, case.1)? } else { current = Some(case) }
                } else if let Some((_, worst)) = &mut current
                    && open.last() == Some(&"testcase")
                {
                    let status = match name {
                        "failure" => TestStatus::Failed,
                        "error" => TestStatus::Error,
                        "skipped" => TestStatus::Skipped,
                        _ => TestStatus::Passed,
                    };
                    *worst = (*worst).max(status);
                }
                if !is_empty {
                    open.push(name);
                }
            }
            Event::End { name } => {
                if open.pop() != Some(name) {
                    return None;
                }
                if name == "testcase"
                    && let Some((id, status)) = current.take()
                {
                    draft.case(id, status)?;
                }
            }
        }
    }
}

/// `file::classname::name`, of which a report may lack the first two.
fn case_id(attributes: &[(&str, String)]) -> Option<String> {
    let get = |key: &str| attributes.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str());
    let name = get("name")?;
    let parts = [get("file"), get("classname"), Some(name)];
    let id = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("::");
    (!id.is_empty()).then_some(id)
}
