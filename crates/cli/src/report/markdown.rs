//! A report fit for a pull request. Everything that somebody else wrote (paths, output, messages) stands in code spans or
//! code blocks whose fences it cannot close: there a host of pull requests makes no link, image, mention, reference or
//! HTML of it.

use std::fmt::Write as _;

use countersign_types::{GateKey, GateStatus};

use super::{meaning, review, story};
use crate::result::{CandidateResult, GateResult, RunResult};
use crate::text;

/// Changed paths that a report names.
const MAX_PATHS: usize = 100;
/// Characters of one code span.
const MAX_SPAN: usize = 200;
/// Characters of one code block.
const MAX_BLOCK: usize = 4000;

/// `patch` is shown where it is given.
pub(crate) fn markdown(result: &RunResult, patch: Option<&[u8]>) -> String {
    let mut out = String::new();
    let none = if meaning::runs(result) { "running" } else { "no verdict" };
    let outcome = result.outcome.map_or(none, |outcome| outcome.as_str());
    // Writing to a String does not fail, here and below.
    let _ = writeln!(out, "## Countersign: `{outcome}`\n\n{}\n", meaning::of(result));
    if let Some(error) = &result.error {
        let _ = writeln!(out, "{}", block(&error.message));
    }
    facts(&mut out, result);
    story::next(&mut out, result);
    story::answer(&mut out, result);
    gates(&mut out, result);
    changes(&mut out, result);
    if let Some(patch) = patch {
        story::patch(&mut out, patch);
    }
    findings(&mut out, result);
    mutants(&mut out, result);
    review::markdown(&mut out, result);
    claims(&mut out, result);
    not_judged(&mut out, result);
    out
}

fn facts(out: &mut String, result: &RunResult) {
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "- **{name}:** {value}");
    };
    if let Some(reason) = result.reason {
        line("Reason", format!("`{reason}`"));
    }
    line(
        "Strength",
        result.strength.map_or_else(
            || "none".to_owned(),
            |strength| {
                let inside = if strength.in_process {
                    "; the code that is judged ran in the same process as its runner, which it could have ended"
                } else {
                    ""
                };
                format!("`{}`: {}{inside}", strength.level, meaning::strength(strength.level))
            },
        ),
    );
    if let Some(candidate) = &result.candidate {
        line("Work", work(candidate));
    }
    if let Some(base) = &result.base {
        line(
            "Base",
            base.commit
                .as_deref()
                .map_or_else(|| "a directory".to_owned(), |c| format!("commit {}", code(c))),
        );
    }
    if let Some(tree) = &result.tree {
        line("Tree", format!("`{tree}`"));
    }
    if let Some(tier) = result.tier {
        line("Sandbox", format!("`{tier}`"));
    }
    if let Some(cost) = story::cost(result) {
        line("Cost", cost);
    }
    if let Some(session) = &result.session {
        line("Session", format!("`{session}`"));
    }
    out.push('\n');
}

fn work(candidate: &CandidateResult) -> String {
    let named = candidate.rev.as_deref().or(candidate.path.as_deref()).or(candidate.sha256.as_deref());
    let named = named.map(code).unwrap_or_default();
    let commit = candidate.commit.as_deref().map(|c| format!(", commit {}", code(c))).unwrap_or_default();
    match candidate.kind {
        "head" => format!("revision {named}{commit}"),
        "tree" => format!("directory {named}"),
        _ => format!("patch with sha256 {named}"),
    }
}

