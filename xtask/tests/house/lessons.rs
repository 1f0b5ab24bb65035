//! `docs/lessons.md`: every lesson is held by a test that exists, or it is said why it cannot happen here.

use crate::support::{files_ending, quoted, read, table};

/// Lessons of the list, from 1.
const LESSONS: usize = 50;

const NOT_OURS: &str = "not ours, because ";

/// What is wrong with a row's last cell.
fn wrong(cell: &str, has_test: impl Fn(&str, &str) -> bool) -> Option<String> {
    if let Some(why) = cell.strip_prefix(NOT_OURS) {
        return (why.len() < 20 || !quoted(why).is_empty()).then(|| format!("no reason: {cell}"));
    }
    let tests = quoted(cell);
    if tests.is_empty() {
        return Some(format!("neither a test nor a reason: {cell}"));
    }
    tests.into_iter().find_map(|test| match test.split_once("::") {
        Some((file, function)) if has_test(file, function) => None,
        _ => Some(format!("no such test: {test}")),
    })
}

/// Does the file hold a test function of this name? A helper of the same name is none.
fn holds_test(text: &str, function: &str) -> bool {
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if line.contains("fn ") {
            let named =
                line.split("fn ").nth(1).is_some_and(|rest| rest.starts_with(&format!("{function}(")));
            if marked && named {
                return true;
            }
            marked = false;
        }
    }
    false
}

#[test]
fn every_lesson_names_a_test_that_exists_or_says_why_not() {
    let document = read("docs/lessons.md");
    let rows = table(&document, "lesson");
    let numbers: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let wanted: Vec<String> = (1..=LESSONS).map(|number| format!("H{number}")).collect();
    assert_eq!(numbers, wanted, "each lesson once, in order");
    let files = files_ending(".rs");
    let has_test = |file: &str, function: &str| {
        files.iter().any(|name| name == file) && holds_test(&read(file), function)
    };
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let cell = row.get(2).copied().unwrap_or_default();
            let said = row.get(1).is_some_and(|said| said.len() > 15);
            if said { wrong(cell, has_test) } else { Some("no words".to_owned()) }
                .map(|why| format!("{}: {why}", row[0]))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_missing_test_and_an_empty_reason_are_found() {
    let one = |file: &str, function: &str| (file, function) == ("a.rs", "held");
    assert_eq!(wrong("`a.rs::held`", one), None);
    assert_eq!(wrong("not ours, because nothing here does such a thing", one), None);
    for bad in [
        "",
        "held",
        "`held`",
        "`a.rs::gone`",
        "`b.rs::held`",
        "`a.rs::held` `a.rs::gone`",
        "not ours, because no",
    ] {
        assert!(wrong(bad, one).is_some(), "{bad}");
    }
    let text = "#[test]\nfn held() {}\n\nfn helper() {}\n\n#[tokio::test]\n#[ignore]\nasync fn later() {}\n";
    assert!(holds_test(text, "held") && holds_test(text, "later"));
    assert!(!holds_test(text, "helper") && !holds_test(text, "hel"));
}
