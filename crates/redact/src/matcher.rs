use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::automaton::Automaton as _;
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};

/// A place in the automaton; it stands for the longest beginning of a pattern that ends at the last byte read.
pub(crate) type State = aho_corasick::automaton::StateID;

/// An Aho-Corasick automaton that is walked byte by byte and knows how far each state is into a pattern.
#[derive(Clone)]
pub(crate) struct Matcher {
    tables: Arc<Tables>,
}

struct Tables {
    nfa: NFA,
    start: State,
    /// Length of the beginning that a state stands for; states that are missing stand for none.
    depth: HashMap<State, usize>,
}

impl Matcher {
    /// None when there are no patterns.
    #[expect(clippy::expect_used, reason = "fails only beyond 2^31 states, which no memory holds")]
    pub(crate) fn new(patterns: Vec<Vec<u8>>) -> Option<Self> {
        if patterns.is_empty() {
            return None;
        }
        let nfa = NFA::builder()
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .build(&patterns)
            .expect("the automaton has fewer than 2^31 states");
        let start = nfa.start_state(Anchored::No).expect("unanchored search is always built");
        let mut depth = HashMap::new();
        for pattern in &patterns {
            let mut state = start;
            for (index, byte) in pattern.iter().enumerate() {
                // The text read so far is a beginning of this pattern, and no longer one can end here.
                state = nfa.next_state(Anchored::No, state, *byte);
                depth.insert(state, index + 1);
            }
        }
        Some(Self { tables: Arc::new(Tables { nfa, start, depth }) })
    }

    pub(crate) fn start(&self) -> State {
        self.tables.start
    }

    pub(crate) fn step(&self, state: State, byte: u8) -> State {
        self.tables.nfa.next_state(Anchored::No, state, byte)
    }

    /// How many of the bytes read last may belong to a match that is not complete.
    pub(crate) fn depth(&self, state: State) -> usize {
        self.tables.depth.get(&state).copied().unwrap_or(0)
    }

    /// The length of the longest pattern that ends here.
    pub(crate) fn longest_match(&self, state: State) -> Option<usize> {
        let nfa = &self.tables.nfa;
        if !nfa.is_match(state) {
            return None;
        }
        (0..nfa.match_len(state)).map(|index| nfa.pattern_len(nfa.match_pattern(state, index))).max()
    }
}
