//! A form of Rust source that formatting does not change: no comments, no white space, no optional commas, no optional
//! braces around one expression, imports as a sorted list of paths. Two texts with the same form mean the same; texts
//! that rustfmt makes of one another nearly always have the same form.

use countersign_types::{Digest, Hasher};

use super::lexer::Token;

/// An import with more tokens than this is compared as it stands.
const MAX_USE_TOKENS: usize = 4096;

/// Bytes of one import's expanded paths at most.
const MAX_USE_TEXT: usize = 256 * 1024;

/// What happens to a brace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Brace {
    Keep,
    /// `|x| { expression }`: left out.
    Drop,
    /// `=> { expression }`: left out, and a comma stands behind it.
    Arm,
    /// `=> { statements; }`: kept, and no comma stands behind it.
    Block,
}

/// The canonical text of a token range.
pub(super) fn text(tokens: &[Token<'_>], from: usize, to: usize) -> String {
    let tokens = &tokens[from..to.min(tokens.len()).max(from)];
    let braces = optional_braces(tokens);
    let mut out = Out::default();
    // For each open group: whether the statement that is being read jumps.
    let mut jumps = vec![false];
    let mut at = 0;
    while at < tokens.len() {
        let brace = braces[at];
        match tokens[at] {
            Token::Doc(_) => {}
            Token::Open(c, _) => {
                jumps.push(false);
                if matches!(brace, Brace::Keep | Brace::Block) {
                    out.mark(c);
                }
            }
            Token::Close(c) => {
                jumps.pop();
                // A trailing comma means nothing (`(x,)` and `(x)` differ, but then so do their types), nor does the
                // `;` of a last `return;`.
                out.drop_optional_end();
                if matches!(brace, Brace::Keep | Brace::Block) {
                    out.mark(c);
                }
                if brace == Brace::Arm {
                    out.mark(',');
                }
                if matches!(brace, Brace::Arm | Brace::Block)
                    && tokens.get(at + 1) == Some(&Token::Punct(','))
                {
                    at += 1;
                }
            }
            Token::Ident(word) => {
                if let Some(jump) = jumps.last_mut() {
                    *jump |= is_jump(word);
                }
                out.word(word);
            }
            Token::Literal(word) | Token::Lifetime(word) => out.word(word),
            Token::Punct(';') => {
                let jump = jumps.last_mut().is_some_and(std::mem::take);
                out.mark(';');
                out.end = if jump { End::Jump } else { End::Other };
            }
            Token::Punct(c) => {
                // `Vec<u8,>`
                if c == '>' && out.end == End::Comma {
                    out.drop_optional_end();
                }
                out.mark(c);
            }
        }
        at += 1;
    }
    out.text
}

/// Rust's formatter puts a `;` behind these where they end a block.
fn is_jump(word: &str) -> bool {
    matches!(word, "return" | "break" | "continue")
}

/// What the text ends in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Other,
    Comma,
    /// The `;` of a statement that jumps.
    Jump,
}

/// Tokens behind one space each. A space can stand inside a literal only, and a literal shows its own end.
#[derive(Default)]
struct Out {
    text: String,
    end: End,
}

impl Out {
    fn word(&mut self, word: &str) {
        self.text.push(' ');
        self.text.push_str(word);
        self.end = End::Other;
    }

    fn mark(&mut self, c: char) {
        self.text.push(' ');
        self.text.push(c);
        self.end = if c == ',' { End::Comma } else { End::Other };
    }

    fn drop_optional_end(&mut self) {
        if self.end != End::Other {
            self.text.truncate(self.text.len() - " ,".len());
            self.end = End::Other;
        }
    }
}

/// A group that is being read by [`optional_braces`].
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    start: usize,
    /// `;` directly inside.
    statements: usize,
    /// The statement that is being read jumps; the one before did.
    jumps: bool,
    jumped: bool,
}

/// Decides for every token what happens to it as a brace; one pass.
fn optional_braces(tokens: &[Token<'_>]) -> Vec<Brace> {
    let mut braces = vec![Brace::Keep; tokens.len()];
    let mut open: Vec<Group> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match (token, open.last_mut()) {
            (Token::Open(..), _) => open.push(Group { start: at, ..Group::default() }),
            (Token::Ident(word), Some(group)) => group.jumps |= is_jump(word),
            (Token::Punct(';'), Some(group)) => {
                group.statements += 1;
                group.jumped = std::mem::take(&mut group.jumps);
            }
            (Token::Close('}'), Some(group)) => {
                let group = *group;
                open.pop();
                let ends_in_jump = group.jumped && tokens[at - 1] == Token::Punct(';');
                let statements = group.statements - usize::from(ends_in_jump) > 0;
                let is_empty = group.start + 1 == at;
                let before = &tokens[..group.start];
                let brace = if before.ends_with(&[Token::Punct('='), Token::Punct('>')]) {
                    if statements || is_empty { Brace::Block } else { Brace::Arm }
                } else if before.ends_with(&[Token::Punct('|')]) && !statements && !is_empty {
                    Brace::Drop
                } else {
                    Brace::Keep
                };
                braces[group.start] = brace;
                braces[at] = brace;
            }
            (Token::Close(_), _) => {
                open.pop();
            }
            _ => {}
        }
    }
    braces
}

/// One import.
#[derive(Debug, Default)]
pub(super) struct UseTree<'a> {
    /// Sorted full paths, with what stands in front of `use`.
    pub(super) canonical: String,
    /// Names that it brings into scope.
    pub(super) binds: Vec<&'a str>,
    /// It imports everything of a module that is neither the standard library's nor `super` or `self`.
    pub(super) foreign_glob: bool,
}