fn gates(out: &mut String, result: &RunResult) {
    let armed: Vec<(&GateKey, &GateResult)> =
        result.gates.iter().filter(|(_, gate)| gate.status != GateStatus::Absent).collect();
    if armed.is_empty() {
        return;
    }
    out.push_str("### Gates\n\n");
    let mut long = Vec::new();
    for (key, gate) in armed {
        let reason = gate.reason.map(|reason| format!(" (`{reason}`)")).unwrap_or_default();
        let detail = gate.detail.as_deref().map(str::trim).filter(|detail| !detail.is_empty());
        let short = detail.filter(|detail| !detail.contains('\n') && detail.chars().count() <= MAX_SPAN);
        let said = short.map(|detail| format!(": {}", code(detail))).unwrap_or_default();
        let _ =
            writeln!(out, "- **{}** {}{reason}{said}", key.as_str(), gate.status.as_str().replace('_', " "));
        long.extend(detail.filter(|_| short.is_none()).map(|detail| (key, detail)));
    }
    for gate in result.gates.values() {
        evidence(out, gate);
    }
    out.push('\n');
    for (key, detail) in long {
        let _ = writeln!(out, "What the gate {} says:\n\n{}", key.as_str(), block(detail));
    }
}

/// What a gate rests on, and what only the contract's allowances let through.
fn evidence(out: &mut String, gate: &GateResult) {
    for check in &gate.evidence {
        let mut said = vec![match (&check.runner, check.passed, check.expected) {
            (Some(runner), Some(passed), Some(expected)) => {
                format!("{} ran {passed} of {expected} expected tests to a pass", code(runner))
            }
            (Some(runner), ..) => format!("tests of {}, not known by name", code(runner)),
            (None, ..) => "its exit code and no test by name".to_owned(),
        }];
        if check.repeats.asked > 1 {
            said.push(format!("{} of {} runs green", check.repeats.green, check.repeats.asked));
        }
        let _ = writeln!(out, "- check {} rests on: {}", u64::from(check.check) + 1, said.join("; "));
    }
    for allowed in gate.allowed.iter().flatten() {
        let (rule, path) = (code(&allowed.rule), code(&allowed.path.to_string()));
        let _ =
            writeln!(out, "- the contract allows {path} against the rule {rule}, which makes a pass weaker");
    }
}

/// Small faults in the changed lines that the checks did not notice.
fn mutants(out: &mut String, result: &RunResult) {
    let Some(mutants) = &result.mutants else { return };
    let _ = writeln!(
        out,
        "### Faults that the checks would not notice\n\n{} of {} small faults in the changed lines were noticed.\n",
        mutants.killed, mutants.tried
    );
    for survivor in mutants.survived.iter().take(MAX_PATHS) {
        let _ = writeln!(
            out,
            "- {} line {}: {}",
            code(&survivor.path),
            survivor.line,
            code(survivor.kind.as_str())
        );
    }
    if !mutants.survived.is_empty() {
        out.push('\n');
    }
}

fn changes(out: &mut String, result: &RunResult) {
    let Some(changes) = &result.changes else { return };
    let all = changes.all();
    let _ = writeln!(
        out,
        "### Changed files\n\n{all} in all: {} added, {} modified, {} deleted.\n",
        changes.added, changes.modified, changes.deleted
    );
    let shown = changes.paths.iter().take(MAX_PATHS);
    for path in shown {
        let _ = writeln!(out, "- {} {}", path.change.as_str(), code(&path.path));
    }
    let more = all.saturating_sub(MAX_PATHS as u64);
    if more > 0 {
        let _ = writeln!(out, "- and {more} more");
    }
    if all > 0 {
        out.push('\n');
    }
}

fn findings(out: &mut String, result: &RunResult) {
    let Some(findings) = result.findings.as_deref().filter(|findings| !findings.is_empty()) else { return };
    out.push_str("### Worth a look\n\nThese findings do not decide the outcome.\n\n");
    for finding in findings.iter().take(MAX_PATHS) {
        let line = finding.line.map(|line| format!(" line {line}")).unwrap_or_default();
        let (kind, path, detail) = (finding.kind.as_str(), code(&finding.path), code(&finding.detail));
        let _ = writeln!(out, "- `{kind}` in {path}{line}: {detail}");
    }
    let more = findings.len().saturating_sub(MAX_PATHS);
    if more > 0 {
        let _ = writeln!(out, "- and {more} more");
    }
    out.push('\n');
}

