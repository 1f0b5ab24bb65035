//! The purity rules bite: clippy refuses a planted breach with the very file that guards the crate.

use std::path::PathBuf;
use std::process::Command;

use crate::support::root;

const PURE: [&str; 2] = ["kernel", "engine"];

const BREACHES: [(&str, &str); 8] = [
    ("reads a file", "pub fn f() { let _ = std::fs::read(\"x\"); }"),
    ("opens a file", "pub fn f() { let _ = std::fs::File::open(\"x\"); }"),
    ("asks whether a file is there", "pub fn f() -> bool { std::path::Path::new(\"x\").exists() }"),
    ("reads the clock", "pub fn f() -> std::time::SystemTime { std::time::SystemTime::now() }"),
    ("reads the other clock", "pub fn f() -> std::time::Instant { std::time::Instant::now() }"),
    ("reads the environment", "pub fn f() { let _ = std::env::var(\"HOME\"); }"),
    ("opens a connection", "pub fn f() { let _ = std::net::TcpStream::connect(\"x:1\"); }"),
    ("starts a process", "pub fn f() { let _ = std::process::Command::new(\"x\"); }"),
];

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn clippy(rules: &str, code: &str, name: &str) -> String {
    let dir = Scratch(std::env::temp_dir().join(format!("countersign-purity-{}-{name}", std::process::id())));
    std::fs::create_dir_all(dir.0.join("src")).unwrap();
    std::fs::write(dir.0.join("clippy.toml"), rules).unwrap();
    std::fs::write(dir.0.join("src/lib.rs"), code).unwrap();
    let manifest = "[package]\nname = \"planted\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";
    std::fs::write(dir.0.join("Cargo.toml"), manifest).unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(&dir.0)
        .env("CARGO_TARGET_DIR", dir.0.join("target"))
        .env_remove("RUSTFLAGS")
        .args(["clippy", "--offline", "--quiet", "--"])
        .args(["-D", "clippy::disallowed_methods", "-D", "clippy::disallowed_types"]);
    let output = cargo.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { String::new() } else { text }
}

#[test]
fn a_planted_breach_is_refused_in_pure_crates() {
    for name in PURE {
        let rules = std::fs::read_to_string(root().join(format!("crates/{name}/clippy.toml"))).unwrap();
        let planted: String = BREACHES
            .iter()
            .enumerate()
            .map(|(at, (_, code))| code.replace("fn f()", &format!("fn f{at}()")) + "\n")
            .collect();
        let said = clippy(&rules, &planted, name);
        for (at, (what, _)) in BREACHES.iter().enumerate() {
            let line = format!("src/lib.rs:{}:", at + 1);
            assert!(said.contains(&line), "{name}: code that {what} passes clippy\n{said}");
        }
        let pure =
            clippy(&rules, "pub fn f(a: u32) -> u32 { a.saturating_add(1) }\n", &format!("{name}-pure"));
        assert!(pure.is_empty(), "{name}: pure code is refused: {pure}");
    }
}

#[test]
fn the_purity_lints_are_denied_in_the_workspace() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for lint in ["disallowed_methods = \"deny\"", "disallowed_types = \"deny\"", "unsafe_code = \"deny\""] {
        assert!(manifest.contains(lint), "{lint}");
    }
    let shared = std::fs::read_to_string(root().join("clippy.toml")).unwrap();
    for name in PURE {
        let rules = std::fs::read_to_string(root().join(format!("crates/{name}/clippy.toml"))).unwrap();
        for key in shared.lines().filter(|line| line.starts_with("allow-")) {
            assert!(
                rules.contains(key),
                "crates/{name}/clippy.toml replaces the root's file and lacks: {key}"
            );
        }
    }
}
