//! The words of a shell command, as far as paths of the base can stand in them.
//!
//! Not a shell: nothing is run and no variable is known. A word with an expansion becomes a pattern; the text inside a
//! substitution is read as words of its own. A wrong word finds no file; a missed one would lose a protected file, so
//! [`plain_words`] adds a second, coarser reading.

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The text without quotes; with `wild` a pattern of the contract's glob language.
    pub text: String,
    pub wild: bool,
}

impl Word {
    #[must_use]
    pub fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), wild: false }
    }
}

/// Words that one brace expansion may make.
const MAX_EXPANDED: usize = 64;

/// A part of a word that is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Char(char),
    /// A wild character of the shell.
    Wild(char),
    /// An expansion.
    Unknown,
}

/// Splits at white space and operators, takes quotes off.
#[must_use]
pub fn words(text: &str) -> Vec<Word> {
    let mut out: Vec<Vec<Piece>> = Vec::new();
    let mut word: Vec<Piece> = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    let mut double = false;
    // Whether the text around each open substitution stands in double quotes.
    let mut outer: Vec<bool> = Vec::new();
    let mut end = |word: &mut Vec<Piece>| {
        if !word.is_empty() {
            out.push(std::mem::take(word));
        }
    };
    while let Some(&c) = chars.get(at) {
        at += 1;
        match c {
            '\\' => {
                if let Some(&next) = chars.get(at).filter(|next| **next != '\n') {
                    word.push(Piece::Char(next));
                }
                at += 1;
            }
            '"' => double = !double,
            '\'' if !double => {
                while let Some(&inner) = chars.get(at).filter(|inner| **inner != '\'') {
                    word.push(Piece::Char(inner));
                    at += 1;
                }
                at += 1;
            }
            '$' => {
                let rest: String = chars[at..].iter().take(8).collect();
                if let Some(len) = PRESENT_DIR.iter().find(|name| is_name_at(&rest, name)).map(|n| n.len()) {
                    word.push(Piece::Char('.'));
                    at += len;
                } else if chars.get(at) == Some(&'(') {
                    // What follows the substitution is the tail of a word with an unknown start.
                    word.push(Piece::Unknown);
                    end(&mut word);
                    outer.push(std::mem::take(&mut double));
                    at += 1;
                } else {
                    word.push(Piece::Unknown);
                    at += expansion_len(&chars[at..]);
                }
            }
            ')' | '`' => {
                end(&mut word);
                if c == ')' {
                    double = outer.pop().unwrap_or(double);
                }
                if chars.get(at).is_some_and(|next| *next == '/' || *next == '"') {
                    word.push(Piece::Unknown);
                }
            }
            _ if double => word.push(Piece::Char(c)),
            '*' | '?' | '[' => word.push(Piece::Wild(c)),
            _ if c.is_whitespace() || ";&|<>(".contains(c) => end(&mut word),
            _ => word.push(Piece::Char(c)),
        }
    }
    end(&mut word);
    out.iter().flat_map(|pieces| expand_braces(pieces)).filter_map(|pieces| finish(&pieces)).collect()
}

/// Spellings of the working directory, behind the `$`.
const PRESENT_DIR: &[&str] = &["{PWD}", "(pwd)", "PWD"];

fn is_name_at(rest: &str, name: &str) -> bool {
    let after = rest.strip_prefix(name).map(|rest| rest.chars().next());
    after.is_some_and(|next| !name.ends_with('D') || !next.is_some_and(|c| c == '_' || c.is_alphanumeric()))
}

/// How many characters behind a `$` belong to the variable.
fn expansion_len(rest: &[char]) -> usize {
    match rest.first() {
        Some('{') => rest.iter().position(|c| *c == '}').map_or(rest.len(), |at| at + 1),
        Some(c) if *c == '_' || c.is_alphabetic() => {
            rest.iter().take_while(|c| **c == '_' || c.is_alphanumeric()).count()
        }
        Some(_) => 1,
        None => 0,
    }
}

