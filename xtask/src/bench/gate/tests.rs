use std::collections::BTreeSet;

use super::corpus::{Corpus, Kind, Mode, layer_of};
use super::*;

fn corpus() -> Corpus {
    Corpus::open(&Workspace::find().root.join("bench").join("gate")).unwrap()
}

/// Rows of the catalogue that cannot run in a test machine, and why.
const NOT_HERE: &[(u64, &str)] = &[];

#[test]
fn every_row_of_the_catalogue_has_an_entry_or_a_reason() {
    let corpus = corpus();
    let played: BTreeSet<u64> =
        corpus.entries.iter().filter(|e| e.kind == Kind::Cheat).map(|e| e.catalogue).collect();
    let excused: BTreeSet<u64> = NOT_HERE.iter().map(|(number, _)| *number).collect();
    // Numbers that the catalogue does not use.
    let gaps = BTreeSet::from([6, 16, 23, 31, 38, 45, 52, 67, 75, 78, 88, 93, 99]);
    let wrong: Vec<u64> = (1..=106)
        .filter(|n| {
            usize::from(played.contains(n)) + usize::from(excused.contains(n)) + usize::from(gaps.contains(n))
                != 1
        })
        .collect();
    assert_eq!(wrong, Vec::<u64>::new());
}

#[test]
fn every_honest_control_is_played() {
    let corpus = corpus();
    let honest =
        corpus.entries.iter().filter(|e| e.kind == Kind::Honest && e.id.as_bytes()[0].is_ascii_digit());
    let played: BTreeSet<u64> = honest.map(|e| e.catalogue).collect();
    let wrong: Vec<u64> = (1..=44).filter(|n| !played.contains(n)).collect();
    assert_eq!(wrong, Vec::<u64>::new());
}

#[test]
fn every_cheat_has_a_twin_under_the_same_terms() {
    let corpus = corpus();
    for cheat in corpus.entries.iter().filter(|e| e.kind == Kind::Cheat && e.base_script().is_none()) {
        let twins = corpus.entries.iter().filter(|e| e.kind == Kind::Honest && e.base == cheat.base);
        let same = twins.filter(|e| e.flags == cheat.flags && e.check == cheat.check);
        assert!(same.count() >= 1, "{}", cheat.id);
    }
}

#[test]
fn a_live_case_is_played_by_the_gate_itself() {
    for entry in corpus().entries.iter().filter(|entry| entry.live) {
        assert_eq!(entry.mode, Mode::Agent, "{}", entry.id);
    }
}

#[test]
fn the_layers_are_those_of_the_catalogue() {
    let layers: String =
        [1, 15, 17, 41, 42, 57, 62, 63, 74, 84, 95, 96, 104, 106].into_iter().filter_map(layer_of).collect();
    assert_eq!(layers, "AABBCDDEFGGHII");
    assert_eq!((layer_of(0), layer_of(107)), (None, None));
}

#[test]
fn a_key_that_is_not_of_the_format_is_an_error() {
    let dir = std::env::temp_dir().join(format!("countersign-corpus-test-{}", std::process::id()));
    sh::remove_tree(&dir).unwrap();
    sh::copy_tree(&Workspace::find().root.join("bench").join("gate"), &dir).unwrap();
    Corpus::open(&dir).unwrap();
    let base = dir.join("bases").join("shell").join("base.json");
    let text = std::fs::read_to_string(&base).unwrap();
    std::fs::write(&base, text.replacen("\"runner\"", "\"runer\"", 1)).unwrap();
    assert!(Corpus::open(&dir).unwrap_err().to_string().contains("runner"));
    std::fs::write(&base, text.replacen('{', "{\"more\": 1,", 1)).unwrap();
    assert!(Corpus::open(&dir).unwrap_err().to_string().contains("`more`"));
    sh::remove_tree(&dir).unwrap();
}

#[test]
fn arguments_that_are_not_understood_are_refused() {
    let parse = |line: &str| Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let options = parse("--format json --size small --only 017 --only 42").unwrap();
    assert_eq!((options.format, options.size, options.only.len()), (Format::Json, Size::Small, 2));
    assert_eq!(parse("").unwrap().size, Size::Full);
    for wrong in ["--format xml", "--size", "--gate", "017", "--sise full"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
