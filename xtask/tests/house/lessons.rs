//! `docs/lessons.md`: every lesson is held by a test that exists, or it is said why it cannot happen here or what is open.

use crate::support::{files_ending, quoted, read, table};

/// Lessons of each list, from 1.
const LESSONS: [(&str, usize); 2] = [("H", 50), ("C", 53)];

const NOT_OURS: &str = "not ours, because ";

/// Applies here, and no test shows all of it.
const OPEN: &str = "open: ";

/// How many are. Fewer is better; one more has to be noticed.
const OPEN_ROWS: usize = 11;

/// What is wrong with a row's last cell.
fn wrong(cell: &str, has_test: impl Fn(&str, &str) -> bool) -> Option<String> {
    if let Some(why) = cell.strip_prefix(NOT_OURS) {
        return (why.len() < 20 || !quoted(why).is_empty()).then(|| format!("no reason: {cell}"));
    }
    if let Some(what) = cell.strip_prefix(OPEN) {
        if what.trim().len() < 20 {
            return Some(format!("nothing is said to be missing: {cell}"));
        }
        // What a test shows already may be named.
        let named = quoted(what).into_iter().filter_map(|test| Some((test, test.split_once("::")?)));
        let gone =
            named.filter(|(_, (file, function))| !has_test(file, function)).map(|(test, _)| test).next();
        return gone.map(|test| format!("no such test: {test}"));
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
        // A case of a suite, which its macro makes tests of.
        if line == format!("{function}(cell) {{") {
            return true;
        }
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
    let wanted: Vec<String> = LESSONS
        .iter()
        .flat_map(|(list, count)| (1..=*count).map(move |number| format!("{list}{number}")))
        .collect();
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
    let open: Vec<&str> = rows.iter().filter(|row| row[2].starts_with(OPEN)).map(|row| row[0]).collect();
    assert_eq!(open.len(), OPEN_ROWS, "open: {open:?}");
}

#[test]
fn a_missing_test_and_an_empty_reason_are_found() {
    let one = |file: &str, function: &str| (file, function) == ("a.rs", "held");
    assert_eq!(wrong("`a.rs::held`", one), None);
    assert_eq!(wrong("not ours, because nothing here does such a thing", one), None);
    assert_eq!(wrong("open: `gc` is held (`a.rs::held`), and no test does the rest", one), None);
    for bad in [
        "",
        "held",
        "`held`",
        "`a.rs::gone`",
        "`b.rs::held`",
        "`a.rs::held` `a.rs::gone`",
        "not ours, because no",
        "open: ",
        "open: no",
        "open:",
        "open: some of it is shown (`a.rs::gone`) and the rest is not",
    ] {
        assert!(wrong(bad, one).is_some(), "{bad}");
    }
    let text = "#[test]\nfn held() {}\n\nfn helper() {}\n\n#[tokio::test]\n#[ignore]\nasync fn later() {}\n\
        every_tier! {\n    case(cell) {\n";
    assert!(holds_test(text, "held") && holds_test(text, "later") && holds_test(text, "case"));
    assert!(!holds_test(text, "helper") && !holds_test(text, "hel"));
}
