//! Runner sections of `setup.cfg` and `tox.ini`.
//!
//! pytest, tox and setuptools read these files with parsers that differ in small things (comments, continuations, line
//! ends). So a protected section is compared line by line, without blank lines and comment lines, and everything that
//! one of the parsers takes for the head of a section counts as one. A section that stands twice has more lines.

use super::keys::Keys;

pub(super) fn setup_cfg(bytes: &[u8]) -> Keys {
    read(bytes, |name| {
        matches!(name, "tool:pytest" | "pytest" | "aliases" | "default" | "nosetests" | "unittest")
            || name.starts_with("coverage:")
            || name.starts_with("tox")
    })
}

pub(super) fn tox_ini(bytes: &[u8]) -> Keys {
    read(bytes, |name| {
        matches!(name, "pytest" | "tool:pytest" | "tox" | "default")
            || name.starts_with("testenv")
            || name.starts_with("tox:")
            || name.starts_with("coverage:")
    })
}

/// Python's `str.splitlines` breaks at all of these, and pytest's reader uses it.
fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn read(bytes: &[u8], is_protected: impl Fn(&str) -> bool) -> Keys {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut keys = Keys::default();
    // The protected section that the lines belong to.
    let mut section: Option<String> = None;
    let mut in_entry_points = false;
    let mut in_plugin = false;
    for line in text.split(is_line_end) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        let is_indented = line.starts_with(char::is_whitespace);
        if let Some(rest) = trimmed.strip_prefix('[') {
            let names = [rest.split(']').next(), rest.rsplit_once(']').map(|(name, _)| name)];
            let names: Vec<String> = names.into_iter().flatten().map(|n| n.trim().to_lowercase()).collect();
            let protected = names.iter().find(|name| is_protected(name));
            // An indented head is a continuation line for some parsers and a head for others.
            if !is_indented || protected.is_some() {
                section = protected.cloned();
                in_entry_points = names.iter().any(|name| name == "options.entry_points");
                in_plugin = false;
                if let Some(name) = &section {
                    add(&mut keys, name, "[]");
                }
                continue;
            }
        }
        if let Some(name) = &section {
            let mark = if is_indented { "  " } else { "" };
            add(&mut keys, name, &format!("{mark}{trimmed}"));
        } else if in_entry_points {
            if !is_indented {
                let key = trimmed.split(['=', ':']).next().unwrap_or_default().trim();
                in_plugin = key.eq_ignore_ascii_case("pytest11");
            }
            if in_plugin {
                add(&mut keys, "options.entry_points.pytest11", trimmed);
            }
        }
    }
    keys
}

/// The lines of a section, one behind the other.
fn add(keys: &mut Keys, section: &str, line: &str) {
    let lines = keys.exact.entry(format!("[{section}]")).or_default();
    lines.push_str(line);
    lines.push('\n');
}
