//! The contract's glob language, and the component matcher that ignore files share with it.

use std::fmt;

/// One token of a pattern for a single path component.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `?`
    Any,
    /// `*`
    Star,
    /// `[..]`: inclusive byte ranges.
    Class {
        negated: bool,
        ranges: Vec<(u8, u8)>,
    },
}

/// A pattern for one path component: nothing in it can match a `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Component(Vec<Token>);

impl Component {
    /// Compiles one component. `Err` says what is wrong.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut tokens = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some((first, tail)) = rest.split_first() {
            rest = tail;
            match first {
                b'?' => tokens.push(Token::Any),
                b'*' => {
                    if tokens.last() != Some(&Token::Star) {
                        tokens.push(Token::Star);
                    }
                }
                b'\\' => {
                    let (byte, after) = rest.split_first().ok_or("it ends in a lone backslash")?;
                    tokens.push(Token::Byte(*byte));
                    rest = after;
                }
                b'[' => {
                    let (class, after) = parse_class(rest)?;
                    tokens.push(class);
                    rest = after;
                }
                byte => tokens.push(Token::Byte(*byte)),
            }
        }
        Ok(Self(tokens))
    }

    /// Matches a whole component in at most `pattern * text` steps: only the last star is ever reconsidered.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let (mut p, mut t) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        loop {
            match self.0.get(p) {
                Some(Token::Star) => {
                    star = Some((p, t));
                    p += 1;
                    continue;
                }
                Some(token) if t < text.len() && token.accepts(text[t]) => {
                    p += 1;
                    t += 1;
                    continue;
                }
                None if t == text.len() => return true,
                _ => {}
            }
            match star {
                Some((at, from)) if from < text.len() => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                _ => return false,
            }
        }
    }
}

impl Token {
    fn accepts(&self, byte: u8) -> bool {
        match self {
            Self::Byte(b) => *b == byte,
            Self::Any => byte != b'/',
            Self::Star => false,
            Self::Class { negated, ranges } => {
                byte != b'/' && ranges.iter().any(|(low, high)| (*low..=*high).contains(&byte)) != *negated
            }
        }
    }
}

/// The part after `[`: the class and what follows its `]`.
fn parse_class(bytes: &[u8]) -> Result<(Token, &[u8]), &'static str> {
    const OPEN: &str = "a `[` has no closing `]`";
    let negated = matches!(bytes.first(), Some(b'!' | b'^'));
    let mut rest = if negated { &bytes[1..] } else { bytes };
    let mut ranges = Vec::new();
    let mut first = true;
    loop {
        let (byte, tail) = rest.split_first().ok_or(OPEN)?;
        rest = tail;
        match byte {
            b']' if !first => return Ok((Token::Class { negated, ranges }, rest)),
            b'[' if rest.first() == Some(&b':') => {
                let end = rest.windows(2).position(|w| w == b":]").ok_or("a `[:` has no closing `:]`")?;
                ranges.extend_from_slice(named_class(&rest[1..end])?);
                rest = &rest[end + 2..];
            }
            _ => {
                let low = match byte {
                    b'\\' => take(&mut rest).ok_or(OPEN)?,
                    other => *other,
                };
                let is_range = rest.first() == Some(&b'-') && rest.get(1).is_some_and(|b| *b != b']');
                let high = if is_range {
                    rest = &rest[1..];
                    match take(&mut rest).ok_or(OPEN)? {
                        b'\\' => take(&mut rest).ok_or(OPEN)?,
                        other => other,
                    }
                } else {
                    low
                };
                ranges.push((low, high));
            }
        }
        first = false;
    }
}

fn take(rest: &mut &[u8]) -> Option<u8> {
    let (byte, tail) = rest.split_first()?;
    *rest = tail;
    Some(*byte)
}

fn named_class(name: &[u8]) -> Result<&'static [(u8, u8)], &'static str> {
    Ok(match name {
        b"alnum" => &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')],
        b"alpha" => &[(b'A', b'Z'), (b'a', b'z')],
        b"blank" => &[(b' ', b' '), (b'\t', b'\t')],
        b"cntrl" => &[(0, 31), (127, 127)],
        b"digit" => &[(b'0', b'9')],
        b"graph" => &[(33, 126)],
        b"lower" => &[(b'a', b'z')],
        b"print" => &[(32, 126)],
        b"punct" => &[(33, 47), (58, 64), (91, 96), (123, 126)],
        b"space" => &[(9, 13), (b' ', b' ')],
        b"upper" => &[(b'A', b'Z')],
        b"xdigit" => &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')],
        _ => return Err("it names an unknown `[:class:]`"),
    })
}