/// `a{b,c}d` becomes `abd acd`; braces without a comma stay.
fn expand_braces(pieces: &[Piece]) -> Vec<Vec<Piece>> {
    let mut done = Vec::new();
    let mut waiting = vec![pieces.to_vec()];
    while let Some(pieces) = waiting.pop() {
        let close = pieces.iter().position(|p| *p == Piece::Char('}'));
        let open = close.and_then(|close| pieces[..close].iter().rposition(|p| *p == Piece::Char('{')));
        let (Some(open), Some(close)) = (open, close) else {
            done.push(pieces);
            continue;
        };
        let inner = &pieces[open + 1..close];
        if !inner.contains(&Piece::Char(',')) || waiting.len() + done.len() > MAX_EXPANDED {
            done.push(pieces);
            continue;
        }
        for part in inner.split(|p| *p == Piece::Char(',')) {
            waiting.push([&pieces[..open], part, &pieces[close + 1..]].concat());
        }
    }
    done
}

/// None for a pattern without anything literal in it: it would mean every file.
fn finish(pieces: &[Piece]) -> Option<Word> {
    let wild = pieces.iter().any(|p| !matches!(p, Piece::Char(_)));
    if !wild {
        let text =
            pieces.iter().filter_map(|p| if let Piece::Char(c) = p { Some(*c) } else { None }).collect();
        return Some(Word { text, wild });
    }
    let is_literal = |p: &Piece| matches!(p, Piece::Char(c) if !matches!(c, '/' | '.'));
    if !pieces.iter().any(is_literal) {
        return None;
    }
    let components = pieces.split(|p| *p == Piece::Char('/'));
    let mut text = Vec::new();
    for (at, component) in components.enumerate() {
        if component.is_empty() && at > 0 {
            continue;
        }
        // A whole component that is not known may be several.
        if component.iter().all(|p| *p == Piece::Unknown) && !component.is_empty() {
            text.push("**".to_owned());
            continue;
        }
        let mut part = String::new();
        for piece in component {
            match piece {
                Piece::Char(c) if matches!(c, '\\' | '*' | '?' | '[') => part.extend(['\\', *c]),
                Piece::Char(c) | Piece::Wild(c @ ('?' | '[')) => part.push(*c),
                Piece::Wild(_) | Piece::Unknown if part.ends_with('*') && !part.ends_with("\\*") => {}
                Piece::Wild(_) | Piece::Unknown => part.push('*'),
            }
        }
        text.push(part);
    }
    // `scripts/$x` could be anything below; only a name that is partly known is a pattern for files.
    let tail = text.last().is_some_and(|last| last == "**") && !pieces.contains(&Piece::Wild('*'));
    (!tail).then(|| Word { text: text.join("/"), wild })
}

/// The plain words of a string that may be a shell command, without any understanding of quotes.
pub fn plain_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || ";&|()<>`'\"$={}".contains(c)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_come_off_and_expansions_become_patterns() {
        let of = |text| -> Vec<String> {
            words(text).into_iter().map(|w| if w.wild { format!("~{}", w.text) } else { w.text }).collect()
        };
        for (text, expected) in [
            ("cd s && sh check.sh;true", &["cd", "s", "sh", "check.sh", "true"][..]),
            ("sh 'che'\"ck\".s\\h", &["sh", "check.sh"]),
            ("sh $PWD/x \"${PWD}/y\" $(pwd)/z $PWDX/w", &["sh", "./x", "./y", "./z", "~**/w"]),
            ("sh chec*.sh tests/*", &["sh", "~chec*.sh", "~tests/*"]),
            ("sh 'a*.sh'", &["sh", "a*.sh"]),
            ("sh \"$(dirname \"$0\")/check.sh\"", &["sh", "dirname", "~**/check.sh"]),
            ("sh $D/check.sh $t \"$@\" s/$n.sh", &["sh", "~**/check.sh", "~s/*.sh"]),
            ("sh {c,d}/check.sh {x}", &["sh", "d/check.sh", "c/check.sh", "{x}"]),
            ("for f in *; do test -e $f; done", &["for", "f", "in", "do", "test", "-e", "done"]),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }
}
