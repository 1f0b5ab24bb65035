use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unicode_normalization::UnicodeNormalization as _;

/// A path inside a tree: relative, components separated by `/`, any bytes but NUL. Never empty, absolute, `.` or `..`,
/// and no component is `.git` in a spelling that a file system could fold to it (see [`TreePath::is_dot_git`]).
///
/// As text, bytes that are not printable (or not UTF-8) are written `\xNN` and a backslash is `\\`, so that every
/// path has exactly one spelling and a control character never reaches a screen.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Vec<u8>);

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PathError {
    #[error("the path is empty")]
    Empty,
    #[error("the path is absolute")]
    Absolute,
    #[error("the path has an empty, `.` or `..` component")]
    Dots,
    #[error("the path has a `.git` component")]
    DotGit,
    #[error("the path holds a NUL byte")]
    Nul,
    #[error("the path is longer than 4096 bytes")]
    TooLong,
    #[error("the escape `\\{0}` is not known")]
    Escape(String),
}

impl TreePath {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, PathError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(PathError::Empty);
        }
        if bytes.len() > 4096 {
            return Err(PathError::TooLong);
        }
        if bytes[0] == b'/' {
            return Err(PathError::Absolute);
        }
        if bytes.contains(&0) {
            return Err(PathError::Nul);
        }
        for part in bytes.split(|b| *b == b'/') {
            if part.is_empty() || part == b"." || part == b".." {
                return Err(PathError::Dots);
            }
            if Self::is_dot_git(part) {
                return Err(PathError::DotGit);
            }
        }
        Ok(Self(bytes))
    }

    /// Whether a file system could hold this component as `.git`, by the rules with which git itself refuses names
    /// everywhere (`core.protectNTFS` and `core.protectHFS`): any case; NTFS's short name `git~1`; dots and spaces behind
    /// it; a stream (`.git::$INDEX_ALLOCATION`); code points that HFS+ ignores.
    #[must_use]
    pub fn is_dot_git(component: &[u8]) -> bool {
        ntfs_folds_to_dot_git(component) || hfs_folds_to_dot_git(component)
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|b| *b == b'/')
    }

    #[must_use]
    pub fn file_name(&self) -> &[u8] {
        self.0.rsplit(|b| *b == b'/').next().unwrap_or(&self.0)
    }

    /// The name under which a file system could hold this path that folds names: case, forms of one character (NFC, NFD,
    /// full width), characters that are not shown, a stream's name, and dots and spaces at the end of a component. Two
    /// paths with the same folded name may be one file there. Bytes that are not UTF-8 stay.
    #[must_use]
    pub fn folded(&self) -> Vec<u8> {
        // Nearly every path: nothing in it can be folded.
        let is_plain = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"/-_+@,".contains(b);
        let plain =
            |part: &[u8]| part.iter().all(|b| is_plain(b) || *b == b'.') && part.last() != Some(&b'.');
        if self.components().all(plain) {
            return self.0.clone();
        }
        let parts: Vec<Vec<u8>> = self.components().map(folded_component).collect();
        parts.join(&b'/')
    }

    /// Reads the escaped spelling that [`fmt::Display`] writes.
    pub fn from_escaped(text: &str) -> Result<Self, PathError> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((first, tail)) = rest.split_first() {
            if *first != b'\\' {
                bytes.push(*first);
                rest = tail;
                continue;
            }
            let escape =
                || PathError::Escape(String::from_utf8_lossy(&tail[..tail.len().min(3)]).into_owned());
            match tail {
                [b'\\', after @ ..] => {
                    bytes.push(b'\\');
                    rest = after;
                }
                [b'x', high, low, after @ ..] => {
                    let digits = [*high, *low];
                    let hex = std::str::from_utf8(&digits).map_err(|_| escape())?;
                    bytes.push(u8::from_str_radix(hex, 16).map_err(|_| escape())?);
                    rest = after;
                }
                _ => return Err(escape()),
            }
        }
        Self::new(bytes)
    }
}

/// Text without what a file system may fold: case, forms of one character, and characters that are not shown.
#[must_use]
pub fn fold(text: &str) -> String {
    let shown = text.chars().filter(|c| !hfs_ignores(*c) && !matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}'));
    let upper: String = shown.nfkd().flat_map(char::to_uppercase).collect();
    upper.chars().flat_map(char::to_lowercase).nfkd().collect()
}

fn folded_component(part: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(part.len());
    for chunk in part.utf8_chunks() {
        out.extend_from_slice(fold(chunk.valid()).as_bytes());
        out.extend_from_slice(chunk.invalid());
    }
    // `conftest.py::$DATA` is `conftest.py`.
    if let Some(at) = out.iter().position(|b| *b == b':').filter(|at| *at > 0) {
        out.truncate(at);
    }
    let kept = out.iter().rposition(|b| !matches!(b, b'.' | b' ')).map_or(out.len(), |at| at + 1);
    out.truncate(kept);
    out
}

