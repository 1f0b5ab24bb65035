//! The file tools as a model calls them.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use common::{Host, chmod, write};
use countersign_guest::protocol::{
    AllowedRule, BaseFile, FenceKind, FenceKindGuard, GuardRule, Reply, Request, ToolBounds, ToolCall,
    WriteGuard,
};
use proptest::prelude::*;

fn list(path: Option<&str>, depth: Option<u32>) -> ToolCall {
    ToolCall::ListFiles { path: path.map(Into::into), depth }
}

fn read(path: &str, from: Option<u64>, to: Option<u64>) -> ToolCall {
    ToolCall::ReadFile { path: path.into(), from, to }
}

fn search(pattern: &str, path: Option<&str>, glob: Option<&str>) -> ToolCall {
    ToolCall::Search { pattern: pattern.into(), path: path.map(Into::into), glob: glob.map(Into::into) }
}

fn edit(path: &str, old: &str, new: &str, count: Option<u32>) -> ToolCall {
    ToolCall::EditFile { path: path.into(), old: old.into(), new: new.into(), count }
}

fn write_file(path: &str, content: &str) -> ToolCall {
    ToolCall::WriteFile { path: path.into(), content: content.into() }
}

fn host(files: &[(&str, &str)]) -> Host {
    let host = Host::new();
    for (path, text) in files {
        write(&host.workspace, path, text);
    }
    host
}

#[test]
fn a_listing_is_sorted_bounded_and_marks_scratch() {
    let mut h = host(&[
        ("b.txt", "12"),
        ("a/deep/er/f", "1"),
        ("a/z", "1"),
        ("target/debug/x", "1"),
        (".git/HEAD", "x"),
    ]);
    symlink("b.txt", h.workspace.join("link")).unwrap();
    let text = h.ok(list(None, None));
    assert_eq!(text, "a/\n  deep/\n  z (1 B)\ntarget/ (scratch, not listed)\nb.txt (2 B)\nlink -> b.txt\n");
    assert_eq!(h.ok(list(Some("/workspace/a"), Some(3))), "deep/\n  er/\n    f (1 B)\nz (1 B)\n");
    for n in 0..500 {
        write(&h.workspace, &format!("many/{n:03}"), "");
    }
    let text = h.ok(list(Some("many"), None));
    assert!(text.contains("399 (0 B)") && !text.contains("\n400") && text.contains("left out"), "{text}");
    assert!(h.err(list(Some("b.txt"), None)).contains("`read_file`"));
    assert!(h.err(list(Some("nope"), None)).contains("does not exist"));
    assert!(h.err(list(None, Some(0))).contains("depth"));
}

#[test]
fn lines_are_numbered_and_ranges_are_inclusive() {
    let lines: String = (1..=1000).map(|n| format!("line {n}\n")).collect();
    let mut h = host(&[("f", &lines), ("empty", ""), ("bom", "\u{feff}a\r\nb"), ("tab", "\tx\n")]);
    let text = h.ok(read("f", Some(12), Some(13)));
    assert!(text.starts_with("   12| line 12\n   13| line 13\n"), "{text}");
    let text = h.ok(read("f", None, None));
    assert!(text.ends_with("[lines 1-400 of 1000 are shown; go on with from: 401, to: 800]\n"), "{text}");
    assert!(h.ok(read("f", Some(990), None)).ends_with(" 1000| line 1000\n"));
    assert!(h.err(read("f", Some(1001), None)).contains("only 1000 lines"));
    assert!(h.err(read("f", Some(0), None)).contains("counted from 1"));
    assert!(h.err(read("f", Some(5), Some(4))).contains("before"));
    assert!(h.ok(read("empty", None, None)).contains("is empty"));
    let text = h.ok(read("bom", None, None));
    assert_eq!(
        text,
        "    1| a\n    2| b\n[the file starts with a UTF-8 byte order mark]\n[lines end with CRLF]\n\
         [no newline at the end of the file]\n"
    );
    assert_eq!(h.ok(read("tab", None, None)), "    1| \tx\n");
}

