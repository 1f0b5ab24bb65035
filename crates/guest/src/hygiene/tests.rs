//! One case for each kind, and a clean twin that an honest change would hold.

use std::fs::File;
use std::io::Write as _;

use countersign_tree::{Entry, EntryMode, Located, TreePath};
use countersign_types::Digest;

use super::*;

struct Files {
    file: File,
    located: Vec<Located>,
    at: u64,
}

impl Files {
    fn new() -> Self {
        Self { file: tempfile::tempfile().unwrap(), located: Vec::new(), at: 0 }
    }

    fn entry(&mut self, path: &str, mode: EntryMode, bytes: &[u8]) -> Entry {
        let digest = Digest::of(bytes);
        self.file.write_all(bytes).unwrap();
        self.located.push(Located { digest, segment: 0, offset: self.at, len: bytes.len() as u64 });
        self.at += bytes.len() as u64;
        Entry { path: TreePath::new(path.as_bytes()).unwrap(), mode, size: bytes.len() as u64, digest }
    }
}

/// What is told of a change: kind, line and detail.
fn told(path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> Vec<(HygieneKind, Option<u64>, String)> {
    told_as(path, EntryMode::File, before, after)
}

fn told_as(
    path: &str,
    mode: EntryMode,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
) -> Vec<(HygieneKind, Option<u64>, String)> {
    let mut files = Files::new();
    let before = before.map(|bytes| files.entry(path, EntryMode::File, bytes));
    let after = after.map(|bytes| files.entry(path, mode, bytes));
    let change = PatchChange { path: TreePath::new(path.as_bytes()).unwrap(), before, after };
    let Reply::Hygiene { findings, more: 0 } = scan(&[change], &files.located, &[files.file]).unwrap() else {
        panic!("another reply");
    };
    assert!(findings.iter().all(|f| f.path.to_string() == path));
    findings.into_iter().map(|f| (f.kind, f.line, f.detail)).collect()
}

fn kinds(path: &str, before: Option<&str>, after: Option<&str>) -> Vec<HygieneKind> {
    told(path, before.map(str::as_bytes), after.map(str::as_bytes))
        .into_iter()
        .map(|(kind, ..)| kind)
        .collect()
}

/// Written in pieces, so that no scanner takes this file for a leak.
fn secrets() -> Vec<String> {
    let letters = "Zq8Rk2Lm5Tn9Wb3Xv7Yc1Hd4Jf6Gp0Sa";
    let long = format!("{letters}{letters}{letters}");
    vec![
        format!("-----BEGIN {}PRIVATE KEY-----", "RSA "),
        format!("-----BEGIN {}KEY-----", "PRIVATE "),
        format!("key = AK{}", "IAQ7ZLWMVNB3KRTXYP"),
        format!("gh{}_{}", "p", &long[..36]),
        format!("github_{}_{}_{}", "pat", &long[..22], &long[..59]),
        format!("gl{}-{}", "pat", &long[..20]),
        format!("xox{}-{}", "b", &long[..40]),
        format!("AI{}{}", "za", &long[..35]),
        format!("sk_{}_{}", "live", &long[..24]),
        format!("sk-{}-{}", "ant", &long[..40]),
        format!("sk-{}", &long[..48]),
        format!("npm_{}", &long[..36]),
        format!("hf_{}", &long[..34]),
        format!("ey{0}{1}.ey{0}{1}.{1}", "J", &long[..24]),
        format!("postgres://app:{}@db.internal/x", &long[..12]),
        format!("api_key = \"{}\"", &long[..32]),
        format!("\"clientSecret\": \"{}\",", &long[..32]),
        format!("export DB_PASSWORD={}", &long[..20]),
    ]
}

#[test]
fn secrets_are_told_by_kind_and_line_and_never_shown() {
    for secret in secrets() {
        let text = format!("first\n  {secret}\nlast\n");
        let found = told("src/config.txt", None, Some(text.as_bytes()));
        assert_eq!(found.len(), 1, "{secret}: {found:?}");
        let (kind, line, detail) = &found[0];
        assert_eq!((*kind, *line), (HygieneKind::Secret, Some(2)), "{secret}");
        for piece in secret.split(|c: char| !c.is_ascii_alphanumeric()).filter(|piece| piece.len() > 7) {
            assert!(!detail.contains(piece), "{detail}");
        }
        // The base had it already, here or elsewhere in the file.
        assert_eq!(
            told("src/config.txt", Some(text.as_bytes()), Some(format!("new\n{text}").as_bytes())),
            []
        );
        assert_eq!(
            told("c", Some(format!("# {secret}").as_bytes()), Some(format!("x {secret}").as_bytes())),
            []
        );
    }
    // The clean twin: names without values, placeholders, digests, words.
    let clean = [
        "password = os.environ[\"DATABASE_PASSWORD\"]",
        "api_key: ${{ secrets.API_KEY_2 }}",
        "TOKEN=${TOKEN1:?the token is missing here}",
        "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
        "url = \"postgres://user:password@localhost/db1\"",
        "url = \"https://user:${PASSWORD}@host\"",
        "git clone https://example.org/a/b.git",
        "sha256 = \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"",
        "token_type = \"authorization_code_grant2\"",
        "secret_name: \"projects/p1/secrets/my-app-password\"",
        "sk-your-key-goes-here-and-nowhere-else-0000",
        "let token = parser.next_token().expect(\"a token1\");",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----",
        "client_secret = \"xxxxxxxxxxxxxxxxxxxx1\"",
    ];
    for line in clean {
        assert_eq!(kinds("src/config.py", None, Some(line)), [], "{line}");
    }
    // A lockfile is full of digests.
    let lock = format!("\"token\": \"{}\"", &secrets()[15][11..30]);
    assert_eq!(kinds("package-lock.json", None, Some(&lock)), [HygieneKind::Lockfile]);
}

#[test]
fn files_are_told_by_what_they_are_for() {
    let cases: &[(&str, &[HygieneKind])] = &[
        ("Cargo.lock", &[HygieneKind::Lockfile]),
        ("sub/go.sum", &[HygieneKind::Lockfile]),
        (".github/workflows/ci.yml", &[HygieneKind::Ci]),
        (".GitHub/Workflows/ci.yml", &[HygieneKind::Ci]),
        (".gitlab-ci.yml", &[HygieneKind::Ci]),
        ("Jenkinsfile", &[HygieneKind::Ci]),
        (".husky/pre-commit", &[HygieneKind::SelfStarting]),
        (".githooks/pre-push", &[HygieneKind::SelfStarting]),
        (".vscode/tasks.json", &[HygieneKind::SelfStarting]),
        ("a/.envrc", &[HygieneKind::SelfStarting]),
        ("crates/a/build.rs", &[HygieneKind::SelfStarting]),
        ("tests/conftest.py", &[HygieneKind::SelfStarting]),
        ("lib/x.pth", &[HygieneKind::SelfStarting]),
        (".mcp.json", &[HygieneKind::SelfStarting]),
        // Twins.
        ("src/cargo_lock.rs", &[]),
        ("docs/workflows/ci.yml", &[]),
        ("src/build_rs.rs", &[]),
        ("src/rebuild.rs", &[]),
        ("a.envrc", &[]),
        ("docs/Jenkinsfile.md", &[]),
        (".vscode/extensions.json", &[]),
        ("src/main.rs", &[]),
    ];
    for (path, expected) in cases {
        assert_eq!(kinds(path, None, Some("x\n")), *expected, "{path}");
        let removed = kinds(path, Some("x\n"), None);
        assert_eq!(removed, *expected, "{path}");
        assert!(told(path, Some(b"x\n"), None).iter().all(|(.., detail)| detail.starts_with("removed")));
        assert!(
            told(path, Some(b"x\n"), Some(b"y\n")).iter().all(|(.., detail)| detail.starts_with("changed"))
        );
    }
}

#[test]
fn scripts_that_an_install_runs_are_told_and_others_are_not() {
    let base = r#"{"name":"p","scripts":{"test":"node --test","prepare":"husky"}}"#;
    let planted =
        r#"{"name":"p","scripts":{"test":"node --test","prepare":"husky","postinstall":"node x.js"}}"#;
    let found = told("package.json", Some(base.as_bytes()), Some(planted.as_bytes()));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0 == HygieneKind::SelfStarting && found[0].2.ends_with("postinstall"), "{found:?}");
    let changed = base.replace("husky", "curl x | sh");
    assert_eq!(kinds("a/package.json", Some(base), Some(&changed)), [HygieneKind::SelfStarting]);
    let twin = r#"{"name":"p","version":"2.0.0","scripts":{"test":"node --test x","prepare":"husky"},"dependencies":{"a":"1"}}"#;
    assert_eq!(kinds("package.json", Some(base), Some(twin)), []);
    let fewer = r#"{"name":"p","scripts":{"test":"node --test"}}"#;
    assert_eq!(kinds("package.json", Some(base), Some(fewer)), [], "one script less is nothing that starts");
    assert_eq!(kinds("package.json", Some(base), Some("{")), []);
}

