use super::{Language as L, Means as M, Rule, When, rule_when};

pub(super) const RULES: &[Rule] = &[
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
        "make.task",
        L::Make,
        M::AutoLoaded,
        When::CheckRuns(&["task", "go-task"]),
        &["**/Taskfile.yml", "**/Taskfile.yaml", "**/taskfile.yml", "**/Taskfile.dist.yml"],
        "the check runs task, which loads it",
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
            "**/Rakefile",
        ],
        "the check runs a script, which may call what stands in it",
    ),
];
