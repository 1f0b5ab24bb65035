//! The commands of the documentation, run as they stand in the pages, with what they print.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod common;
#[path = "common/page.rs"]
mod page;
#[path = "common/project.rs"]
mod project;

use countersign_testkit::{ScriptedServer, ServerOptions};
use page::{Block, Given, blocks, page, run};
use project::{edit, finish, script, sh};
use serde_json::{Value, json};

#[test]
fn the_first_tutorial_does_what_it_says() {
    let Some(place) = project::place("the_first_tutorial_does_what_it_says") else { return };
    let given = Given { words: &[("openai:gpt-5", "scripted:../fix.json")], ..Given::default() };
    run(&place, &page("docs/tutorial.md"), &given);
}

/// The page is about a project of one's own; this is one.
#[test]
fn the_way_to_an_own_repository_does_what_it_says() {
    let Some(place) = project::place("the_way_to_an_own_repository_does_what_it_says") else { return };
    let files = [
        ("work/Makefile", "test:\n\t@sh sum_test.sh\n"),
        ("work/sum.sh", "total=0\nwhile read -r number; do total=$((total + number)); done\necho $total\n"),
        (
            "work/sum_test.sh",
            "[ \"$(printf '1\\n2' | sh sum.sh)\" = 3 ] || { echo 'FAILED: the last line is lost'; exit 1; }\n",
        ),
        (
            "fix.json",
            r#"{"version": 1, "turns": [
                {"calls": [{"tool": "edit_file", "args": {"path": "sum.sh", "old": "read -r number;", "new": "read -r number || [ -n \"$number\" ];"}}]},
                {"calls": [{"tool": "finish", "args": {"summary": "The last line counts."}}]}]}"#,
        ),
    ];
    for (name, content) in files {
        place.write(name, content);
    }
    let work = place.path("work");
    project::git(&work, &["init", "--quiet"]);
    project::git(&work, &["add", "--all"]);
    project::git(&work, &["commit", "--quiet", "--message", "base"]);
    run(&place, &page("docs/own-repository.md"), &Given::default());
}

/// A crate and a package with one bug each, both found by their tests.
const DATES: &str = r#"
mkdir -p src tests && git init --quiet --initial-branch main
printf '[package]\nname = "dates"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
printf '/// Days of February.\npub fn days() -> u32 {\n    30\n}\n\n#[test]\nfn february_ends() {\n    assert_eq!(days(), 28);\n}\n' > src/lib.rs
printf 'def days():\n    return 30\n' > src/dates.py
printf 'import sys\nimport unittest\nsys.path.insert(0, "src")\nimport dates\n\n\nclass Dates(unittest.TestCase):\n    def test_february(self):\n        self.assertEqual(dates.days(), 28)\n' > tests/test_dates.py
printf '/target\n' > .gitignore
commit "dates, with a bug"
agent rust 'sed -i s/30/28/ src/lib.rs'
agent python 'sed -i s/30/28/ src/dates.py'
echo "days() has to be 28" > task.md
"#;

#[test]
fn the_readme_does_what_it_says() {
    let Some(place) = project::place("the_readme_does_what_it_says") else { return };
    // The endpoint of one's own is one; the vendor's models are scripts.
    let turns = json!([sh("sed -i s/30/28/ src/dates.py"), finish("Done.")]);
    let script = json!({ "version": 1, "turns": turns }).to_string();
    let script = countersign_llm::Script::parse("s.json", script.as_bytes()).unwrap();
    let key = Some("sk-of-the-endpoint".to_owned());
    let options = ServerOptions { key, strict: true, ..ServerOptions::new(script) };
    let server = ScriptedServer::start(options).unwrap();
    let given = Given {
        first: &format!(
            "{DATES}mkdir ~/.keys && echo sk-of-the-endpoint > ~/.keys/model && chmod 600 ~/.keys/model\nmkdir my-profile\n{}",
            r#"printf '{"schema": "countersign.profile/1", "name": "my-profile", "checks": [{"argv": ["python3", "-m", "unittest", "tests.test_dates"]}]}' > my-profile/profile.json"#
        ),
        before: &[
            ("show SESSION", "session=$(last)"),
            (
                "--head HEAD",
                "git update-ref refs/remotes/origin/main HEAD; sed -i 's/30/28/' src/lib.rs; git commit --quiet --all --message fixed; git update-ref refs/remotes/origin/main HEAD; echo '//! More.' | cat - src/lib.rs > new; mv new src/lib.rs; git commit --quiet --all --message more",
            ),
            ("my-profile", "git reset --quiet --hard HEAD~3"),
        ],
        words: &[
            ("--model openai:gpt-5 --check", "--model scripted:$HOME/rust.json --check"),
            ("--model openai:gpt-5 --profile", "--model scripted:$HOME/python.json --profile"),
            ("http://127.0.0.1:8080/v1", &server.base_url()),
            ("SESSION", "$session"),
        ],
    };
    run(&place, &page("README.md"), &given);
    assert!(server.violations().is_empty() && server.requests().len() == 2, "{:?}", server.violations());
}

