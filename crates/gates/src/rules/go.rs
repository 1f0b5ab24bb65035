use countersign_guest::protocol::FenceKind;

use super::{Language as L, Means as M, Rule, When, rule, rule_when};

pub(super) const RULES: &[Rule] = &[
    rule("go.tests", L::Go, M::ProtectedExisting, &["**/*_test.go"], "it is an existing Go test"),
    rule_when(
        "go.lint_config",
        L::Go,
        M::AutoLoaded,
        When::CheckRuns(&["golangci-lint", "staticcheck"]),
        &["**/.golangci.*", "**/staticcheck.conf"],
        "the check runs a linter, which loads it",
    ),
    rule(
        "go.module",
        L::Go,
        M::Mixed(FenceKind::GoMod),
        &["**/go.mod"],
        "it says what the tests are built from",
    ),
    rule(
        "go.workspace",
        L::Go,
        M::Mixed(FenceKind::GoWork),
        &["**/go.work"],
        "it says what the tests are built from",
    ),
    // Of tests only new ones get here: a `TestMain` decides the exit code for every test of its directory (43).
    rule("go.source", L::Go, M::Mixed(FenceKind::GoItems), &["**/*.go"], "existing tests are built with it"),
];