#[test]
fn bytes_that_are_no_text_are_told_not_sent() {
    let mut h = host(&[]);
    write(&h.workspace, "bin", [0_u8, 1, 2]);
    write(&h.workspace, "latin", b"caf\xe9\n");
    write(&h.workspace, "long", "x".repeat(100_000));
    assert!(h.ok(read("bin", None, None)).contains("binary"));
    assert!(h.ok(read("latin", None, None)).starts_with("    1| caf\\xe9\n[bytes that are not UTF-8"));
    let text = h.ok(read("long", None, None));
    assert!(text.len() < 3000 && text.contains("100000 bytes"), "{}", text.len());
    assert!(std::process::Command::new("mkfifo").arg(h.workspace.join("p")).status().unwrap().success());
    assert!(h.err(read("p", None, None)).contains("FIFO"));
    assert!(h.err(read(".", None, None)).contains("directory"));
}

#[test]
fn nothing_leads_out_of_the_workspace() {
    let mut h = host(&[("in/f", "inside\n"), (".git/config", "x")]);
    let outside = h.dir.path().join("secret");
    fs::write(&outside, "secret").unwrap();
    let ws = h.workspace.clone();
    symlink("in", ws.join("dirlink")).unwrap();
    symlink("../secret", ws.join("up")).unwrap();
    symlink(&outside, ws.join("absolute")).unwrap();
    symlink("gone", ws.join("dangling")).unwrap();
    symlink("loop", ws.join("loop")).unwrap();
    symlink("../f", ws.join("in/ok")).unwrap();
    symlink("/proc/self/root", ws.join("magic")).unwrap();
    write(&ws, "f", "top\n");
    let secret = outside.to_str().unwrap();
    for bad in
        ["../secret", "/etc/passwd", "in/../../secret", "up", "absolute", "loop", "magic/etc/passwd", secret]
    {
        for call in [read(bad, None, None), edit(bad, "s", "x", None), write_file(bad, "x")] {
            let text = h.err(call);
            assert!(!text.is_empty(), "{bad}");
        }
    }
    for git in [".git/config", "in/../.git/config", ".GIT/x"] {
        assert!(h.err(read(git, None, None)).contains(".git"), "{git}");
        assert!(h.err(write_file(git, "x")).contains(".git"), "{git}");
    }
    assert!(h.err(write_file("dangling", "x")).contains("does not exist"));
    assert!(!ws.join("gone").exists());
    // A link within the tree is read and edited through.
    assert!(h.ok(read("dirlink/f", None, None)).contains("inside"));
    assert!(h.ok(read("in/ok", None, None)).contains("top"));
    h.ok(edit("in/ok", "top", "bottom", None));
    assert_eq!(fs::read(ws.join("f")).unwrap(), b"bottom\n");
    assert!(fs::symlink_metadata(ws.join("in/ok")).unwrap().is_symlink());
    assert_eq!(fs::read(&outside).unwrap(), b"secret");
}