/// What an agent said of its work, beside what the journal shows.
fn claims(out: &mut String, result: &RunResult) {
    if result.claims.is_empty() {
        return;
    }
    out.push_str("### What the agent said\n\n");
    for claim in &result.claims {
        let (quote, verdict, evidence) = (code(&claim.quote), claim.verdict.as_str(), code(&claim.evidence));
        let _ = writeln!(out, "- {quote}: `{verdict}`, {evidence}");
    }
    out.push('\n');
}

fn not_judged(out: &mut String, result: &RunResult) {
    out.push_str("### Not judged\n\n");
    out.push_str("- what the checks do not run or look at\n");
    let unreached: Vec<&str> = result
        .gates
        .iter()
        .filter(|(_, gate)| gate.status == GateStatus::NotReached)
        .map(|(key, _)| key.as_str())
        .collect();
    if !unreached.is_empty() {
        let _ = writeln!(out, "- what these gates ask, which nothing reached: {}", unreached.join(", "));
    }
    if result.gates.get(&GateKey::Scope).is_some_and(|gate| gate.status == GateStatus::Absent) {
        out.push_str("- which files the work may change: no `--scope` was given\n");
    }
    if result.findings.is_none() {
        out.push_str(
            "- whether the change brings secrets, hidden characters or files that start by themselves\n",
        );
    }
    for left_out in &result.not_delivered {
        let _ = writeln!(
            out,
            "- {}, {} bytes: build output or cache beside the tree, and no part of it",
            code(&left_out.path),
            left_out.bytes
        );
    }
    for note in &result.degraded {
        let _ = writeln!(out, "- {}", code(note));
    }
}

/// One line of somebody else's text as a code span that it cannot end.
pub(super) fn code(text: &str) -> String {
    let line = text::safe(text).replace('\n', "\\n").replace('\t', "\\t");
    let mut line: String = match line.char_indices().nth(MAX_SPAN) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    };
    if line.trim().is_empty() {
        line = format!("\"{line}\"");
    }
    let fence = "`".repeat(longest_run(&line, '`') + 1);
    // One space on each side is not part of the span.
    let pad = if line.starts_with(['`', ' ']) || line.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{pad}{line}{pad}{fence}")
}

/// Somebody else's text as a code block that it cannot end.
pub(super) fn block(text: &str) -> String {
    fenced("text", text, MAX_BLOCK)
}

