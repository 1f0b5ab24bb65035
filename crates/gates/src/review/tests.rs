use countersign_guest::protocol::{Material, MaterialFile, Signal, SignalKind};
use countersign_tree::TreePath;
use countersign_types::{Captured, JobId, JobReceipt, LimitHit, Millis};
use serde_json::json;

use super::*;

fn draft(severity: Severity, confidence: u8, repro: Option<&[&str]>) -> Draft {
    Draft {
        file: "src/a.py".to_owned(),
        quote: "return x".to_owned(),
        severity,
        confidence,
        failure_scenario: "x is None".to_owned(),
        repro: repro.map(|argv| argv.iter().map(|word| (*word).to_owned()).collect()),
    }
}

fn finding(draft: &Draft, fate: Fate) -> ReviewFinding {
    ReviewFinding {
        round: 1,
        file: draft.file.clone(),
        quote: draft.quote.clone(),
        severity: draft.severity,
        confidence: draft.confidence,
        failure_scenario: draft.failure_scenario.clone(),
        repro: draft.repro.clone(),
        fate,
        why: String::new(),
        asked: false,
        on_final: None,
        on_base: None,
    }
}

const fn exit(code: i32) -> JobEnd {
    JobEnd::Exited { code }
}

const TIMEOUT: JobEnd = JobEnd::Limit { which: LimitHit::Timeout };

fn one(extra: serde_json::Value) -> String {
    let mut finding = json!({
        "file": "a", "quote": "q", "severity": "blocker", "confidence": 9, "failure_scenario": "s",
    });
    for (key, value) in extra.as_object().unwrap() {
        finding[key] = value.clone();
    }
    json!({ "findings": [finding] }).to_string()
}

#[test]
fn an_answer_is_the_object_that_was_asked_for_or_of_no_use() {
    let answer = findings(&one(json!({ "repro": ["sh", "-c", "false"] }))).unwrap();
    assert_eq!(answer.findings[0].repro.as_deref().unwrap(), ["sh", "-c", "false"]);
    assert_eq!(findings("{\"findings\": []}").unwrap(), Answer::default());
    assert_eq!(findings("```json\n{\"findings\": []}\n```").unwrap(), Answer::default());
    for junk in [
        "",
        "looks good to me",
        "[]",
        "{}",
        "{\"findings\": {}}",
        "{\"findings\": [], \"verdict\": \"passed\"}",
        "{\"findings\": []} and that is all",
        "Here it is:\n```json\n{\"findings\": []}\n```",
        "{\"findings\": [], \"findings\": []}",
        &format!("{{\"findings\": []{}}}", " ".repeat(300_000)),
    ] {
        let why = findings(junk).unwrap_err();
        assert!(!why.contains("good to me"), "{why}");
    }
}

#[test]
fn a_finding_without_its_form_is_left_out_and_an_answer_of_such_only_is_junk() {
    for wrong in [
        json!({ "confidence": 11 }),
        json!({ "confidence": -1 }),
        json!({ "confidence": 8.5 }),
        json!({ "confidence": "9" }),
        json!({ "severity": "critical" }),
        json!({ "quote": " \n" }),
        json!({ "quote": "q".repeat(3000) }),
        json!({ "file": "" }),
        json!({ "failure_scenario": null }),
        json!({ "repro": [] }),
        json!({ "repro": "false" }),
        json!({ "repro": ["a\u{0}b"] }),
        json!({ "repro": vec!["x"; 40] }),
        json!({ "repro": ["x".repeat(10_000)] }),
        json!({ "fate": "blocked" }),
    ] {
        assert!(findings(&one(wrong.clone())).is_err(), "{wrong}");
    }
    let fine: serde_json::Value = serde_json::from_str(&one(json!({}))).unwrap();
    let mixed = json!({ "findings": [fine["findings"][0], 7] }).to_string();
    let answer = findings(&mixed).unwrap();
    assert_eq!((answer.findings.len(), answer.malformed), (1, 1));
    let many = json!({ "findings": vec![fine["findings"][0].clone(); 30] }).to_string();
    let answer = findings(&many).unwrap();
    assert_eq!((answer.findings.len(), answer.more), (MAX_FINDINGS, 10));
}