/// One thread exchanges a directory with a link out of the tree while the tools use a path through it.
#[test]
fn a_link_that_is_swapped_in_cannot_win() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    const CALLS: usize = 1500;
    let mut h = host(&[("d/f", "inside"), ("spare/f", "inside")]);
    let outside = h.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f"), "secret").unwrap();
    let (dir, link) = (h.workspace.join("d"), h.workspace.join("l"));
    symlink(&outside, &link).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for n in 0..CALLS {
            assert!(!h.tool(read("d/f", None, None)).text.contains("secret"));
            h.tool(write_file("d/f", &format!("inside {n}")));
            h.tool(edit("d/f", "inside", "still inside", None));
            h.tool(write_file(&format!("d/new{n}"), "x"));
            assert!(!h.tool(search("secret|inside", Some("d"), None)).text.contains(": secret"));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(fs::read(outside.join("f")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "a file was made outside");
}

#[test]
fn search_is_smart_about_case_and_skips_what_is_no_source() {
    let mut h = host(&[
        ("a.rs", "fn Main() {}\nfn main() {}\n"),
        ("d/b.py", "main = 1\r\n"),
        ("target/x.rs", "main"),
        (".git/x", "main"),
    ]);
    write(&h.workspace, "bin", b"main\0");
    let text = h.ok(search("main", None, None));
    assert_eq!(
        text,
        "a.rs:1: fn Main() {}\na.rs:2: fn main() {}\nd/b.py:1: main = 1\n[1 binary or large files were not searched]\n"
    );
    assert!(h.ok(search("Main", None, None)).starts_with("a.rs:1: fn Main() {}\n["));
    assert_eq!(h.ok(search("main", None, Some("*.py"))), "d/b.py:1: main = 1\n");
    assert_eq!(h.ok(search("main", None, Some("d/**"))), "d/b.py:1: main = 1\n");
    assert_eq!(h.ok(search("^main.*1$", Some("d"), None)), "d/b.py:1: main = 1\n");
    assert_eq!(h.ok(search("main", Some("a.rs"), None)).lines().count(), 2);
    assert!(h.ok(search("absent", None, None)).starts_with("no match"));
    assert!(h.err(search("(", None, None)).contains("backslash"));
    assert!(h.err(search("", None, None)).contains("empty"));
    assert!(h.err(search("x", None, Some("/abs"))).contains("/abs"));
    write(&h.workspace, "many", "hit\n".repeat(1000));
    let text = h.ok(search("hit", None, None));
    assert!(text.lines().count() == 202 && text.contains("more matches"), "{}", text.lines().count());
    // A pattern that matches nothing at all places ends too.
    h.ok(search("x*", Some("a.rs"), None));
}

#[test]
fn an_edit_says_why_it_was_not_made() {
    let mut h = host(&[("f", "a\nb\na\n  c\n")]);
    let text = h.err(edit("f", "a", "x", None));
    assert!(text.contains("2 times") && text.contains("lines 1, 3") && text.contains("count: 2"), "{text}");
    let text = h.err(edit("f", "b", "x", Some(2)));
    assert!(text.contains("occurs once") && text.contains("line 2"), "{text}");
    assert!(h.err(edit("f", "zz", "x", None)).contains("does not occur"));
    let text = h.err(edit("f", "c\nb", "x", None));
    assert!(text.contains("line 4") && text.contains("white space"), "{text}");
    assert!(h.err(edit("f", "a", "a", None)).contains("nothing would change"));
    assert!(h.err(edit("f", "", "a", None)).contains("`write_file`"));
    assert!(h.err(edit("gone", "a", "b", None)).contains("does not exist"));
    assert!(h.err(edit("f", "a", "b", Some(0))).contains("count"));
    assert_eq!(fs::read(h.workspace.join("f")).unwrap(), b"a\nb\na\n  c\n");
    h.ok(edit("f", "a", "x", Some(2)));
    assert_eq!(fs::read(h.workspace.join("f")).unwrap(), b"x\nb\nx\n  c\n");
    // Nothing is left beside it.
    assert_eq!(fs::read_dir(&h.workspace).unwrap().count(), 1);
}

#[test]
fn writing_makes_directories_and_keeps_modes() {
    let mut h = host(&[("run.sh", "old\n"), ("dir/x", "1")]);
    chmod(&h.workspace, "run.sh", 0o755);
    let mode = |h: &Host, p: &str| fs::metadata(h.workspace.join(p)).unwrap().permissions().mode() & 0o777;
    h.ok(edit("run.sh", "old", "new", None));
    assert_eq!(mode(&h, "run.sh"), 0o755);
    h.ok(write_file("run.sh", "whole\n"));
    assert_eq!(mode(&h, "run.sh"), 0o755);
    assert!(h.ok(write_file("a/b/c.txt", "x\r\n")).contains("made"));
    assert_eq!(fs::read(h.workspace.join("a/b/c.txt")).unwrap(), b"x\r\n");
    assert_eq!(mode(&h, "a/b/c.txt"), 0o644);
    let reply = h.tool(write_file("a/b/c.txt", "x\r\n"));
    assert!(reply.ok && !reply.wrote);
    assert!(h.err(write_file("dir", "x")).contains("directory"));
    assert!(h.err(write_file("dir/", "x")).contains("directory"));
    assert!(h.err(write_file("run.sh/below", "x")).contains("nothing lies below"));
    assert!(h.err(write_file("", "x")).contains("directory"));
    assert!(h.err(write_file("big", &"x".repeat((1 << 20) + 1))).contains("in parts"));
}

#[test]
fn the_guard_refuses_free_of_charge_and_says_what_is_allowed() {
    let mut h = host(&[("src/a.rs", "fn a() {}\n"), ("tests/t.rs", "x"), ("docs/d", "x")]);
    symlink("../tests/t.rs", h.workspace.join("src/link.rs")).unwrap();
    let guard =
        WriteGuard { scope: vec!["src/**".into()], protect: vec![tests_rule()], ..WriteGuard::default() };
    for call in [
        write_file("tests/new.rs", "x"),
        edit("tests/t.rs", "x", "y", None),
        edit("src/link.rs", "x", "y", None),
        write_file("src/link.rs", "y"),
        edit("docs/d", "x", "y", None),
        write_file("src/../docs/n", "x"),
    ] {
        let reply = h.tool_guarded(call.clone(), guard.clone());
        assert!(reply.refused && !reply.ok && !reply.wrote, "{call:?}: {}", reply.text);
        assert!(reply.text.contains("`src/**`"), "{}", reply.text);
    }
    assert!(h.tool_guarded(edit("src/a.rs", "a", "b", None), guard.clone()).ok);
    let open = WriteGuard { scope: Vec::new(), ..guard };
    assert!(h.tool_guarded(edit("docs/d", "x", "y", None), open.clone()).ok);
    assert!(
        h.tool_guarded(write_file("tests/new.rs", "x"), open).text.contains("tests.existing (it is a test)")
    );
    assert_eq!(fs::read(h.workspace.join("tests/t.rs")).unwrap(), b"x");
}

fn tests_rule() -> GuardRule {
    let globs = vec!["**/tests/**".to_owned()];
    GuardRule { rule: "tests.existing".into(), why: "it is a test".into(), globs }
}

#[test]
fn an_allowance_opens_one_rule_where_it_says_and_no_spelling_gets_round_another() {
    let mut h = host(&[("tests/a.rs", "x"), ("tests/b.rs", "x"), ("src/lib.rs", LIB)]);
    let allow = |rule: &str, glob: &str| AllowedRule { rule: rule.into(), glob: Some(glob.into()) };
    let rust = FenceKindGuard { glob: "**/*.rs".into(), kind: FenceKind::RustItems, words: Vec::new() };
    let guard = WriteGuard {
        protect: vec![tests_rule()],
        fence: vec![rust],
        allow: vec![allow("tests.existing", "tests/a.rs"), allow("rust.test_item_changed", "src/**")],
        ..WriteGuard::default()
    };
    for (call, refused) in [
        (edit("tests/a.rs", "x", "y", None), false),
        (edit("tests/b.rs", "x", "y", None), true),
        (edit("src/lib.rs", "two(), 2", "two(), 3", None), false),
        (write_file("Tests/c.rs", "x"), true),
        (write_file("te\u{200d}sts/c.rs", "x"), true),
        (write_file("tests./c.rs", "x"), true),
        (write_file("testing/c.rs", "x"), false),
    ] {
        let reply = h.tool_guarded(call.clone(), guard.clone());
        assert_eq!((reply.refused, reply.wrote), (refused, !refused), "{call:?}: {}", reply.text);
    }
}

/// Product code and an inline test, as the base has them.
const LIB: &str = "pub fn two() -> u32 {\n    2\n}\n\n#[test]\nfn old() {\n    assert_eq!(two(), 2);\n}\n";
const OWN: &str = "\n#[test]\nfn own() {\n    assert_eq!(two(), 3);\n}\n";

fn rust_guard() -> WriteGuard {
    let rust = FenceKindGuard { glob: "**/*.rs".into(), kind: FenceKind::RustItems, words: Vec::new() };
    WriteGuard { fence: vec![rust], ..WriteGuard::default() }
}

#[test]
fn a_test_that_the_agent_added_is_its_own_and_one_of_the_base_is_not() {
    let grown = format!("{LIB}{OWN}");
    let mut h = host(&[("src/lib.rs", &grown), ("src/new.rs", OWN)]);
    symlink("lib.rs", h.workspace.join("src/link.rs")).unwrap();
    let base = Some(LIB.as_bytes());
    let mut call = |call, path, content| h.tool_with_base(call, rust_guard(), path, content);
    let own = || edit("src/lib.rs", "two(), 3", "two(), 2", None);

    // What is not known of the base is held against the disk.
    assert!(call(own(), None, None).refused);
    assert!(call(own(), Some("src/other.rs"), None).refused, "another file says nothing about this one");
    let through = call(edit("src/link.rs", "two(), 3", "two(), 2", None), Some("src/link.rs"), None);
    assert!(
        through.refused && through.text.contains("name the file without a link: `src/lib.rs`"),
        "{through:?}"
    );

    // The base's test stays, whatever else the edit does.
    for bad in [
        edit("src/lib.rs", "two(), 2", "two(), 9", None),
        edit("./src/../src/lib.rs", "fn old", "fn older", None),
        edit("src/link.rs", "two(), 2", "two(), 9", None),
        write_file("src/lib.rs", OWN),
        write_file("src/lib.rs", ""),
    ] {
        let reply = call(bad.clone(), Some("src/lib.rs"), base);
        assert!(reply.refused && !reply.wrote, "{bad:?}: {}", reply.text);
        assert!(reply.text.contains("rust.test_item_changed (old)"), "{}", reply.text);
    }

    // Its own is corrected, renamed and removed; in a file that the base lacks too.
    for good in [own(), edit("src/lib.rs", "fn own", "fn mine", None), write_file("src/lib.rs", LIB)] {
        let reply = call(good.clone(), Some("src/lib.rs"), base);
        assert!(reply.ok, "{good:?}: {}", reply.text);
    }
    assert!(call(edit("src/new.rs", "two(), 3", "two(), 2", None), Some("src/new.rs"), None).ok);
}

#[test]
fn a_base_test_that_a_command_changed_can_be_put_back_and_not_changed_further() {
    let spoilt = LIB.replace("two(), 2", "two(), 9");
    let mut h = host(&[("src/lib.rs", &spoilt)]);
    let base = Some(LIB.as_bytes());
    let mut call = |call| h.tool_with_base(call, rust_guard(), Some("src/lib.rs"), base);
    assert!(call(edit("src/lib.rs", "two(), 9", "two(), 8", None)).refused);
    assert!(call(edit("src/lib.rs", "    2\n", "    1 + 1\n", None)).ok, "the rest of the file is free");
    assert!(call(edit("src/lib.rs", "two(), 9", "two(), 2", None)).ok);
    // A file of the base that was removed is no way around it.
    fs::remove_file(h.workspace.join("src/lib.rs")).unwrap();
    let mut call = |call| h.tool_with_base(call, rust_guard(), Some("src/lib.rs"), base);
    assert!(call(write_file("src/lib.rs", &spoilt)).refused);
    assert!(call(write_file("src/lib.rs", LIB)).ok);
}

#[test]
fn a_base_content_that_was_not_passed_is_no_empty_one() {
    let mut h = host(&[("src/lib.rs", LIB)]);
    let path = countersign_tree::TreePath::new(b"src/lib.rs".as_slice()).unwrap();
    let base = BaseFile { path, content: Some(countersign_types::Digest::of(b"elsewhere")) };
    let call = edit("src/lib.rs", "two(), 2", "two(), 9", None);
    let request = Request::Tool {
        call,
        bounds: ToolBounds::DEFAULT,
        guard: rust_guard(),
        base: Some(base),
        located: Vec::new(),
    };
    assert!(matches!(h.guest.answer(request, &[]), Reply::Error(_)));
    assert_eq!(fs::read(h.workspace.join("src/lib.rs")).unwrap(), LIB.as_bytes());
}

#[derive(Clone, Debug)]
struct Case {
    head: Vec<u8>,
    old: Vec<String>,
    new: Vec<String>,
    tail: Vec<u8>,
    crlf: bool,
}

fn any_case() -> impl Strategy<Value = Case> {
    let noise = proptest::sample::select(vec![
        &b"line\n"[..],
        b"crlf\r\n",
        b"\xff\xfe",
        b"\r",
        b"\xef\xbb\xbf",
        b"last",
        b"\0",
        b"\n",
    ]);
    let noise = proptest::collection::vec(noise, 0..8).prop_map(|parts| parts.concat());
    let lines = |pattern: &'static str| proptest::collection::vec(pattern, 1..4);
    (noise.clone(), lines("OLD[a-c]{0,3}"), lines("NEW[a-c]{0,3}"), noise, any::<bool>())
        .prop_map(|(head, old, new, tail, crlf)| Case { head, old, new, tail, crlf })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_byte_outside_an_edit_is_ever_touched(case in any_case()) {
        let end = if case.crlf { "\r\n" } else { "\n" };
        // The place stands on lines of its own, in a file with anything around it.
        let place = case.old.join(end) + end;
        let before = [&case.head[..], b"\n", place.as_bytes(), &case.tail].concat();
        let mut h = Host::new();
        write(&h.workspace, "f", &before);
        let (old, new) = (case.old.join("\n") + "\n", case.new.join("\n") + "\n");
        h.ok(edit("f", &old, &new, None));
        let after = fs::read(h.workspace.join("f")).unwrap();
        let expected = [&case.head[..], b"\n", (case.new.join(end) + end).as_bytes(), &case.tail].concat();
        prop_assert_eq!(after.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}
