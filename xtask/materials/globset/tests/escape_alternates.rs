//! `escape` must turn every character into one that matches only itself. Braces open an alternate group, so a name that
//! holds them has to come back as a pattern for that very name.

use globset::{Glob, escape};

fn matches_itself(name: &str) -> bool {
    Glob::new(&escape(name)).is_ok_and(|glob| glob.compile_matcher().is_match(name))
}

#[test]
fn plain_names_match_themselves() {
    for name in ["notes.txt", "what?", "[draft]", "a*b", "100%"] {
        assert!(matches_itself(name), "{name} escaped to {}", escape(name));
    }
}

#[test]
fn names_with_braces_match_themselves() {
    for name in ["{a,b}", "report-{final}.txt", "{", "}", "a{b}c{d}"] {
        assert!(matches_itself(name), "{name} escaped to {}", escape(name));
    }
}