/// One step of a path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// `**`: any number of components, none included.
    Deep,
    One(Component),
}

/// Matches whole paths, component by component; only the last `**` is ever reconsidered.
pub(crate) fn steps_match(steps: &[Step], path: &[u8]) -> bool {
    let parts: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
    let (mut s, mut c) = (0, 0);
    let mut deep: Option<(usize, usize)> = None;
    loop {
        match steps.get(s) {
            Some(Step::Deep) => {
                deep = Some((s, c));
                s += 1;
                continue;
            }
            Some(Step::One(component)) if c < parts.len() && component.matches(parts[c]) => {
                s += 1;
                c += 1;
                continue;
            }
            None if c == parts.len() => return true,
            _ => {}
        }
        match deep {
            Some((at, from)) if from < parts.len() => {
                deep = Some((at, from + 1));
                s = at + 1;
                c = from + 1;
            }
            _ => return false,
        }
    }
}

/// A path pattern, anchored at the tree root. `*`, `?` and `[..]` stay inside one component; `**` as a whole component
/// stands for any number of them; a trailing `/` (or `/**`) means everything below that directory.
#[derive(Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    steps: Vec<Step>,
    /// Everything below the directory that `steps` names.
    below: bool,
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the glob `{glob}` cannot be used: {what}")]
pub struct GlobError {
    pub glob: String,
    pub what: &'static str,
}

impl Glob {
    /// # Errors
    /// An empty or absolute pattern, an empty, `.` or `..` component, `**` beside other characters, an open `[`.
    pub fn new(text: &str) -> Result<Self, GlobError> {
        let fail = |what| GlobError { glob: text.to_owned(), what };
        if text.is_empty() {
            return Err(fail("it is empty; `**` means every path"));
        }
        if text.starts_with('/') {
            return Err(fail("it starts with `/`; globs are anchored at the tree root already"));
        }
        if text.contains('\0') {
            return Err(fail("it holds a NUL byte"));
        }
        let (body, mut below) = match text.strip_suffix('/') {
            Some(body) => (body, true),
            None => (text, false),
        };
        let mut steps = Vec::new();
        for part in body.split('/') {
            match part {
                "" => return Err(fail("it has an empty component (`//`)")),
                "." => return Err(fail("it has a `.` component; leave it out")),
                ".." => return Err(fail("it has a `..` component; globs cannot leave the tree")),
                "**" => {
                    if steps.last() != Some(&Step::Deep) {
                        steps.push(Step::Deep);
                    }
                }
                _ if part.contains("**") => {
                    return Err(fail("`**` must be a whole component, as in `src/**` or `**/tests`"));
                }
                _ => steps.push(Step::One(Component::parse(part.as_bytes()).map_err(fail)?)),
            }
        }
        // `a/**` is everything below `a`, not `a` itself.
        if steps.len() > 1 && steps.last() == Some(&Step::Deep) {
            steps.pop();
            below = true;
        }
        Ok(Self { text: text.to_owned(), steps, below })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether an entry at `path` (relative, `/`-separated, no trailing `/`) is meant.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        if !self.below {
            return steps_match(&self.steps, path);
        }
        path.iter().enumerate().any(|(at, b)| *b == b'/' && steps_match(&self.steps, &path[..at]))
    }