/// `make test` is green where `sum.py` adds.
const SUMS: &str = r#"
git init --quiet --initial-branch main
printf 'def add(a, b):\n    return a - b\n' > sums.py
printf 'import unittest\nimport sums\n\n\nclass Sums(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(sums.add(2, 1), 3)\n' > test_sums.py
printf 'test:\n\tpython3 -m unittest\n' > Makefile
printf '__pycache__/\n' > .gitignore
commit "sums, with a bug"
agent fix 'sed -i s/-/+/ sums.py'
echo "add has to add" > task.md
"#;

/// A run of [`SUMS`] that is verified.
const RUN: &str = r#"
countersign run "add has to add" --trust trusted-local --model "scripted:$HOME/fix.json" --check "python3 -m unittest" --trace off
session=$(last)
"#;

#[test]
fn a_patch_is_looked_at_applied_and_handed_on() {
    let Some(place) = project::place("a_patch_is_looked_at_applied_and_handed_on") else { return };
    let given = Given {
        first: &format!("{SUMS}{RUN}"),
        before: &[("--commit", "git checkout --quiet .")],
        words: &[("SESSION", "$session"), (" DIR", " ../elsewhere")],
    };
    run(&place, &page("docs/delivery.md"), &given);
    assert!(place.path("elsewhere/REVIEW.md").is_file());
}

#[test]
fn the_page_on_evidence_does_what_it_says() {
    let Some(place) = project::place("the_page_on_evidence_does_what_it_says") else { return };
    let policy = "printf 'version = 1\\nrequire = \"verified\"\\nverifiers = 1\\n' > policy.toml";
    let given = Given {
        first: &format!("{SUMS}{RUN}bundle=$(bundle)\n"),
        before: &[("--policy policy.toml", policy)],
        words: &[
            ("s-20261130-120000-abcdef.bundle", "\"$bundle\""),
            ("s-20261130-120000-abcdef", "$session"),
            (
                "12:result",
                r#""$(countersign events $session --format ndjson | grep '"result":{"commitment"' | sed 's/.*"seq":\([0-9]*\).*/\1/' | head -n 1):result""#,
            ),
        ],
    };
    run(&place, &page("docs/evidence.md"), &given);
}

#[test]
fn stock_tools_are_called_as_the_format_says() {
    let test = "stock_tools_are_called_as_the_format_says";
    let Some(place) = project::place(test) else { return };
    let cosign = std::env::var_os("COUNTERSIGN_MATERIALS")
        .map(|dir| std::path::PathBuf::from(dir).join("cosign/usr/bin/cosign"))
        .filter(|path| path.is_file());
    if cosign.is_none() {
        eprintln!("SKIPPED: {test}: cosign is not here; the other tools were called");
    }
    let cosign = cosign.map_or(": cosign".to_owned(), |path| path.display().to_string());
    // What the reader has: the signer's public key in two forms, an empty root, and from the transcript a task and a blind.
    let first = format!(
        "{SUMS}{RUN}{}",
        r#"
        echo '{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}' > ../empty.json
        python3 -c "import json, subprocess; key = json.loads(subprocess.check_output(['countersign', 'key', 'show', '--format', 'json'])); open('../runner.pem', 'w').write(key['pem']); open('../allowed', 'w').write('runner ' + key['openssh'] + '\n')"
        given=$PWD/..
        "#
    );
    let given = Given {
        first: &first,
        before: &[(
            "$BLIND",
            r#"TASK="add has to add"; BLIND=$(sed -n '1s/.*"text":"\([0-9a-f]*\)".*/\1/p' transcript.jsonl); [ ${#BLIND} = 64 ]"#,
        )],
        words: &[
            ("cd run.bundle", "cd \"$(bundle)\""),
            ("ALLOWED_SIGNERS -I NAME", "$given/allowed -I runner"),
            ("EMPTY.json", "$given/empty.json"),
            ("RUNNER.pem", "$given/runner.pem"),
            ("cosign verify", &format!("{cosign} verify")),
            // The name is the one in the journal.
            ("hexkey:$BLIND", "hexkey:$BLIND | sed 's/.*= *//' | grep -f - journal.jsonl"),
        ],
    };
    run(&place, &page("docs/format.md"), &given);
}