/// As git's `is_ntfs_dotgit`.
fn ntfs_folds_to_dot_git(component: &[u8]) -> bool {
    [&b".git"[..], b"git~1"].iter().any(|name| {
        let Some((start, rest)) = component.split_at_checked(name.len()) else { return false };
        let end = rest.iter().find(|b| !matches!(b, b'.' | b' '));
        start.eq_ignore_ascii_case(name) && matches!(end, None | Some(b':' | b'\\'))
    })
}

/// As git's `is_hfs_dotgit`: what is not UTF-8 ends the name.
fn hfs_folds_to_dot_git(component: &[u8]) -> bool {
    let text = component.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let mut seen = text.chars().filter(|c| !hfs_ignores(*c)).map(|c| c.to_ascii_lowercase());
    seen.by_ref().take(4).eq(".git".chars()) && seen.next().is_none()
}

/// As git's `next_hfs_char`.
fn hfs_ignores(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// Characters that would move a cursor, hide text or change reading direction are escaped although they are UTF-8.
fn shown_as_is(c: char) -> bool {
    let hidden =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !(c.is_control() || hidden || c == '\\')
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::fmt::Write as _;
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if shown_as_is(c) {
                    f.write_char(c)?;
                } else if c == '\\' {
                    f.write_str("\\\\")?;
                } else {
                    let mut buffer = [0; 4];
                    for byte in c.encode_utf8(&mut buffer).bytes() {
                        write!(f, "\\x{byte:02x}")?;
                    }
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Serialize for TreePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::from_escaped(&text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_one_spelling_that_reads_back() {
        for bytes in
            [&b"a/b c"[..], b"new\nline", b"back\\slash", b"\xff\xfe", "é/\u{202e}x".as_bytes(), b"\x1b[31m"]
        {
            let path = TreePath::new(bytes).unwrap();
            let text = path.to_string();
            assert!(text.chars().all(shown_or_slash), "{text}");
            assert_eq!(TreePath::from_escaped(&text).unwrap(), path);
        }
        fn shown_or_slash(c: char) -> bool {
            shown_as_is(c) || c == '\\'
        }
    }

    #[test]
    fn paths_that_could_leave_the_tree_are_refused() {
        for bad in ["", "/a", "a//b", "./a", "a/..", "a/.git/config", ".GIT", "a\0b", "a/"] {
            assert!(TreePath::new(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_that_a_file_system_may_hold_as_one_have_one_folded_name() {
        for (path, folded) in [
            ("src/a_b-1.rs", "src/a_b-1.rs"),
            ("README.md", "readme.md"),
            ("Tests/Conftest.PY", "tests/conftest.py"),
            ("conftest.py.", "conftest.py"),
            ("tests . /a", "tests/a"),
            ("conftest.py::$DATA", "conftest.py"),
            ("con\u{200b}ft\u{feff}est.py", "conftest.py"),
            ("\u{ff43}onftest.py", "conftest.py"),
            ("caf\u{e9}", "cafe\u{301}"),
            ("Cafe\u{301}", "cafe\u{301}"),
            ("STRA\u{df}E", "strasse"),
            ("\u{212a}elvin", "kelvin"),
            (".../x", ".../x"),
            ("..a", "..a"),
        ] {
            let text = |path: TreePath| String::from_utf8(path.folded()).unwrap();
            assert_eq!(text(TreePath::new(path.as_bytes()).unwrap()), folded, "{path:?}");
        }
        assert_eq!(TreePath::new(&b"A\xff"[..]).unwrap().folded(), b"a\xff");
    }

    #[test]
    fn every_spelling_of_dot_git_that_git_refuses_is_refused() {
        for bad in [
            ".git",
            ".GIT",
            ".gIt.",
            ".git ",
            ".git. . ",
            "git~1",
            "GIT~1",
            "git~1.",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            "git~1:x",
            ".git\\hooks",
            ".g\u{200c}it",
            "\u{feff}.GI\u{206f}T\u{202e}",
        ] {
            assert_eq!(TreePath::new(bad.as_bytes()), Err(PathError::DotGit), "{bad:?}");
            assert_eq!(TreePath::new(format!("a/{bad}/config")), Err(PathError::DotGit), "{bad:?}");
        }
        assert_eq!(TreePath::new(&b".git\xff"[..]), Err(PathError::DotGit));
        for good in [
            ".gitignore",
            ".gita",
            "git",
            "git~2",
            "git~10",
            ".git.x",
            ".git x",
            "a.git",
            ".gi",
            ".g\u{200b}it",
            ". git",
        ] {
            assert!(TreePath::new(good.as_bytes()).is_ok(), "{good:?}");
        }
    }
}
