//! What one Rust source file holds for the fence: test items, and code that knows whether it is under test.
//!
//! A *record* is one thing that must stay: a function with a test attribute, an item under `#[cfg(test)]`, every item
//! inside such a module. Its text is the tokens without comments and white space, in a form that rustfmt does not
//! change (see [`canon`]). What encloses it (modules, `impl` headers, their attributes) is part of it, so
//! an item that was moved under another `cfg` or into a macro is no longer the same item.

use std::collections::HashSet;

use countersign_types::{Digest, Hasher};

use super::attrs::Says;
use super::canon::{self, UseTree};
use super::lexer::{LexError, Token, lex};

/// Modules inside modules at most.
const MAX_DEPTH: usize = 64;

/// Bytes of a shown item path at most.
const MAX_NAME: usize = 160;

#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) records: Vec<Record<'a>>,
    /// `mod name;` declarations outside test modules.
    pub(super) modules: Vec<ModuleDecl>,
    /// `mod name;` declarations that are compiled only under test: paths below the file's module directory.
    pub(super) test_modules: Vec<TestModule>,
    /// Product code that asks whether it is under test, in canonical form.
    pub(super) marks: Vec<String>,
    /// File-level attributes that decide what is compiled and how tests are run.
    pub(super) inner: Vec<String>,
    /// Runnable code blocks of documentation.
    pub(super) doc_tests: Vec<Digest>,
    /// Names of standard macros that product code gives a meaning of its own.
    pub(super) macros: Vec<String>,
    /// Every identifier of the file.
    pub(super) idents: HashSet<&'a str>,
}

#[derive(Debug)]
pub(super) struct Record<'a> {
    /// Everything: context, attributes and text.
    pub(super) digest: Digest,
    /// Context alone: which module of the file this stands in.
    pub(super) context: Digest,
    /// For people: `tests::adds`.
    pub(super) name: String,
    /// The record stands inside a test module (and is not that module).
    pub(super) in_test: bool,
    /// A function with a test attribute: no name of product code can mean it.
    pub(super) is_test_fn: bool,
    /// Names that it brings into its scope.
    pub(super) binds: Vec<&'a str>,
    /// It brings in names that cannot be listed: a glob import from outside, or `include!`.
    pub(super) opaque: bool,
    /// Identifiers that it uses.
    pub(super) idents: HashSet<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModuleDecl {
    /// Below the file's module directory, joined by `/`.
    pub(super) path: String,
    /// `#[path = "…"]`, unescaped only when it is plain.
    pub(super) explicit: Option<String>,
    /// Canonical `cfg`, `cfg_attr` and `path` attributes of it and of what encloses it.
    pub(super) conditions: Digest,
}

#[derive(Clone, Debug)]
pub(super) struct TestModule {
    pub(super) path: String,
    pub(super) explicit: Option<String>,
}

/// The same for imports, without those that `no_std` code imports from `alloc`.
const VERDICT_IMPORTS: &[&str] = &[
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "panic",
    "matches",
];

/// Reads a file. `all_test`: the file is a module that is only compiled under test, so everything in it is a record.
pub(super) fn read(bytes: &[u8], all_test: bool) -> Result<Source<'_>, LexError> {
    let tokens = lex(bytes)?;
    let source = Source {
        records: Vec::new(),
        modules: Vec::new(),
        test_modules: Vec::new(),
        marks: Vec::new(),
        inner: Vec::new(),
        doc_tests: canon::doc_tests(&tokens),
        macros: Vec::new(),
        idents: tokens
            .iter()
            .filter_map(|t| if let Token::Ident(name) = t { Some(*name) } else { None })
            .collect(),
    };
    let end = tokens.len();
    let mut walker = Walker { tokens: &tokens, source };
    let root = Context {
        digest: Digest::of(if all_test { b"test module" } else { b"file" }),
        conditions: Digest::of(b""),
        name: String::new(),
        path: String::new(),
        in_test: all_test,
        is_file: true,
    };
    walker.walk(0, end, &root, 0)?;
    Ok(walker.source)
}

#[derive(Clone, Debug)]
struct Context {
    digest: Digest,
    conditions: Digest,
    name: String,
    path: String,
    in_test: bool,
    is_file: bool,
}

pub(super) struct Walker<'t, 'a> {
    pub(super) tokens: &'t [Token<'a>],
    pub(super) source: Source<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mod,
    Fn,
    Use,
    Container,
    MacroRules,
    MacroCall,
    Other,
}

/// One item of a token range.
#[derive(Debug)]
struct Item<'a> {
    kind: Kind,
    name: &'a str,
    /// Ranges of what stands inside `#[…]`.
    attrs: Vec<(usize, usize)>,
    /// The first token, attributes left out.
    start: usize,
    end: usize,
    /// The braces of a module, `impl` or trait.
    body: Option<(usize, usize)>,
}