impl<'a> UseTree<'a> {
    pub(super) fn read(tokens: &[Token<'a>], from: usize, to: usize) -> Self {
        let range = &tokens[from..to];
        let start = range.iter().position(|t| *t == Token::Ident("use")).map_or(0, |at| at + 1);
        if range.len() <= MAX_USE_TOKENS
            && let Some(tree) = Self::expand(&range[start..], text(tokens, from, from + start))
        {
            return tree;
        }
        // Too large to expand: compared as it stands, and it might bring in any of its words.
        let words = range.iter().filter_map(|t| if let Token::Ident(word) = t { Some(*word) } else { None });
        Self { canonical: text(tokens, from, to), binds: words.collect(), foreign_glob: true }
    }

    fn expand(tokens: &[Token<'a>], front: String) -> Option<Self> {
        let mut tree = Self { canonical: front, ..Self::default() };
        let mut paths: Vec<String> = Vec::new();
        let mut size = 0;
        // The path so far, and its length at each open brace.
        let (mut path, mut marks): (Vec<&'a str>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut alias: Option<&'a str> = None;
        let mut after_as = false;
        for token in tokens.iter().chain([&Token::Punct(';')]) {
            match token {
                Token::Ident("as") => after_as = true,
                Token::Ident(word) if after_as => {
                    alias = Some(word);
                    after_as = false;
                }
                Token::Ident(word) => path.push(word),
                Token::Punct('*') => path.push("*"),
                Token::Open('{', _) => marks.push(path.len()),
                Token::Punct(',' | ';') | Token::Close('}') => {
                    let base = marks.last().copied().unwrap_or(0);
                    if path.len() > base {
                        if path.last() == Some(&"self") && path.len() > 1 {
                            path.pop();
                        }
                        let mut full = path.join("::");
                        match (alias, path.last()) {
                            (Some("_"), _) => {}
                            (Some(name), _) => tree.binds.push(name),
                            (None, Some(&"*")) => {
                                let own = ["std", "core", "alloc", "super", "self"];
                                tree.foreign_glob |= !path.first().is_some_and(|root| own.contains(root));
                            }
                            (None, Some(name)) => tree.binds.push(name),
                            (None, None) => {}
                        }
                        if let Some(name) = alias {
                            full.push_str(" as ");
                            full.push_str(name);
                        }
                        size += full.len();
                        if size > MAX_USE_TEXT {
                            return None;
                        }
                        paths.push(full);
                    }
                    alias = None;
                    after_as = false;
                    if *token == Token::Close('}') {
                        marks.pop();
                        // What stood in front of the brace is used up with it.
                        path.truncate(marks.last().copied().unwrap_or(0));
                    } else {
                        path.truncate(base);
                    }
                }
                _ => {}
            }
        }
        paths.sort();
        paths.dedup();
        for path in &paths {
            tree.canonical.push(' ');
            tree.canonical.push_str(path);
        }
        Some(tree)
    }
}

/// The digests of the documentation's code blocks that `cargo test` runs or compiles. Blocks that are indented without
/// a fence, and documentation that comes from a macro or another file, are not seen.
pub(super) fn doc_tests(tokens: &[Token<'_>]) -> Vec<Digest> {
    let mut found = Vec::new();
    let mut block: Option<Block> = None;
    for token in tokens {
        let Token::Doc(text) = token else {
            // Documentation that ends inside a block ends the block.
            found.extend(block.take().and_then(Block::finish));
            continue;
        };
        for line in text.lines() {
            let line = line.trim();
            let line = line.strip_prefix('*').unwrap_or(line).trim();
            match &mut block {
                None => block = Block::open(line),
                Some(open) if open.is_closed_by(line) => found.extend(block.take().and_then(Block::finish)),
                Some(open) => open.line(line),
            }
        }
    }
    found.extend(block.take().and_then(Block::finish));
    found
}

struct Block {
    mark: u8,
    len: usize,
    runs: bool,
    hasher: Hasher,
}

impl Block {
    fn open(line: &str) -> Option<Self> {
        let mark = *line.as_bytes().first().filter(|b| matches!(b, b'`' | b'~'))?;
        let len = line.bytes().take_while(|b| *b == mark).count();
        if len < 3 {
            return None;
        }
        let mut words: Vec<&str> =
            line[len..].split([',', ' ', '\t', '{', '}', '.']).filter(|w| !w.is_empty()).collect();
        words.sort_unstable();
        let runs = words.iter().all(|word| {
            matches!(
                *word,
                "rust" | "should_panic" | "no_run" | "compile_fail" | "test_harness" | "standalone_crate"
            ) || word.starts_with("edition20")
                || (word.len() == 5 && word.starts_with('E') && word[1..].bytes().all(|b| b.is_ascii_digit()))
        });
        let mut hasher = Hasher::new();
        for word in words.iter().filter(|word| **word != "rust") {
            hasher.update(word.as_bytes());
            hasher.update(b",");
        }
        hasher.update(b"\n");
        Some(Self { mark, len, runs, hasher })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        line.len() >= self.len && line.bytes().all(|b| b == self.mark)
    }

    fn line(&mut self, line: &str) {
        if !line.is_empty() {
            self.hasher.update(line.as_bytes());
            self.hasher.update(b"\n");
        }
    }

    fn finish(self) -> Option<Digest> {
        self.runs.then(|| self.hasher.finish())
    }
}