/// The same in a language, of at most `limit` characters.
pub(super) fn fenced(language: &str, text: &str, limit: usize) -> String {
    let text = text::safe(text);
    let text = match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}\n[cut here]", &text[..at]),
        None => text,
    };
    let fence = "`".repeat(longest_run(&text, '`').max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

fn longest_run(text: &str, of: char) -> usize {
    let mut longest = 0;
    let mut run = 0;
    for c in text.chars() {
        run = if c == of { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use countersign_engine::{
        ChangeKind, ChangedPath, Changes, Fate, HygieneKind, MutantKind, Mutants, ReviewFinding, Severity,
        Survivor,
    };
    use countersign_types::{Digest, Outcome, Reason, SessionId, Strength, StrengthLevel};

    use super::*;
    use crate::refusal::Refusal;
    use crate::result::{self, HygieneResult, LeftOut, ReproResult, ReviewResult};
    use countersign_engine::{Claim, ClaimKind, ClaimVerdict};

    const HOSTILE: &[&str] = &[
        "![x](http://h/i.png)",
        "<img src=x onerror=alert(1)>",
        "@somebody",
        "#1",
        "http://h/",
        "`@a`",
        "``` `` @a",
        "a\n\n# heading\n```\n@a",
        "a | b",
        " @a ",
        "\u{202e}x\u{1b}[0m",
        "&#64;a",
        "~~~\n@a",
    ];

    /// What a host would find outside of code: spans and blocks of the report are taken away as CommonMark reads them.
    fn outside_of_code(markdown: &str) -> String {
        let mut out = String::new();
        let mut lines = markdown.lines();
        while let Some(line) = lines.next() {
            let ticks = line.len() - line.trim_start_matches('`').len();
            if ticks >= 3 && !line[ticks..].contains('`') {
                for inner in lines.by_ref() {
                    if inner.trim_end().len() >= ticks && inner.trim_end().chars().all(|c| c == '`') {
                        break;
                    }
                }
                continue;
            }
            let mut rest = line;
            while let Some(at) = rest.find('`') {
                out.push_str(&rest[..at]);
                let run = rest[at..].len() - rest[at..].trim_start_matches('`').len();
                let body = &rest[at + run..];
                let mut from = 0;
                let end = loop {
                    let Some(next) = body[from..].find('`') else { break None };
                    let start = from + next;
                    let length = body[start..].len() - body[start..].trim_start_matches('`').len();
                    if length == run {
                        break Some(start + length);
                    }
                    from = start + length;
                };
                match end {
                    Some(end) => rest = &body[end..],
                    None => {
                        out.push_str(&rest[at..at + run]);
                        rest = body;
                    }
                }
            }
            out.push_str(rest);
            out.push('\n');
        }
        out
    }

    fn judged(text: &str) -> RunResult {
        let refusal = Refusal::new(Reason::CheckFailed, text);
        let armed = result::armed(true, true, false);
        let id = SessionId::new("s-20261130-005320-ababab").unwrap();
        let mut result = RunResult {
            candidate: Some(CandidateResult {
                kind: "head",
                rev: Some(text.to_owned()),
                commit: None,
                path: None,
                sha256: None,
            }),
            changes: Some(Changes {
                added: 1,
                paths: vec![ChangedPath { path: text.to_owned(), change: ChangeKind::Added }],
                ..Changes::default()
            }),
            not_delivered: vec![LeftOut { path: text.to_owned(), bytes: 3 }],
            findings: Some(vec![HygieneResult {
                kind: HygieneKind::Secret,
                path: text.to_owned(),
                line: Some(3),
                detail: text.to_owned(),
            }]),
            degraded: vec![text.to_owned()],
            claims: vec![Claim {
                claim: ClaimKind::TestsPass,
                verdict: ClaimVerdict::Contradicted,
                quote: text.to_owned(),
                evidence: text.to_owned(),
            }],
            mutants: Some(Mutants {
                tried: 2,
                killed: 1,
                survived: vec![Survivor { path: text.to_owned(), line: 7, kind: MutantKind::Constant }],
                ..Mutants::default()
            }),
            tree: Some(Digest::of(b"")),
            answer: Some(text.to_owned()),
            model: Some("scripted:m".to_owned()),
            ..RunResult::refused(Some(id), None, &armed, &refusal)
        };
        result.gates.get_mut(&GateKey::Check).unwrap().detail = Some(text.to_owned());
        result.gates.get_mut(&GateKey::Repro).unwrap().repro =
            Some(ReproResult { declared: None, skipped: Some(text.to_owned()) });
        let finding = |fate| ReviewFinding {
            round: 1,
            file: text.to_owned(),
            quote: text.to_owned(),
            severity: Severity::Blocker,
            confidence: 9,
            failure_scenario: text.to_owned(),
            repro: Some(vec![text.to_owned()]),
            fate,
            why: text.to_owned(),
            asked: false,
            on_final: None,
            on_base: None,
        };
        result.gates.get_mut(&GateKey::Review).unwrap().review = Some(ReviewResult {
            model: Some(text.to_owned()),
            same_model: Some(true),
            rounds: 2,
            findings: vec![finding(Fate::Blocked), finding(Fate::Advised), finding(Fate::Dropped)],
            ..ReviewResult::default()
        });
        result
    }

    #[test]
    fn a_session_without_an_end_runs_or_says_what_is_wrong() {
        let mut result = RunResult { outcome: None, reason: None, error: None, ..judged("x") };
        let report = markdown(&result, None);
        assert!(report.starts_with("## Countersign: `running`\n\nIt is still running"), "{report}");
        result.error =
            Some(crate::result::ErrorResult { kind: "lost", message: "nobody drives it".to_owned() });
        let report = markdown(&result, None);
        assert!(report.starts_with("## Countersign: `no verdict`"), "{report}");
        assert!(report.contains("nobody drives it") && !report.contains("running"), "{report}");
    }

    #[test]
    fn nothing_of_others_leaves_its_code() {
        // One line stands in a span, several in a block.
        let innocent = ["innocent", "innocent\ninnocent"]
            .map(|text| outside_of_code(&markdown(&judged(text), Some(text.as_bytes()))));
        assert!(!innocent.concat().contains("innocent"), "{innocent:?}");
        for text in HOSTILE {
            let report = markdown(&judged(text), Some(text.as_bytes()));
            let expected = &innocent[usize::from(text.contains('\n'))];
            assert_eq!(&outside_of_code(&report), expected, "{text:?}: {report}");
            assert!(!report.contains(['\u{202e}', '\u{1b}']), "{report}");
        }
        // The reader of this test must be able to see what is outside.
        assert!(outside_of_code("a `b` @c").contains("@c"));
        assert!(outside_of_code("```\nx\n```\n@d").contains("@d"));
    }

    /// Texts put together at random from what Markdown, HTML and terminals listen to.
    #[test]
    fn no_text_put_together_from_marks_leaves_its_code() {
        const PARTS: &[&str] = &[
            "`",
            "``",
            "```",
            "````",
            "~~~",
            "\n",
            "\n\n",
            "\r",
            "\r\n",
            "\u{2028}",
            "\u{b}",
            "\u{c}",
            "\u{85}",
            "    ",
            "\t",
            " ",
            "- ",
            "> ",
            "| ",
            "# ",
            "---\n",
            "<script>",
            "<!--",
            "-->",
            "<details>",
            "</",
            "](x)",
            "![",
            "[x]: ",
            "@x",
            "&lt;",
            "https://h/",
            "\u{202e}",
            "\u{200b}",
            "\u{1b}[2J",
            "\u{9b}31m",
            "\\",
            "$$",
            "```diff\n",
            "\n```\n",
            "\n````\n",
            "x",
        ];
        let mut state = 7_u64;
        let mut below = |n: usize| {
            // Knuth's multiplier; the high bits are the good ones.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % n
        };
        for _ in 0..2000 {
            let text: String = (0..=below(12)).map(|_| PARTS[below(PARTS.len())]).collect();
            let report = markdown(&judged(&text), Some(text.as_bytes()));
            let outside = outside_of_code(&report);
            for mark in ["@x", "<", "](", "![", "https:", "&lt;", "$$", "[x]"] {
                assert!(!outside.contains(mark), "{mark} of {text:?}: {report}");
            }
            let odd =
                |c: char| c.is_control() && !"\n\t".contains(c) || "\u{2028}\u{202e}\u{200b}".contains(c);
            assert!(!report.contains(odd), "{text:?}");
        }
    }

    #[test]
    fn a_span_is_never_empty_and_never_long() {
        assert_eq!((code(""), code(" ")), ("`\"\"`".to_owned(), "`\" \"`".to_owned()));
        assert!(code(&"`".repeat(1000)).chars().count() < 4 * MAX_SPAN);
        assert!(block(&"x".repeat(2 * MAX_BLOCK)).contains("[cut here]"));
    }

    #[test]
    fn a_report_for_a_pull_request() {
        insta::assert_snapshot!(markdown(&judged("a `file` of <theirs>"), None));
        let verified = RunResult {
            outcome: Some(Outcome::Verified),
            reason: Some(Reason::ChecksPassed.as_str()),
            strength: Some(Strength { level: StrengthLevel::RedBefore, in_process: true }),
            error: None,
            ..judged("src/lib.rs")
        };
        insta::assert_snapshot!(markdown(&verified, Some(b"diff --git a/src/lib.rs b/src/lib.rs\n+```\n")));
    }
}
