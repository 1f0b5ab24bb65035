//! `docs/fence.md` says every rule as the code has it.

use std::collections::BTreeSet;

use countersign_gates::rules::catalogue;

const HEAD: &str = "| rule | what it protects | allowed by |\n|---|---|---|\n";

#[test]
fn the_table_in_the_docs_is_the_one_in_the_code() {
    let mut table = HEAD.to_owned();
    for row in catalogue() {
        let allow = if row.can_be_allowed {
            format!("`--allow {}`", row.name)
        } else {
            "leaving out `--protect`".to_owned()
        };
        table.push_str(&format!("| `{}` | {} | {allow} |\n", row.name, row.protects));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fence.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once(HEAD).expect("docs/fence.md has the table");
    let rows: String =
        rest.lines().take_while(|line| line.starts_with('|')).map(|line| format!("{line}\n")).collect();
    assert_eq!(format!("{HEAD}{rows}"), table, "write this table into docs/fence.md");
}

#[test]
fn names_are_unique_and_fit_the_flag() {
    let names: Vec<&str> = catalogue().iter().map(|row| row.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    let fits = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b"._".contains(&b));
    assert!(names.iter().all(fits), "{names:?}");
}
