//! The fence's language rules: one table, read by the fence, by the edit tools' guard and by people.
//!
//! Numbers in comments are entries of the catalogue of false greens: what an agent could change to make a check say yes
//! without doing the work. Rust and Python are covered in full; for JavaScript, Go and make the table holds what can be
//! told from a path alone.
//!
//! Decided here, and why:
//! - A **new** ordinary test file is fine anywhere, `tests/__init__.py` included (it can change which directory pytest
//!   puts on `sys.path`, so it is noted).
//! - A directory named `test` counts only at the root: `src/…/test` is product code in many packages.
//! - `build.rs` and lockfiles are ordinary and noted: an honest fix edits them, and what a build script does to the
//!   tree while the check runs shows when judged entries are hashed again afterwards.
//! - A Makefile (justfile, noxfile, lint configuration, …) is a rule of the runner only where a check's command names
//!   that runner, or runs a script that could; elsewhere it is an ordinary file of the project.
//! - A file that a check's command names is a part of the check. Where it is the product itself, the contract's scope
//!   names it by its path.
//! - `*.pth` counts only below `site-packages`: elsewhere it is a common name for model weights.
//! - Names are compared as bytes. `Conftest.py` is not loaded by anything here; it is noted because a patch may be
//!   applied on a file system that folds case.

use countersign_guest::protocol::FenceKind;

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Stable: stands in findings, verdicts and documents.
    pub name: &'static str,
    pub language: Language,
    pub means: Means,
    pub when: When,
    /// In the contract's glob language, anchored at the tree root.
    pub globs: &'static [&'static str],
    /// Ends the sentence "this path is refused because …".
    pub why: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Any,
    Rust,
    Python,
    JavaScript,
    Go,
    Make,
}

/// What a match means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// A file of the base: changing, deleting or renaming it, its mode included, is `tampered`. A new one is fine.
    ProtectedExisting,
    /// A runner reads it by itself. As `ProtectedExisting`, and a new one is planted.
    AutoLoaded,
    /// The runner's keys in it are compared by the guest, the rest is ordinary.
    Mixed(FenceKind),
    /// Worth telling, stops nothing.
    Noted,
}

/// A condition on the contract or on the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// A word of a check's command has this base name (words inside a shell string count).
    CheckRuns(&'static [&'static str]),
    /// A check's command runs a shell script or an executable of the base, which may call anything.
    CheckRunsScript,
    /// The entry is a symlink: a directory that a runner looks into would be reached through it.
    Link,
}

const fn rule(
    name: &'static str,
    language: Language,
    means: Means,
    globs: &'static [&'static str],
    why: &'static str,
) -> Rule {
    Rule { name, language, means, when: When::Always, globs, why }
}

const fn rule_when(
    name: &'static str,
    language: Language,
    means: Means,
    when: When,
    globs: &'static [&'static str],
    why: &'static str,
) -> Rule {
    Rule { name, language, means, when, globs, why }
}

use Language as L;
use Means as M;

