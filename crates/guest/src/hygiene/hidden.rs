//! Characters that make a reader see something else than a compiler: bidirectional controls (CVE-2021-42574) and
//! characters that take no room.

use countersign_tree::TreePath;

use crate::protocol::HygieneKind;

/// Endings of files that people read as prose, in any script.
const PROSE: &[&str] =
    &[".md", ".markdown", ".rst", ".txt", ".adoc", ".html", ".htm", ".po", ".arb", ".xlf", ".ftl", ".srt"];

/// Kinds and details of one line, each kind once. `first`: the line begins the file.
pub(super) fn of(path: &TreePath, line: &[u8], first: bool) -> Vec<(HygieneKind, String)> {
    if line.is_ascii() {
        return Vec::new();
    }
    let name = String::from_utf8_lossy(path.as_bytes()).to_lowercase();
    let prose = PROSE.iter().any(|ending| name.ends_with(ending));
    let text = String::from_utf8_lossy(line);
    let chars: Vec<char> = text.chars().collect();
    let (mut bidi, mut invisible) = (None, None);
    for (at, c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| chars.get(at)).copied();
        let after = chars.get(at + 1).copied();
        match c {
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => bidi = bidi.or(Some(*c)),
            // Marks, which prose in two scripts needs.
            '\u{200e}' | '\u{200f}' | '\u{61c}' if !prose => bidi = bidi.or(Some(*c)),
            c if !prose && hides(*c, before, after, first && at == 0) => invisible = invisible.or(Some(*c)),
            _ => {}
        }
    }
    let told =
        |kind, c: Option<char>, what: &str| c.map(|c| (kind, format!("{what} U+{:04X}", u32::from(c))));
    let bidi = told(HygieneKind::Bidi, bidi, "a character that changes the direction of reading:");
    let invisible = told(HygieneKind::Invisible, invisible, "a character that cannot be seen:");
    bidi.into_iter().chain(invisible).collect()
}

fn hides(c: char, before: Option<char>, after: Option<char>, begins: bool) -> bool {
    let ascii = |c: Option<char>| c.is_none_or(|c| c.is_ascii());
    match c {
        // A byte order mark.
        '\u{feff}' => !begins,
        // Joiners belong to scripts and to emoji, never between two ASCII characters.
        '\u{200c}' | '\u{200d}' => ascii(before) && ascii(after),
        // A selector belongs to the character in front of it; a keycap is a digit, a selector and a frame.
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {
            let selects = |c: char| matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}');
            before.is_some_and(selects) || (ascii(before) && after != Some('\u{20e3}'))
        }
        // Tags spell the flags of regions behind a black flag.
        '\u{e0000}'..='\u{e007f}' => {
            !before.is_some_and(|b| matches!(b, '\u{1f3f4}' | '\u{e0020}'..='\u{e007e}'))
        }
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{2060}'..='\u{2064}'
        | '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}' => true,
        _ => false,
    }
}
