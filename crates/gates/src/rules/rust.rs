use countersign_guest::protocol::FenceKind;

use super::{Language as L, Means as M, Rule, When, rule, rule_when};

pub(super) const RULES: &[Rule] = &[
    rule(
        "rust.tests",
        L::Rust,
        M::ProtectedExisting,
        &["**/tests.rs", "**/*_test.rs", "**/*_tests.rs"],
        "it is an existing Rust test",
    ),
    rule(
        "rust.runner_config",
        L::Rust,
        M::AutoLoaded,
        &[
            "**/.cargo/config",
            "**/.cargo/config.toml",
            "**/.config/nextest.toml",
            "**/.config/nextest/**",
            "**/rust-toolchain",
            "**/rust-toolchain.toml",
        ],
        "cargo, rustup or nextest loads it by itself",
    ),
    rule_when(
        "rust.runner_config_link",
        L::Rust,
        M::AutoLoaded,
        When::Link,
        &["**/.cargo", "**/.config"],
        "a link with this name leads cargo or nextest to configuration elsewhere",
    ),
    rule_when(
        "rust.lint_config",
        L::Rust,
        M::AutoLoaded,
        When::CheckRuns(&["clippy", "cargo-clippy", "fmt", "rustfmt", "deny"]),
        &["**/clippy.toml", "**/.clippy.toml", "**/rustfmt.toml", "**/.rustfmt.toml", "deny.toml"],
        "the check runs a linter, which loads it",
    ),
    rule(
        "rust.manifest",
        L::Rust,
        M::Mixed(FenceKind::CargoToml),
        &["**/Cargo.toml"],
        "it holds test-runner keys",
    ),
    rule("rust.source", L::Rust, M::Mixed(FenceKind::RustItems), &["**/*.rs"], "it may hold inline tests"),
];
