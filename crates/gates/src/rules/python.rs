use countersign_guest::protocol::FenceKind;

use super::{Language as L, Means as M, Rule, When, rule, rule_when};

pub(super) const RULES: &[Rule] = &[
    rule(
        "python.tests",
        L::Python,
        M::ProtectedExisting,
        &["**/test_*.py", "**/*_test.py", "**/tests.py", "test.py"],
        "it is an existing Python test",
    ),
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
    // Files where the runner's keys stand beside ordinary ones.
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