/// Every rule that is decided by path. The order is the order of findings.
pub const RULES: &[Rule] = &[
    // Tests and what they read (1 to 15).
    rule(
        "tests.existing",
        L::Any,
        M::ProtectedExisting,
        &[
            "**/tests/**",
            "test/**",
            "**/testdata/**",
            "**/__snapshots__/**",
            "**/__fixtures__/**",
            "spec/**",
            "e2e/**",
            "fixtures/**",
            "**/*.snap",
        ],
        "it is an existing test, or data of one",
    ),
    rule(
        "python.tests",
        L::Python,
        M::ProtectedExisting,
        &["**/test_*.py", "**/*_test.py", "**/tests.py", "test.py"],
        "it is an existing Python test",
    ),
    rule(
        "rust.tests",
        L::Rust,
        M::ProtectedExisting,
        &["**/tests.rs", "**/*_test.rs", "**/*_tests.rs"],
        "it is an existing Rust test",
    ),
    rule(
        "javascript.tests",
        L::JavaScript,
        M::ProtectedExisting,
        &[
            "**/__tests__/**",
            "**/*.test.js",
            "**/*.test.jsx",
            "**/*.test.ts",
            "**/*.test.tsx",
            "**/*.test.mjs",
            "**/*.test.cjs",
            "**/*.spec.js",
            "**/*.spec.jsx",
            "**/*.spec.ts",
            "**/*.spec.tsx",
            "**/*.spec.mjs",
            "**/*.spec.cjs",
            "**/*-test.[jt]s",
            "**/*-test.[jt]sx",
            "**/*-test.[cm][jt]s",
            "**/test-*.[jt]s",
            "**/test-*.[jt]sx",
            "**/test-*.[cm][jt]s",
            "**/*.test.[cm]ts",
            "**/*.spec.[cm]ts",
        ],
        "it is an existing JavaScript test",
    ),
    rule(
        "shell.tests",
        L::Any,
        M::ProtectedExisting,
        &[
            "**/*-test.sh",
            "**/test-*.sh",
            "**/*.test.sh",
            "**/*.spec.sh",
            "**/*_test.sh",
            "**/test_*.sh",
            "**/test.sh",
        ],
        "it is an existing shell test",
    ),
    rule("go.tests", L::Go, M::ProtectedExisting, &["**/*_test.go"], "it is an existing Go test"),
    // Runner configuration and plug-ins (17 to 41).
    rule(
        "python.runner_config",
        L::Python,
        M::AutoLoaded,
        &[
            "**/conftest.py",
            "**/pytest.ini",
            "**/.pytest.ini",
            "**/pytest.toml",
            "**/.pytest.toml",
            "**/sitecustomize.py",
            "**/usercustomize.py",
            "**/sitecustomize/**",
            "**/usercustomize/**",
            "**/site-packages/**",
            "**/dist-packages/**",
            "**/pyvenv.cfg",
            // Entry points of the group `pytest11` are plug-ins wherever a directory of the import path holds them.
            "**/*.dist-info/**",
            "**/*.egg-info/**",
        ],
        "Python or pytest loads it by itself",
    ),
    rule_when(
        "python.nox",
        L::Python,
        M::AutoLoaded,
        When::CheckRuns(&["nox"]),
        &["noxfile.py"],
        "the check runs nox, which loads it",
    ),
    rule_when(
        "python.coverage_config",
        L::Python,
        M::AutoLoaded,
        When::CheckRuns(&["coverage", "pytest", "py.test"]),
        &[".coveragerc", ".coveragerc.toml"],
        "the check's coverage thresholds and plug-ins come from it",
    ),
    rule_when(
        "python.type_check_config",
        L::Python,
        M::AutoLoaded,
        When::CheckRuns(&["mypy", "dmypy", "pyright", "basedpyright"]),
        &["mypy.ini", ".mypy.ini", "pyrightconfig.json"],
        "the check runs a type checker, which loads it",
    ),
    rule_when(
        "python.lint_config",
        L::Python,
        M::AutoLoaded,
        When::CheckRuns(&["ruff", "flake8", "pylint"]),
        &["**/ruff.toml", "**/.ruff.toml", ".flake8", ".pylintrc", "pylintrc"],
        "the check runs a linter, which loads it",
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
        "javascript.runner_config",
        L::JavaScript,
        M::AutoLoaded,
        &[
            "**/jest.config.*",
            "**/vitest.config.*",
            "**/vitest.workspace.*",
            "**/.mocharc",
            "**/.mocharc.*",
            "**/ava.config.*",
            "**/karma.conf.*",
            "**/playwright.config.*",
            "**/cypress.config.*",
            "**/.npmrc",
        ],
        "a JavaScript test runner or npm loads it by itself",
    ),
    rule("go.runner_config", L::Go, M::AutoLoaded, &["**/go.work"], "go loads it by itself"),
    rule_when(
        "make.rules",
        L::Make,
        M::AutoLoaded,
        When::CheckRuns(&["make", "gmake"]),
        &["**/Makefile", "**/makefile", "**/GNUmakefile", "**/*.mk"],
        "the check runs make, which loads it",
    ),
    rule_when(
        "make.just",
        L::Make,
        M::AutoLoaded,
        When::CheckRuns(&["just"]),
        &["**/justfile", "**/Justfile", "**/.justfile", "**/*.just"],
        "the check runs just, which loads it",
    ),
    rule_when(
        "script.rules",
        L::Make,
        M::ProtectedExisting,
        When::CheckRunsScript,
        &[
            "**/Makefile",
            "**/makefile",
            "**/GNUmakefile",
            "**/*.mk",
            "**/justfile",
            "**/Justfile",
            "**/.justfile",
            "**/*.just",
            "noxfile.py",
        ],
        "the check runs a script, which may call what stands in it",
    ),
    // Files where the runner's keys stand beside ordinary ones.
    rule(
        "rust.manifest",
        L::Rust,
        M::Mixed(FenceKind::CargoToml),
        &["**/Cargo.toml"],
        "it holds test-runner keys",
    ),
    rule(
        "python.pyproject",
        L::Python,
        M::Mixed(FenceKind::PyprojectToml),
        &["**/pyproject.toml"],
        "it holds test-runner keys",
    ),
    rule(
        "python.setup_cfg",
        L::Python,
        M::Mixed(FenceKind::SetupCfg),
        &["**/setup.cfg"],
        "it holds test-runner keys",
    ),
    rule(
        "python.tox_ini",
        L::Python,
        M::Mixed(FenceKind::ToxIni),
        &["**/tox.ini"],
        "it holds test-runner keys",
    ),
    rule(
        "javascript.package",
        L::JavaScript,
        M::Mixed(FenceKind::PackageJson),
        &["**/package.json"],
        "it holds test-runner keys",
    ),
    rule("rust.source", L::Rust, M::Mixed(FenceKind::RustItems), &["**/*.rs"], "it may hold inline tests"),
    // Ordinary, and told.
    rule(
        "note.build_script",
        L::Any,
        M::Noted,
        &["**/build.rs", "**/setup.py", "**/hatch_build.py"],
        "it runs at build time",
    ),
    rule(
        "note.lockfile",
        L::Any,
        M::Noted,
        &[
            "**/Cargo.lock",
            "**/uv.lock",
            "**/poetry.lock",
            "**/pdm.lock",
            "**/Pipfile.lock",
            "**/pylock.toml",
            "**/requirements*.txt",
            "**/package-lock.json",
            "**/npm-shrinkwrap.json",
            "**/pnpm-lock.yaml",
            "**/yarn.lock",
            "**/bun.lock",
            "**/bun.lockb",
            "**/go.sum",
        ],
        "it decides which dependencies are used",
    ),
    rule("note.ignore_file", L::Any, M::Noted, &["**/.gitignore", "**/.gitattributes"], "git reads it"),
    rule(
        "note.ci",
        L::Any,
        M::Noted,
        &[".github/**", ".gitlab-ci.yml", ".circleci/**", ".pre-commit-config.yaml", "Jenkinsfile"],
        "continuous integration reads it",
    ),
    rule(
        "note.tests_package",
        L::Python,
        M::Noted,
        &["**/tests/**/__init__.py", "test/**/__init__.py"],
        "pytest picks import roots by it",
    ),
    rule(
        "note.weights_or_path_file",
        L::Python,
        M::Noted,
        &["**/*.pth"],
        "in a site directory Python would run it",
    ),
    rule(
        "note.pending_snapshot",
        L::Rust,
        M::Noted,
        &["**/*.snap.new"],
        "insta wrote it for a snapshot that does not match",
    ),
];

/// Modules that pytest, unittest and doctest, or tests themselves, take their verdict from (25, 51). A new module of this
/// name where a test run's import path starts (the root, `src`, or a directory of tests) is planted; so is one whose
/// name begins with `pytest_`, which could stand for a plug-in.
pub const RUNNER_MODULES: &[&str] = &[
    "_pytest",
    "coverage",
    "doctest",
    "hypothesis",
    "iniconfig",
    "nose",
    "packaging",
    "pluggy",
    "pytest",
    "unittest",
    "xdist",
];
