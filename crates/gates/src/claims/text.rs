//! How last words are cut into what can be true or false.

/// Sentences and lines. A dot inside a word (`lib.py`) ends nothing.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| {
        let mut cuts = vec![0];
        let bytes = line.as_bytes();
        for (at, pair) in bytes.windows(2).enumerate() {
            if matches!(pair, [b'.' | b'!' | b'?' | b';', b' ']) {
                cuts.push(at + 1);
            }
        }
        cuts.push(line.len());
        cuts.windows(2)
            .filter_map(|cut| line.get(*cut.first()?..*cut.get(1)?))
            .filter(|sentence| !sentence.trim().is_empty())
            .collect::<Vec<_>>()
    })
}

/// Parts of a sentence that are true or false on their own. What stands between backticks is one piece.
pub(super) fn clauses(sentence: &str) -> Vec<&str> {
    let mut cuts = vec![0];
    let mut quoted = false;
    for (at, c) in sentence.char_indices() {
        quoted ^= c == '`';
        let rest = sentence.get(at..).unwrap_or_default();
        if !quoted && [", ", " and ", " but ", " so ", ": "].iter().any(|between| rest.starts_with(between)) {
            cuts.push(at);
        }
    }
    cuts.push(sentence.len());
    cuts.windows(2).filter_map(|cut| sentence.get(*cut.first()?..*cut.get(1)?)).collect()
}

/// The words, small and without what surrounds them.
pub(super) fn tokens(clause: &str) -> Vec<String> {
    clause
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’' | '-')))
        .filter(|word| !word.is_empty())
        .map(|word| word.to_lowercase().replace('’', "'"))
        .collect()
}

pub(super) const DOUBTS: &[&str] = &[
    "should",
    "would",
    "could",
    "might",
    "may",
    "will",
    "if",
    "unless",
    "until",
    "expect",
    "hope",
    "hopefully",
    "not",
    "never",
    "cannot",
    "fail",
    "fails",
    "failed",
    "failing",
    "once",
    "when",
    "to",
    "can",
    "must",
    "whether",
    "ensure",
    "none",
    "before",
    "please",
    "plan",
];

/// What makes a fact of it only under a condition, wherever it stands.
pub(super) const CONDITIONS: &[&str] = &["if", "unless", "until", "once", "when", "should", "whether"];

/// Does the clause state a fact, as far as its verb and without a condition behind it?
pub(super) fn states(tokens: &[String], verb: usize) -> bool {
    let doubts = |word: &String| DOUBTS.contains(&word.as_str()) || word.ends_with("n't");
    let conditions = |word: &String| CONDITIONS.contains(&word.as_str());
    !tokens.iter().take(verb).any(doubts) && !tokens.iter().skip(verb).any(conditions)
}

pub(super) fn has(tokens: &[String], words: &[&str]) -> Option<usize> {
    tokens.iter().position(|token| words.contains(&token.as_str()))
}

/// Names of files: quoted or not, with a folder or an ending of letters and digits.
pub(super) fn paths_in(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for word in
        text.split(|c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '(' | ')' | ',' | '*'))
    {
        let word = word.trim_end_matches(['.', ':', ';', '!', '?']).trim_start_matches("./");
        let named = word.rsplit('/').next().unwrap_or_default();
        let ending = named.rsplit_once('.').is_some_and(|(stem, ending)| {
            !stem.is_empty() && (1..=6).contains(&ending.len()) && ending.chars().all(char::is_alphanumeric)
        });
        if word.len() > 2 && (ending || word.contains('/')) && !word.contains("://") {
            paths.push(word.to_owned());
        }
    }
    paths
}

/// The same, and whatever stands as one word between backticks: a file may be called anything.
pub(super) fn names_in(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2).filter(|word| !word.contains(char::is_whitespace));
    paths_in(text).into_iter().chain(quoted.map(str::to_owned)).filter(|name| !name.is_empty()).collect()
}

/// A name in the text means this path: the whole of it, or its last parts.
pub(super) fn means(mentioned: &str, path: &str) -> bool {
    let mentioned = mentioned.trim_end_matches('/');
    path == mentioned
        || path.strip_suffix(mentioned).is_some_and(|before| before.ends_with('/'))
        || path.strip_prefix(mentioned).is_some_and(|after| after.starts_with('/'))
}