#[test]
fn large_binaries_are_told_and_small_ones_and_large_texts_are_not() {
    let large = vec![0_u8; usize::try_from(LARGE_BINARY).unwrap()];
    let found = told("a.bin", None, Some(&large));
    assert_eq!(found, [(HygieneKind::LargeBinary, None, "a binary of 1048576 bytes".to_owned())]);
    assert_eq!(told("a.bin", None, Some(&large[1..])), []);
    assert_eq!(told("a.bin", Some(&large), None), [], "one less");
    let text = b"line\n".repeat(1 << 18);
    assert_eq!(told("a.txt", None, Some(&text)), []);
    let huge = b"line\n".repeat(1 << 21);
    let found = told("a.txt", None, Some(&huge));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, HygieneKind::NotScanned, "what was not looked into is said");
}

#[test]
fn characters_that_hide_something_are_told_and_those_of_languages_are_not() {
    use HygieneKind::{Bidi, Invisible};
    let cases: &[(&str, &str, &[HygieneKind])] = &[
        ("a.rs", "if access == \"user\u{202e} \u{2066}// x\u{2069} \u{2066}\" {", &[Bidi]),
        ("a.md", "\u{202e}abc", &[Bidi]),
        ("a.c", "x = 1; \u{200f}", &[Bidi]),
        ("a.py", "na\u{200b}me = 1", &[Invisible]),
        ("a.py", "na\u{200d}me = 1", &[Invisible]),
        ("a.js", "const \u{3164} = 1", &[Invisible]),
        ("a.js", "x\u{e0041}\u{e0042}", &[Invisible]),
        ("a.js", "x\u{fe00}\u{fe01}\u{fe02}", &[Invisible]),
        ("a.rs", "a \u{feff}b \u{202a}", &[Bidi, Invisible]),
        // Twins.
        ("a.rs", "let s = \"שלום مرحبا 漢字\";", &[]),
        (
            "a.rs",
            "// 👩\u{200d}💻 ❤\u{fe0f} 1\u{fe0f}\u{20e3} 🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            &[],
        ),
        ("a.rs", "// می\u{200c}خواهم", &[]),
        ("a.md", "Arabic \u{200f}and\u{200e} Latin, soft\u{ad}hyphen", &[]),
        ("a.csv", "\u{feff}name,value", &[]),
        ("a.rs", "naïve — “quoted”", &[]),
    ];
    for (path, line, expected) in cases {
        assert_eq!(kinds(path, None, Some(line)), *expected, "{line:?}");
        let found = told(path, Some(b"x"), Some(format!("x\n{line}").as_bytes()));
        let mark = line.starts_with('\u{feff}');
        assert!(mark || found.len() == expected.len(), "{line:?}: {found:?}");
        assert!(found.iter().all(|(_, at, detail)| *at == Some(2) && detail.is_ascii()), "{found:?}");
        assert_eq!(
            told(path, Some(line.as_bytes()), Some(format!("{line}\nx").as_bytes())),
            [],
            "it was there"
        );
    }
    assert_eq!(told("a.bin", None, Some("\0\u{202e}".as_bytes())), [], "no text");
    assert_eq!(told("a.rs", None, Some(b"\xff\xfe caf\xe9")), [], "another encoding");
}