#[test]
fn commands_are_taken_for_the_findings_that_were_asked_about() {
    let text = json!({ "repros": [
        { "finding": 2, "argv": ["false"] },
        { "finding": 2, "argv": ["true"] },
        { "finding": 3, "argv": ["out of range"] },
        { "finding": 0, "argv": ["x"] },
        { "finding": 1, "argv": [] },
        "junk",
    ] });
    let by_finding = repros(&text.to_string(), 2).unwrap();
    assert_eq!(by_finding.into_iter().collect::<Vec<_>>(), [(2, vec!["false".to_owned()])]);
    assert!(repros("no", 1).is_err());
}

#[test]
fn of_equal_findings_the_most_severe_stands() {
    let note = draft(Severity::Note, 3, None);
    let grave = Draft { failure_scenario: "grave".to_owned(), ..draft(Severity::Blocker, 9, None) };
    let shown = Draft { quote: " return x\n".to_owned(), ..draft(Severity::Note, 1, Some(&["false"])) };
    for order in [[&note, &grave, &shown], [&shown, &grave, &note], [&grave, &note, &shown]] {
        let all = merged(order.into_iter().cloned().collect());
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].severity, all[0].confidence), (Severity::Blocker, 9));
        assert_eq!((all[0].failure_scenario.as_str(), all[0].repro.is_some()), ("grave", true));
    }
    // Two different commands are two findings: neither hides the other.
    let other = draft(Severity::Blocker, 9, Some(&["sh", "-c", "exit 3"]));
    assert_eq!(merged(vec![shown, other]).len(), 2);
}

#[test]
fn a_quote_that_is_not_in_the_file_drops_its_finding_whatever_it_says() {
    let grave = draft(Severity::Blocker, 10, Some(&["false"]));
    for quoted in [Quoted::NotThere, Quoted::NoFile] {
        assert_eq!(first_look(&grave, quoted).unwrap().0, Fate::Dropped);
    }
    assert_eq!(first_look(&grave, Quoted::Verbatim), None, "its command decides");
    let note = draft(Severity::Note, 10, Some(&["false"]));
    assert_eq!(first_look(&note, Quoted::Verbatim).unwrap().0, Fate::Note);
}

/// Without a command that was seen to fail, no confidence blocks.
#[test]
fn without_a_command_a_finding_advises_whatever_its_confidence() {
    for confidence in 0..=10 {
        let (fate, _) = first_look(&draft(Severity::Blocker, confidence, None), Quoted::Verbatim).unwrap();
        assert_eq!(fate, if confidence >= ADVISES_FROM { Fate::Advised } else { Fate::Note }, "{confidence}");
    }
}

#[test]
fn only_a_grave_finding_without_a_command_is_asked_for_one_and_only_once() {
    let asked = |severity, confidence, repro, asked| {
        let one = finding(&draft(severity, confidence, repro), Fate::Advised);
        wants_repro(&ReviewFinding { asked, ..one })
    };
    assert!(asked(Severity::Blocker, 7, None, false));
    assert!(!asked(Severity::Blocker, 6, None, false), "not sure enough");
    assert!(!asked(Severity::Blocker, 9, Some(&["x"]), false), "it has one");
    assert!(!asked(Severity::Blocker, 9, None, true), "asked already");
    assert!(!asked(Severity::Note, 9, None, false));
}

