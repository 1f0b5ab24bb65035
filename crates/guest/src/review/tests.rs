use countersign_tree::{Entry, TreePath};

use super::*;
use crate::protocol::SignalKind;
use crate::segment::SegmentWriter;

/// A change of one path; None: not there.
type Row<'a> = (&'a str, Option<&'a [u8]>, Option<&'a [u8]>);

fn with<T>(rows: &[Row<'_>], look: impl FnOnce(&[PatchChange], &[Located], &[File]) -> T) -> T {
    let file = tempfile::tempfile().unwrap();
    let mut writer = SegmentWriter::new(&file);
    let changes: Vec<PatchChange> = rows
        .iter()
        .map(|(path, before, after)| {
            let path = TreePath::new(*path).unwrap();
            let mut entry = |content: &Option<&[u8]>| {
                content.map(|content| {
                    let digest = Digest::of(content);
                    writer.append(digest, content).unwrap();
                    Entry { path: path.clone(), mode: EntryMode::File, size: content.len() as u64, digest }
                })
            };
            let (before, after) = (entry(before), entry(after));
            PatchChange { path, before, after }
        })
        .collect();
    let located = writer.finish().unwrap();
    look(&changes, &located, &[file])
}

fn shown(rows: &[Row<'_>]) -> Material {
    with(rows, |changes, located, files| match material(changes, located, files).unwrap() {
        Reply::Material(material) => material,
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_change_is_shown_as_a_diff_and_each_file_as_it_is_after_it() {
    let material = shown(&[
        ("a.txt", Some(b"one\ntwo\n"), Some(b"one\nthree\n")),
        ("bin", None, Some(b"a\0b")),
        ("gone", Some(b"x\n"), None),
    ]);
    for wanted in ["-two\n+three\n", "--- a/a.txt", "Binary files", "deleted file"] {
        assert!(material.diff.contains(wanted), "{wanted}: {}", material.diff);
    }
    let files: Vec<(String, &str, bool)> =
        material.files.iter().map(|file| (file.path.to_string(), file.text.as_str(), file.binary)).collect();
    assert_eq!(files, [("a.txt".to_owned(), "one\nthree\n", false), ("bin".to_owned(), "", true)]);
    assert!(!material.diff_cut && material.left_out == 0);
}

#[test]
fn what_is_too_much_is_cut_and_said() {
    let large = "a line of text\n".repeat(20_000);
    let names: Vec<String> = (0..50).map(|n| format!("f{n:02}")).collect();
    let mut rows: Vec<Row<'_>> =
        names.iter().map(|name| (name.as_str(), None, Some(b"x\n".as_slice()))).collect();
    rows[0].2 = Some(large.as_bytes());
    let material = shown(&rows);
    assert!(material.diff_cut && material.diff.len() <= MAX_DIFF + 3);
    assert!(material.files[0].cut && material.files[0].text.len() == MAX_FILE);
    assert_eq!((material.files.len(), material.left_out), (MAX_FILES, 10));
    let all =
        shown(&names.iter().map(|name| (name.as_str(), None, Some(large.as_bytes()))).collect::<Vec<_>>());
    assert!(all.files.iter().map(|file| file.text.len()).sum::<usize>() <= MAX_ALL);
}

#[test]
fn skips_that_are_added_and_assertions_that_are_gone_are_told() {
    let material = shown(&[
        (
            "t.py",
            Some(b"def t():\n    assert f() == 1\n    g()\n"),
            Some(b"def t():\n    g()\n    pytest.skip('x')\n"),
        ),
        ("same.py", Some(b"assert a\n@pytest.mark.skip\n"), Some(b"@pytest.mark.skip\nassert a\n")),
    ]);
    let told: Vec<(SignalKind, String, u64)> =
        material.signals.iter().map(|s| (s.kind, s.path.to_string(), s.line)).collect();
    assert_eq!(
        told,
        [(SignalKind::AddedSkip, "t.py".to_owned(), 3), (SignalKind::RemovedAssertion, "t.py".to_owned(), 2)],
        "a line that only moved is neither"
    );
}

#[test]
fn a_quote_is_found_byte_for_byte_or_not_at_all() {
    let content: &[u8] = b"if x:\r\n    return \xff1\n";
    let quotes = ["if x:", "if x:\n", "return", "If x", "", "if x:\r\n    return"]
        .map(|text| Quote { content: Digest::of(content), text: text.to_owned() });
    let found = with(&[("a", None, Some(content))], |_, located, files| {
        match find_quotes(&quotes, located, files).unwrap() {
            Reply::Quotes { found } => found,
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(found, [true, false, true, false, false, true]);
}