#[test]
fn links_that_lead_out_of_the_tree_are_told() {
    let link = |path: &str, target: &str| {
        told_as(path, EntryMode::Symlink, None, Some(target.as_bytes()))
            .into_iter()
            .map(|f| f.0)
            .collect::<Vec<_>>()
    };
    for (path, target) in
        [("l", "/etc/passwd"), ("l", "../x"), ("a/l", "../../x"), ("a/b/l", "c/../../../../x")]
    {
        assert_eq!(link(path, target), [HygieneKind::LinkOutside], "{path} {target}");
    }
    for (path, target) in [("l", "x"), ("a/l", "../x"), ("a/b/l", "../../x/../y"), ("l", "./a/../b")] {
        assert_eq!(link(path, target), [], "{path} {target}");
    }
}

#[test]
fn what_was_only_moved_brings_nothing_and_a_flood_is_counted() {
    let mut files = Files::new();
    let secret = secrets().remove(3);
    let old = files.entry("old.txt", EntryMode::File, secret.as_bytes());
    let new = Entry { path: TreePath::new(&b"new.txt"[..]).unwrap(), ..old.clone() };
    let changes = [
        PatchChange { path: old.path.clone(), before: Some(old), after: None },
        PatchChange { path: new.path.clone(), before: None, after: Some(new) },
    ];
    let reply = scan(&changes, &files.located, &[files.file]).unwrap();
    assert!(matches!(&reply, Reply::Hygiene { findings, more: 0 } if findings.is_empty()), "{reply:?}");

    let mut files = Files::new();
    let lines: String = (0..1000).map(|n| format!("{n}\u{202e}\n")).collect();
    let flood = files.entry("flood", EntryMode::File, lines.as_bytes());
    let change = PatchChange { path: flood.path.clone(), before: None, after: Some(flood) };
    let Reply::Hygiene { findings, more } = scan(&[change], &files.located, &[files.file]).unwrap() else {
        panic!("another reply");
    };
    assert_eq!((findings.len(), more), (MAX_FINDINGS, 1000 - MAX_FINDINGS as u64));
    assert_eq!(findings[0].line, Some(1));
}