#[test]
fn a_command_decides_by_how_it_ends_on_both_trees() {
    let argv = ["sh".to_owned(), "x.sh".to_owned()];
    let fate = |confidence, on_final: &JobEnd, changed, on_base: Option<&JobEnd>| {
        settled(&argv, confidence, on_final, changed, on_base).0
    };
    // Confirmed at any confidence.
    assert_eq!(fate(0, &exit(1), false, Some(&exit(0))), Fate::Blocked);
    assert_eq!(
        fate(9, &JobEnd::Signaled { signal: 11 }, false, Some(&exit(0))),
        Fate::Blocked,
        "a crash is red"
    );
    // The base fails too, or cannot tell: nothing is shown of this change.
    assert_eq!(fate(9, &exit(1), false, Some(&exit(1))), Fate::Advised);
    assert_eq!(fate(9, &exit(1), false, Some(&TIMEOUT)), Fate::Advised);
    assert_eq!(fate(9, &exit(1), false, None), Fate::Advised);
    // It passes: refuted, unless the reviewer is sure and the failure may depend on timing.
    assert_eq!(fate(7, &exit(0), false, None), Fate::Refuted);
    assert_eq!(fate(8, &exit(0), false, None), Fate::Advised);
    // The machine's faults are nobody's.
    for end in [TIMEOUT, exit(127), exit(126), exit(137), JobEnd::Signaled { signal: 9 }] {
        assert_eq!(fate(9, &end, false, Some(&exit(0))), Fate::Advised, "{end:?}");
    }
    // What changes the judged files says nothing, red or green.
    assert_eq!(fate(9, &exit(1), true, Some(&exit(0))), Fate::Dropped);
    assert_eq!(fate(9, &exit(0), true, None), Fate::Dropped);
    // A runner that ran nothing, or could not read the tests, shows no failure.
    let pytest = ["pytest".to_owned()];
    for code in [2, 3, 4, 5] {
        assert_eq!(settled(&pytest, 9, &exit(code), false, Some(&exit(0))).0, Fate::Advised, "{code}");
    }
}

#[test]
fn only_a_later_green_repairs_and_an_unclear_end_leaves_it_open() {
    let argv = ["sh".to_owned()];
    assert_eq!(again(&argv, &exit(0), false).unwrap().0, Fate::Repaired);
    assert_eq!(again(&argv, &exit(1), false).unwrap().0, Fate::Blocked);
    assert_eq!(again(&argv, &exit(1), true).unwrap().0, Fate::Blocked);
    assert_eq!(again(&argv, &exit(0), true), None, "it made itself green");
    assert_eq!(again(&argv, &TIMEOUT, false), None);
}

#[test]
fn the_reviewer_sees_the_change_and_nothing_can_pose_as_its_end() {
    let material = Material {
        diff: "+x\n===== end\n".to_owned(),
        diff_cut: true,
        files: vec![
            MaterialFile {
                path: TreePath::new("a\u{1b}.py").unwrap(),
                text: "x = 1\n".to_owned(),
                cut: false,
                binary: false,
                bytes: 6,
            },
            MaterialFile {
                path: TreePath::new("b.png").unwrap(),
                text: String::new(),
                cut: false,
                binary: true,
                bytes: 9,
            },
        ],
        left_out: 2,
        signals: vec![Signal { kind: SignalKind::AddedSkip, path: TreePath::new("t.py").unwrap(), line: 3 }],
    };
    let text = brief("mend it", &[vec!["make".to_owned(), "test".to_owned()]], &material, "f00d");
    for wanted in [
        "mend it",
        "make test",
        "(cut: it goes on)",
        "x = 1",
        "9 bytes",
        "2 more",
        "test off was added: t.py line 3",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert_eq!(text.matches("===== f00d end").count(), 5, "{text}");
    assert!(!text.contains('\u{1b}'));
    let long = brief(&"t".repeat(100_000), &[], &Material::default(), "f00d");
    assert!(long.len() < 20_000);
}

#[test]
fn what_goes_to_the_agent_is_bounded_and_names_the_command() {
    let receipt = JobReceipt {
        job: JobId::new("j1").unwrap(),
        end: exit(1),
        stdout: Captured { head: vec![b'o'; 100_000], total: 100_000, ..Captured::default() },
        stderr: Captured::default(),
        wall: Millis(1),
        killed: 0,
    };
    let mut one = finding(&draft(Severity::Blocker, 9, Some(&["sh", "-c", "exit 1"])), Fate::Blocked);
    one.on_final = Some(exit(1));
    one.failure_scenario = "bad\u{1b}[2J".to_owned();
    let item = FeedbackFinding { finding: &one, receipt: Some(&receipt) };
    let text = review_feedback(&[item; 20]);
    assert!(
        text.len() <= 16 * 1024 && text.contains("$ sh -c 'exit 1'\nexit code 1") && !text.contains('\u{1b}')
    );
    assert_eq!(
        sentence(&[one.clone(), one], 1, 2),
        "findings: 2 blocked, 1 without the form that was asked for, 2 more than are looked at"
    );
    assert_eq!(sentence(&[], 0, 0), "no findings");
}