    /// Whether everything below the directory at `path` is meant: it lies below, or is named with a trailing `/` or `/**`.
    #[must_use]
    pub fn matches_dir(&self, path: &[u8]) -> bool {
        (self.below && steps_match(&self.steps, path)) || self.matches(path)
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Glob({:?})", self.text)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The union of globs. An empty set matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobSet(Vec<Glob>);

impl GlobSet {
    /// # Errors
    /// The first glob that cannot be used.
    pub fn new<S: AsRef<str>>(globs: impl IntoIterator<Item = S>) -> Result<Self, GlobError> {
        globs.into_iter().map(|g| Glob::new(g.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first glob that means the entry at `path`.
    #[must_use]
    pub fn find(&self, path: &[u8]) -> Option<&Glob> {
        self.0.iter().find(|g| g.matches(path))
    }

    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        self.find(path).is_some()
    }

    #[must_use]
    pub fn matches_dir(&self, path: &[u8]) -> bool {
        self.0.iter().any(|g| g.matches_dir(path))
    }

    #[must_use]
    pub fn globs(&self) -> &[Glob] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(glob: &str, path: &str) -> bool {
        Glob::new(glob).unwrap().matches(path.as_bytes())
    }

    #[test]
    fn a_star_stays_in_its_component_and_two_cross() {
        for (glob, path, expected) in [
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/a/b.rs", false),
            ("*.rs", "src/a.rs", false),
            ("**/*.rs", "a.rs", true),
            ("**/*.rs", "x/y/a.rs", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**/b", "a/x/y/c", false),
            ("a/**", "a/x", true),
            ("a/**", "a", false),
            ("a/", "a/x/y", true),
            ("a/", "a", false),
            ("a/", "ab/x", false),
            ("**", "anything/at/all", true),
            ("**/tests/**", "tests/a", true),
            ("**/tests/**", "x/tests/y/a", true),
            ("**/tests/**", "x/tests", false),
            ("?", "a", true),
            ("?", "ab", false),
            ("[a-c]x[!0-9]", "bxz", true),
            ("[a-c]x[!0-9]", "bx4", false),
            ("[]x]", "]", true),
            ("[[:digit:]]*", "7a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a*b*c", "axxbyyc", true),
            ("src", "src/a", false),
        ] {
            assert_eq!(matches(glob, path), expected, "{glob} {path}");
        }
        assert!(Glob::new("a/").unwrap().matches_dir(b"a"));
        assert!(!Glob::new("a").unwrap().matches_dir(b"ab"));
    }

    #[test]
    fn an_error_names_the_glob_and_what_is_wrong() {
        for bad in ["", "/a", "a/../b", "./a", "a//b", "a**", "**b/c", "[a", "a\\", "[[:nope:]]", "[[:x"] {
            let error = Glob::new(bad).unwrap_err();
            assert!(error.to_string().contains(&format!("`{bad}`")), "{error}");
        }
        assert_eq!(GlobSet::new(["ok", "/bad"]).unwrap_err().glob, "/bad");
    }

    #[test]
    fn bytes_that_are_not_text_match_too() {
        assert!(Glob::new("a/*").unwrap().matches(b"a/\xff\xfe"));
        assert!(Glob::new("a/?").unwrap().matches(b"a/\xff"));
    }

    #[test]
    fn many_stars_do_not_explode() {
        let glob = Glob::new(&format!("{}b", "*a".repeat(60))).unwrap();
        assert!(!glob.matches(&vec![b'a'; 4000]));
        let deep = Glob::new(&format!("{}b", "**/a/".repeat(40))).unwrap();
        assert!(!deep.matches("a/".repeat(400).trim_end_matches('/').as_bytes()));
    }

    /// The obvious matcher: tries everything.
    fn naive(steps: &[&str], parts: &[&str]) -> bool {
        match steps.split_first() {
            None => parts.is_empty(),
            Some((&"**", rest)) => {
                let from = usize::from(rest.is_empty());
                (from..=parts.len()).any(|n| naive(rest, &parts[n..]))
            }
            Some((one, rest)) => parts.split_first().is_some_and(|(part, others)| {
                naive_one(one.as_bytes(), part.as_bytes()) && naive(rest, others)
            }),
        }
    }

    fn naive_one(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.first(), text.first()) {
            (None, None) => true,
            (Some(b'*'), _) => {
                naive_one(&pattern[1..], text) || (!text.is_empty() && naive_one(pattern, &text[1..]))
            }
            (Some(b'?'), Some(_)) => naive_one(&pattern[1..], &text[1..]),
            (Some(p), Some(t)) if p == t => naive_one(&pattern[1..], &text[1..]),
            _ => false,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn the_matcher_agrees_with_the_obvious_one(
            steps in proptest::collection::vec("(\\*\\*|[ab?]{0,2}\\*?[ab]{0,2})", 1..5),
            parts in proptest::collection::vec("[ab]{1,4}", 1..6),
        ) {
            prop_assume!(steps.iter().all(|s| !s.is_empty() && (s == "**" || !s.contains("**"))));
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let glob = Glob::new(&steps.join("/")).unwrap();
            prop_assert_eq!(glob.matches(parts.join("/").as_bytes()), naive(&steps, &parts), "{:?}", glob);
        }
    }
}