#[test]
fn the_page_on_models_does_what_it_says() {
    let Some(place) = project::place("the_page_on_models_does_what_it_says") else { return };
    let given = Given {
        first: &format!(
            "{DATES}{}",
            r#"printf '{"version": 1, "turns": [{"text": "It declares dates."}]}' > ~/says.json; export COUNTERSIGN_MODEL=scripted:$HOME/says.json"#
        ),
        words: &[("openrouter:some/model", "scripted:$HOME/rust.json")],
        ..Given::default()
    };
    run(&place, &page("docs/models.md"), &given);
}

#[test]
fn a_profile_is_made_registered_and_used_as_the_page_says() {
    let Some(place) = project::place("a_profile_is_made_registered_and_used_as_the_page_says") else {
        return;
    };
    // Between the two blocks the reader adds inputs that nobody has seen.
    let held_out = r#"
        mkdir parser-profile/cases
        python3 -c "import json; p = json.load(open('parser-profile/profile.json')); p['checks'][0]['held_out'] = {'argv': ['python3', '-c', 'import sums; print(sums.add(*map(int, input().split())))'], 'cases': 'cases'}; json.dump(p, open('parser-profile/profile.json', 'w'))"
        echo "40 2" > parser-profile/cases/one.in; echo 42 > parser-profile/cases/one.out
        git switch --quiet --create work && sed -i s/-/+/ sums.py && git commit --quiet --all --message work && git switch --quiet main
    "#;
    let given = Given {
        first: &format!("{SUMS}git rm --quiet Makefile && commit 'one way only'"),
        before: &[("profile check", held_out)],
        words: &[("openai:gpt-5", "scripted:$HOME/fix.json")],
    };
    run(&place, &page("docs/profiles.md"), &given);
}

#[test]
fn the_page_on_reviews_does_what_it_says() {
    let Some(place) = project::place("the_page_on_reviews_does_what_it_says") else { return };
    let reviewer =
        r#"printf '{"version": 1, "turns": [{"text": "{\\"findings\\": []}"}]}' > ~/reviewer.json"#;
    let given = Given {
        first: &format!("{DATES}{reviewer}"),
        words: &[
            ("openai:gpt-5", "scripted:$HOME/rust.json"),
            ("openai:another", "scripted:$HOME/reviewer.json"),
        ],
        ..Given::default()
    };
    run(&place, &page("docs/review.md"), &given);
}

#[test]
fn the_page_on_sessions_does_what_it_says() {
    let Some(place) = project::place("the_page_on_sessions_does_what_it_says") else { return };
    let lost = r#"
        countersign --crash-at after-effect:run run "add has to add" --trust trusted-local --model "scripted:$HOME/fix.json" --check "make test" --trace off || [ $? = 75 ]
        session=$(last)
    "#;
    let given = Given {
        first: &format!("{DATES}{}{RUN}", SUMS.replace("git init --quiet --initial-branch main", "")),
        before: &[
            ("resume SESSION", lost),
            ("--report", "export COUNTERSIGN_MODEL=scripted:$HOME/rust.json"),
        ],
        words: &[("SESSION", "$session")],
    };
    run(&place, &page("docs/sessions.md"), &given);
    assert!(place.path("work/report.md").is_file());
}

#[test]
fn the_page_on_tasks_does_what_it_says() {
    let Some(place) = project::place("the_page_on_tasks_does_what_it_says") else { return };
    let project = SUMS.replace("git init --quiet --initial-branch main", "");
    let first = format!("{DATES}{}{RUN}\nexport COUNTERSIGN_MODEL=scripted:$HOME/fix.json\n", project);
    let given = Given { first: &first, ..Given::default() };
    run(&place, &page("docs/tasks.md"), &given);
}

#[test]
fn allowances_are_named_as_the_page_on_the_fence_says() {
    let Some(place) = project::place("allowances_are_named_as_the_page_on_the_fence_says") else { return };
    let project = r#"
        mkdir -p tests/__snapshots__ src && git init --quiet
        printf 'def total(numbers):\n    return sum(numbers) or None\n' > lists.py
        printf 'import unittest\nimport lists\n\n\nclass Lists(unittest.TestCase):\n    def test_empty(self):\n        self.assertEqual(lists.total([]), 0)\n' > tests/test_list.py
        touch tests/__init__.py
        echo "Hello" > tests/__snapshots__/greeting.txt
        printf 'exports.greeting = "Hello";\n' > greeting.js
        printf 'const { test } = require("node:test");\nconst assert = require("node:assert");\nconst fs = require("node:fs");\ntest("greets", () => assert.strictEqual(require("./greeting.js").greeting, fs.readFileSync("tests/__snapshots__/greeting.txt", "utf8").trim()));\ntest("is polite", () => assert.match(require("./greeting.js").greeting, /^Good/));\n' > greeting.test.js
        commit "two things to do"
        agent lists 'sed -i s/.or.None// lists.py && echo >> tests/test_list.py'
        agent snapshots 'sed -i s/Hello/Good.day/ greeting.js && echo Good.day > tests/__snapshots__/greeting.txt'
    "#;
    let given = Given {
        first: project,
        words: &[
            ("openai:gpt-5", "scripted:$HOME/lists.json"),
            ("openai:another", "scripted:$HOME/snapshots.json"),
        ],
        ..Given::default()
    };
    run(&place, &page("docs/fence.md"), &given);
}