impl<'a> Walker<'_, 'a> {
    fn walk(&mut self, from: usize, to: usize, context: &Context, depth: usize) -> Result<(), LexError> {
        if depth > MAX_DEPTH {
            return Err(LexError::TooDeep);
        }
        // Attributes of the enclosing thing itself come first; they are part of every item's context.
        let mut hasher = Hasher::new();
        hasher.update(context.digest.as_bytes());
        let mut at = from;
        while let Some((range, after)) = self.inner_attribute(at, to) {
            if let Some(range) = range {
                self.inner_attr(range, context, &mut hasher);
            }
            at = after;
        }
        let context = Context { digest: hasher.finish(), ..context.clone() };
        while at < to {
            let item = self.item(at, to);
            at = item.end.max(at + 1);
            if item.start < item.end || !item.attrs.is_empty() {
                self.visit(&item, &context, depth)?;
            }
        }
        Ok(())
    }

    /// `#![…]` or inner documentation at `at`: the attribute's range (None for documentation) and where it ends.
    fn inner_attribute(&self, at: usize, to: usize) -> Option<(Option<(usize, usize)>, usize)> {
        match self.tokens.get(at..to)? {
            [Token::Punct('#'), Token::Punct('!'), Token::Open('[', end), ..] => {
                Some((Some((at + 3, *end)), end + 1))
            }
            _ => None,
        }
    }

    fn inner_attr(&mut self, (from, to): (usize, usize), context: &Context, hasher: &mut Hasher) {
        let name = self.attr_name(from, to);
        let decides = match name {
            "cfg" | "test_runner" | "reexport_test_harness_main" | "no_main" | "feature" => true,
            "cfg_attr" => !self.harmless_cfg_attr(from, to),
            _ => false,
        };
        let text = canon::text(self.tokens, from, to);
        let is_feature = name == "feature" && !text.contains("custom_test_frameworks");
        if decides && !is_feature {
            hasher.update(text.as_bytes());
            if context.is_file && !context.in_test {
                self.source.inner.push(text);
            }
        }
    }

    /// Attributes of one item, then its keyword, name and end. Always moves on when anything is left.
    fn item(&self, from: usize, to: usize) -> Item<'a> {
        let mut attrs = Vec::new();
        let mut at = from;
        loop {
            match self.tokens.get(at..to).unwrap_or_default() {
                [Token::Doc(_), ..] => at += 1,
                [Token::Punct('#'), Token::Open('[', end), ..] => {
                    attrs.push((at + 2, *end));
                    at = end + 1;
                }
                // An inner attribute behind the first item is no Rust; it is stepped over as an attribute.
                [Token::Punct('#'), Token::Punct('!'), Token::Open('[', end), ..] => {
                    attrs.push((at + 3, *end));
                    at = end + 1;
                }
                _ => break,
            }
        }
        let start = at.min(to);
        let mut item = Item { kind: Kind::Other, name: "", attrs, start, end: start, body: None };
        let keyword = self.skip_qualifiers(start, to);
        let word = |i: usize| match self.tokens.get(i) {
            Some(Token::Ident(name)) if i < to => *name,
            _ => "",
        };
        let mut ends_at_brace = true;
        match word(keyword) {
            "mod" => item.kind = Kind::Mod,
            "fn" => item.kind = Kind::Fn,
            "impl" | "trait" => item.kind = Kind::Container,
            "macro_rules" | "macro" => item.kind = Kind::MacroRules,
            "use" => {
                item.kind = Kind::Use;
                ends_at_brace = false;
            }
            "const" | "static" | "type" => ends_at_brace = false,
            "struct" | "enum" | "union" => {}
            "extern" if word(keyword + 1) == "crate" => ends_at_brace = false,
            _ => {
                if self
                    .tokens
                    .get(start..to)
                    .unwrap_or_default()
                    .iter()
                    .take(16)
                    .any(|t| *t == Token::Punct('!'))
                {
                    item.kind = Kind::MacroCall;
                }
            }
        }
        item.name = match item.kind {
            Kind::MacroCall => word(start),
            Kind::MacroRules if word(keyword) == "macro_rules" => word(keyword + 2),
            _ if word(keyword + 1) == "mut" || word(keyword + 1) == "crate" => word(keyword + 2),
            _ => word(keyword + 1),
        };
        let (end, body) = self.find_end(start, to, ends_at_brace);
        item.end = end;
        item.body = body;
        item
    }

    fn skip_qualifiers(&self, start: usize, to: usize) -> usize {
        let mut at = start;
        while at < to {
            let next = self.tokens.get(at + 1).filter(|_| at + 1 < to);
            match self.tokens[at] {
                Token::Ident("pub" | "crate") => {
                    at += 1;
                    if let Some(Token::Open('(', end)) = next {
                        at = end + 1;
                    }
                }
                Token::Ident("default" | "unsafe" | "async" | "safe" | "auto")
                    if matches!(next, Some(Token::Ident(_))) =>
                {
                    at += 1;
                }
                Token::Ident("const")
                    if matches!(next, Some(Token::Ident("fn" | "unsafe" | "async" | "extern"))) =>
                {
                    at += 1;
                }
                Token::Ident("extern") if matches!(next, Some(Token::Ident("fn"))) => at += 1,
                Token::Ident("extern") if matches!(next, Some(Token::Literal(_))) => {
                    if !matches!(self.tokens.get(at + 2), Some(Token::Ident("fn"))) {
                        return at;
                    }
                    at += 2;
                }
                _ => return at,
            }
        }
        at
    }

    /// An item ends with its first `;` or, where its kind says so, with its first brace group. Braces between angle
    /// brackets are an argument of a type.
    fn find_end(&self, start: usize, to: usize, at_brace: bool) -> (usize, Option<(usize, usize)>) {
        let mut at = start;
        while at < to {
            match self.tokens[at] {
                Token::Punct(';') => return (at + 1, None),
                Token::Open('{', end) if at_brace => {
                    let argument = (at > start && self.tokens[at - 1] == Token::Punct('<'))
                        || self.tokens.get(end + 1) == Some(&Token::Punct('>'));
                    if !argument {
                        return (end + 1, Some((at + 1, end)));
                    }
                    at = end + 1;
                }
                Token::Open(_, end) => at = end + 1,
                _ => at += 1,
            }
        }
        (to, None)
    }

    fn visit(&mut self, item: &Item<'a>, context: &Context, depth: usize) -> Result<(), LexError> {
        let says: Vec<Says> = item.attrs.iter().map(|range| self.says(*range)).collect();
        let cfg_test = says.contains(&Says::CfgTest);
        let test_fn = says.contains(&Says::TestFn);
        if context.in_test || cfg_test {
            return match (item.kind, item.body) {
                (Kind::Mod, Some(body)) => {
                    self.record(item, context, false, (item.start, body.0));
                    let inner = self.enter(item, context, true);
                    self.walk(body.0, body.1, &inner, depth + 1)
                }
                (Kind::Mod, None) => {
                    self.record(item, context, false, (item.start, item.end));
                    let path = joined(&context.path, item.name, "/");
                    self.source.test_modules.push(TestModule { path, explicit: self.explicit_path(item) });
                    Ok(())
                }
                _ => {
                    self.record(item, context, test_fn, (item.start, item.end));
                    Ok(())
                }
            };
        }
        if test_fn || (item.kind == Kind::MacroCall && self.holds_tests(item.start, item.end)) {
            self.record(item, context, true, (item.start, item.end));
            return Ok(());
        }
        for range in &item.attrs {
            self.mark_range(range.0, range.1);
        }
        match (item.kind, item.body) {
            (Kind::Mod, Some(body)) => {
                let inner = self.enter(item, context, false);
                self.walk(body.0, body.1, &inner, depth + 1)?;
            }
            (Kind::Mod, None) => {
                let decl = ModuleDecl {
                    path: joined(&context.path, item.name, "/"),
                    explicit: self.explicit_path(item),
                    conditions: self.conditions(item, context.conditions),
                };
                self.source.modules.push(decl);
            }
            (Kind::Container, Some(body)) => {
                self.mark_range(item.start, body.0);
                let inner = self.enter(item, context, false);
                self.walk(body.0, body.1, &inner, depth + 1)?;
            }
            _ => {
                self.mark_range(item.start, item.end);
                self.note_imported_macros(item);
            }
        }
        Ok(())
    }

    /// The context inside a module, `impl` or trait.
    fn enter(&self, item: &Item<'a>, context: &Context, in_test: bool) -> Context {
        let header_end = item.body.map_or(item.end, |body| body.0);
        let mut hasher = Hasher::new();
        hasher.update(context.digest.as_bytes());
        if item.kind == Kind::Mod {
            hasher.update(b"mod ");
            hasher.update(item.name.as_bytes());
        } else {
            hasher.update(canon::text(self.tokens, item.start, header_end).as_bytes());
        }
        for text in self.canonical_attrs(item, true) {
            hasher.update(b"#");
            hasher.update(text.as_bytes());
        }
        let name = if item.name.is_empty() { "impl" } else { item.name };
        Context {
            digest: hasher.finish(),
            conditions: self.conditions(item, context.conditions),
            name: joined(&context.name, name, "::"),
            path: if item.kind == Kind::Mod {
                joined(&context.path, name, "/")
            } else {
                context.path.clone()
            },
            in_test,
            is_file: false,
        }
    }

    fn conditions(&self, item: &Item<'a>, outer: Digest) -> Digest {
        let mut hasher = Hasher::new();
        hasher.update(outer.as_bytes());
        for text in self.canonical_attrs(item, true) {
            hasher.update(b"#");
            hasher.update(text.as_bytes());
        }
        hasher.finish()
    }

    /// Sorted canonical attributes; with `only_conditions` those that decide whether and from where code is compiled.
    /// Lints and documentation never count.
    fn canonical_attrs(&self, item: &Item<'a>, only_conditions: bool) -> Vec<String> {
        let counts = |range: &&(usize, usize)| {
            let name = self.attr_name(range.0, range.1);
            let harmless = name == "cfg_attr" && self.harmless_cfg_attr(range.0, range.1);
            if only_conditions {
                matches!(name, "cfg" | "cfg_attr" | "path" | "macro_use") && !harmless
            } else {
                !HARMLESS.contains(&name) && !harmless
            }
        };
        let mut texts: Vec<String> =
            item.attrs.iter().filter(counts).map(|r| canon::text(self.tokens, r.0, r.1)).collect();
        texts.sort();
        texts
    }

    fn explicit_path(&self, item: &Item<'a>) -> Option<String> {
        item.attrs.iter().find_map(|(from, to)| match self.tokens.get(*from..*to)? {
            [Token::Ident("path"), Token::Punct('='), Token::Literal(text)] => {
                Some(text.trim_matches('"').to_owned())
            }
            _ => None,
        })
    }

    fn record(&mut self, item: &Item<'a>, context: &Context, is_test_fn: bool, (from, to): (usize, usize)) {
        let mut hasher = Hasher::new();
        hasher.update(context.digest.as_bytes());
        for text in self.canonical_attrs(item, false) {
            hasher.update(b"#");
            hasher.update(text.as_bytes());
        }
        let mut binds = Vec::new();
        let mut opaque = false;
        if item.kind == Kind::Use {
            let tree = UseTree::read(self.tokens, from, to);
            hasher.update(tree.canonical.as_bytes());
            opaque = tree.foreign_glob;
            binds = tree.binds;
        } else {
            hasher.update(canon::text(self.tokens, from, to).as_bytes());
            if item.kind == Kind::MacroCall {
                opaque = item.name == "include";
            } else if item.kind == Kind::Container {
                binds = self.functions_in(from, to);
            } else if !item.name.is_empty() && item.name != "_" {
                binds.push(item.name);
            }
        }
        let idents = self.tokens[from..to]
            .iter()
            .filter_map(|t| if let Token::Ident(n) = t { Some(*n) } else { None });
        self.source.records.push(Record {
            digest: hasher.finish(),
            context: context.digest,
            name: joined(&context.name, if item.name.is_empty() { "item" } else { item.name }, "::"),
            in_test: context.in_test,
            is_test_fn,
            binds,
            opaque,
            idents: idents.collect(),
        });
    }

    fn functions_in(&self, from: usize, to: usize) -> Vec<&'a str> {
        let pairs = self.tokens[from..to].windows(2);
        pairs
            .filter_map(|w| if let [Token::Ident("fn"), Token::Ident(name)] = w { Some(*name) } else { None })
            .collect()
    }

    /// Names of standard macros that an import of product code takes.
    fn note_imported_macros(&mut self, item: &Item<'a>) {
        if item.kind == Kind::Use {
            let binds = UseTree::read(self.tokens, item.start, item.end).binds;
            let found = binds.into_iter().filter(|name| VERDICT_IMPORTS.contains(name));
            self.source.macros.extend(found.map(str::to_owned));
        } else if self.tokens[item.start..item.end].contains(&Token::Ident("crate"))
            && item.attrs.iter().any(|(from, to)| self.attr_name(*from, *to) == "macro_use")
        {
            // `#[macro_use] extern crate x;` takes every name that `x` exports.
            self.source.macros.push(format!("macro_use {}", item.name));
        }
    }
}

/// Attributes that say nothing about what is compiled or run.
const HARMLESS: &[&str] =
    &["allow", "warn", "deny", "forbid", "expect", "doc", "must_use", "inline", "skip", "rustfmt", "cold"];

fn joined(outer: &str, name: &str, by: &str) -> String {
    let mut out = if outer.is_empty() { name.to_owned() } else { format!("{outer}{by}{name}") };
    if by == "::" && out.len() > MAX_NAME {
        let mut end = MAX_NAME;
        while !out.is_char_boundary(end) {
            end -= 1;
        }
        out.truncate(end);
    }
    out
}