#[test]
fn the_page_on_ci_does_what_it_says() {
    let Some(place) = project::place("the_page_on_ci_does_what_it_says") else { return };
    let given = Given {
        first: &format!(
            "{SUMS}sed -i s/-/+/ sums.py; commit fixed; git update-ref refs/remotes/origin/main HEAD; echo '# More.' >> sums.py; commit more"
        ),
        ..Given::default()
    };
    run(&place, &page("docs/ci.md"), &given);
}

#[test]
fn blocks_are_found_with_their_exits_and_what_they_print() {
    let page = "x\n```console\na\nb\n```\n\n```text\none   two\n```\ny\n<!-- exit: 2 -->\n```console\nc\n```\nz\n```text\nnot its\n```\n```sh\nd\n```\n\
                <!-- not run: because -->\n```sh\ne\n```\n```json\nf\n```\n";
    let block = |exit, commands: &str, prints: &[&str]| Block {
        exit,
        commands: commands.to_owned(),
        prints: prints.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(blocks(page), [block(0, "a\nb\n", &["one two"]), block(2, "c\n", &[]), block(0, "d\n", &[])]);
}

/// A journal as the walk-through tells it: events by number, an effect with its three lines as one.
fn told(events: &[Value]) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    let text = |event: &Value, field: &str| event["data"][field].as_str().unwrap_or_default().to_owned();
    let mut open: Option<(u64, String)> = None;
    for event in events {
        let seq = event["seq"].as_u64().unwrap();
        let kind = event["kind"].as_str().unwrap();
        match kind {
            "effect_intended" => {
                let what = [text(event, "kind"), text(event, "tool")].join(" ");
                open = Some((seq, format!("effect {}", what.trim())));
            }
            "effect_dispatched" => {}
            "effect_completed" => {
                let (first, what) = open.take().unwrap();
                out.push((format!("{first}-{seq}"), what));
            }
            "gate_decided" => {
                out.push((
                    seq.to_string(),
                    format!("gate {} {}", text(event, "gate"), text(event, "status")),
                ));
            }
            "turn_ended" => out.push((seq.to_string(), format!("{kind} {}", text(event, "outcome")))),
            _ => out.push((seq.to_string(), kind.to_owned())),
        }
    }
    out
}

#[test]
fn the_walk_through_tells_recorded_runs_event_by_event() {
    let Some(place) = project::place("the_walk_through_tells_recorded_runs_event_by_event") else { return };
    let page = page("docs/walkthrough.md");
    let written = |section: &str| -> Vec<(String, String)> {
        let section = page.split(&format!("\n## {section}\n")).nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        section
            .lines()
            .filter(|line| line.starts_with("| ") && line.contains('`'))
            .map(|line| {
                let cells: Vec<&str> = line.split('|').map(str::trim).collect();
                (cells[1].to_owned(), cells[2].trim_matches('`').to_owned())
            })
            .collect()
    };
    let files = [
        ("a.py", "def f():\n    return 1\n"),
        (
            "test_a.py",
            "import unittest\nfrom a import f\n\n\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(), 2)\n",
        ),
    ];
    let repo = project::repository(&place, &files);
    let look = json!({ "calls": [{ "tool": "read_file", "args": { "path": "a.py" } }] });
    let runs = [
        ("The honest run", json!([look, edit("a.py", "return 1", "return 2"), finish("f returns 2.")])),
        ("The attack", json!([sh("sed -i s/2/1/ test_a.py"), finish("f returns 2.")])),
    ];
    for (section, turns) in runs {
        let model = script(&place, "m.json", &turns);
        let ended = place.run(&[
            "run",
            "f has to return 2",
            "--trust",
            "trusted-local",
            "--repo",
            repo.to_str().unwrap(),
            "--model",
            &model,
            "--check",
            "python3 -m unittest",
            "--format",
            "json",
            "--trace",
            "off",
        ]);
        let result = ended.json();
        let events = project::journal(&place, result["session"].as_str().unwrap());
        assert_eq!(told(&events), written(section), "{section}: {result}");
    }
}
