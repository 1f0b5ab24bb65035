//! Held-out inputs: the program is called with what no agent saw, and its answer is compared outside of its process.
//!
//! The room gets an input as standard input or arguments and nothing else. What is right stays here, so that no code in the
//! room can look it up.

use std::collections::BTreeMap;

use countersign_kernel::contract::{CheckTerms, Compare, Expect, HeldOutTerms};
use countersign_types::{
    Digest, GateStatus, Hasher, JobEnd, JobReceipt, LimitHit, Reason, Strength, StrengthLevel,
};
use serde::{Deserialize, Serialize};

use super::file::{ProfileError, ProfileFiles};
use crate::check::{CheckDecision, how_it_ended};
use crate::evidence::Cause;

/// Cases of one check.
const MAX_CASES: usize = 256;
/// Bytes of one input or answer.
pub(crate) const MAX_CASE_BYTES: usize = 1 << 20;
/// Names of wrong cases that are kept.
const MAX_NAMES: usize = 20;

/// One input and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldOutCase {
    pub name: String,
    /// Behind the program's own words.
    pub args: Vec<String>,
    pub stdin: Vec<u8>,
    /// What a right program writes to standard output.
    pub stdout: Vec<u8>,
    pub code: i32,
}

/// What one case showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseEnd {
    Right,
    Wrong,
    /// Nothing can be said: the machine, not the program.
    NoAnswer(String),
}

/// What all cases showed on one tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldOutSeen {
    /// None: it was built, or nothing had to be. Else why not.
    pub not_built: Option<String>,
    pub right: u32,
    /// Names, at most 20.
    pub wrong: Vec<String>,
    /// Why cases have no answer.
    pub no_answer: Option<String>,
}

/// For records and results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldOutEvidence {
    /// Of the inputs and answers.
    pub digest: Digest,
    pub cases: u32,
    /// On the final tree.
    pub right: u32,
    /// On the base. None: the base could not be built or asked.
    pub base_right: Option<u32>,
    /// Names of cases that were wrong on the final tree, at most 20; no agent is told.
    pub wrong: Vec<String>,
}

impl HeldOutSeen {
    pub fn add(&mut self, case: &HeldOutCase, end: CaseEnd) {
        match end {
            CaseEnd::Right => self.right += 1,
            CaseEnd::Wrong if self.wrong.len() < MAX_NAMES => self.wrong.push(case.name.clone()),
            CaseEnd::Wrong => {}
            CaseEnd::NoAnswer(what) => {
                self.no_answer.get_or_insert(what);
            }
        }
    }

    const fn answered(&self) -> bool {
        self.not_built.is_none() && self.no_answer.is_none()
    }
}

/// Reads the cases below a directory of the profile, in the order of their names.
pub(super) fn read(files: &ProfileFiles, dir: &str) -> Result<Vec<HeldOutCase>, ProfileError> {
    let prefix = format!("{}/", dir.trim_end_matches('/'));
    let mut parts: BTreeMap<String, BTreeMap<&'static str, &[u8]>> = BTreeMap::new();
    for (path, _, bytes) in files.iter() {
        let Some(name) = path.to_string().strip_prefix(&prefix).map(str::to_owned) else { continue };
        let known = ["in", "out", "args", "code"].into_iter().find(|end| {
            name.strip_suffix(end)
                .is_some_and(|rest| rest.ends_with('.') && rest.len() > 1 && !rest.contains('/'))
        });
        let Some(end) = known else {
            return Err(ProfileError(format!(
                "{prefix}{name} is no part of a case: a case is NAME.out, with NAME.in, NAME.args and NAME.code as needed"
            )));
        };
        if bytes.len() > MAX_CASE_BYTES {
            return Err(ProfileError(format!("{prefix}{name} is larger than 1 MiB")));
        }
        let case = name.trim_end_matches(end).trim_end_matches('.').to_owned();
        parts.entry(case).or_default().insert(end, bytes);
    }
    if prefix.split('/').any(|part| part == ".." || part == ".") || prefix.starts_with('/') {
        return Err(ProfileError(format!(
            "{prefix} leads out of the profile: name a directory inside of it, such as `cases`"
        )));
    }
    if parts.is_empty() || parts.len() > MAX_CASES {
        return Err(ProfileError(format!(
            "{prefix} has to hold 1 to {MAX_CASES} cases, and it holds {}",
            parts.len()
        )));
    }
    parts.into_iter().map(|(name, parts)| case(name, &parts, &prefix)).collect()
}

fn case(
    name: String,
    parts: &BTreeMap<&'static str, &[u8]>,
    prefix: &str,
) -> Result<HeldOutCase, ProfileError> {
    let refuse = |end: &str, what: &str| ProfileError(format!("{prefix}{name}.{end} {what}"));
    let stdout = parts.get("out").ok_or_else(|| refuse("out", "is missing"))?.to_vec();
    let args: Vec<String> = match parts.get("args") {
        None => Vec::new(),
        Some(bytes) => serde_json::from_slice(bytes)
            .ok()
            .filter(|args: &Vec<String>| !args.iter().any(|arg| arg.contains('\0')))
            .ok_or_else(|| refuse("args", "has to be a JSON array of strings"))?,
    };
    let code = match parts.get("code") {
        None => 0,
        Some(bytes) => std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .filter(|code| (0..=255).contains(code))
            .ok_or_else(|| refuse("code", "has to be an exit code from 0 to 255"))?,
    };
    let stdin = parts.get("in").map_or_else(Vec::new, |bytes| bytes.to_vec());
    if stdin.is_empty() && args.is_empty() {
        return Err(refuse("in", "is missing or empty, and there is no NAME.args: a case needs an input"));
    }
    Ok(HeldOutCase { name, args, stdin, stdout, code })
}

/// sha256 over every case: lengths in front of each part, so that no two sets have the same bytes.
pub(super) fn digest(cases: &[HeldOutCase]) -> Digest {
    let mut hasher = Hasher::default();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    };
    for case in cases {
        part(case.name.as_bytes());
        part(&(case.args.len() as u64).to_be_bytes());
        case.args.iter().for_each(|arg| part(arg.as_bytes()));
        part(&case.stdin);
        part(&case.stdout);
        part(&case.code.to_be_bytes());
    }
    hasher.finish()
}

/// Compares one answer. The receipt is as it came, before anything was taken out of it.
#[must_use]
pub fn judge_case(case: &HeldOutCase, terms: &HeldOutTerms, receipt: &JobReceipt) -> CaseEnd {
    // Only what had its whole time was too slow.
    if terms.within.is_some_and(|within| receipt.wall >= within) {
        return CaseEnd::Wrong;
    }
    match &receipt.end {
        JobEnd::Exited { code } if *code == case.code => {
            let stdout = &receipt.stdout;
            let whole = stdout.omitted == 0 && stdout.tail.is_empty();
            if whole && same(terms.compare, &stdout.head, &case.stdout) {
                CaseEnd::Right
            } else {
                CaseEnd::Wrong
            }
        }
        // A crash and a flood are answers, and wrong ones.
        JobEnd::Exited { .. } | JobEnd::Signaled { .. } | JobEnd::Limit { which: LimitHit::Output } => {
            CaseEnd::Wrong
        }
        end => CaseEnd::NoAnswer(how_it_ended(end)),
    }
}

fn same(compare: Compare, seen: &[u8], right: &[u8]) -> bool {
    match compare {
        Compare::Exact => seen == right,
        Compare::Lines => {
            let lines = |bytes: &'_ [u8]| -> Vec<Vec<u8>> {
                let mut lines: Vec<Vec<u8>> =
                    bytes.split(|b| *b == b'\n').map(|line| line.trim_ascii_end().to_vec()).collect();
                while lines.last().is_some_and(Vec::is_empty) {
                    lines.pop();
                }
                lines
            };
            lines(seen) == lines(right)
        }
    }
}

/// Why a guard's base is not fit to start from; None when it is.
#[must_use]
pub fn guards_on_base(terms: &CheckTerms, base: &HeldOutSeen) -> Option<String> {
    let cases = terms.held_out.as_ref()?.cases;
    if terms.expect != Expect::Guard || (base.answered() && base.right == cases) {
        return None;
    }
    let why = base.not_built.as_ref().or(base.no_answer.as_ref());
    Some(match why {
        Some(why) => format!("the held-out inputs have no answer on the base: {why}"),
        None => format!(
            "{} of {cases} held-out inputs are answered right on the base, and a guard must be green there",
            base.right
        ),
    })
}

/// What a green decision is worth beside the held-out inputs.
#[must_use]
pub fn judge_held_out(
    terms: &CheckTerms,
    decision: CheckDecision,
    base: &HeldOutSeen,
    after: &HeldOutSeen,
) -> (CheckDecision, Option<HeldOutEvidence>) {
    let Some(held_out) = &terms.held_out else { return (decision, None) };
    let cases = held_out.cases;
    let evidence = HeldOutEvidence {
        digest: held_out.digest,
        cases,
        right: after.right,
        base_right: base.answered().then_some(base.right),
        wrong: after.wrong.clone(),
    };
    if decision.status != GateStatus::Passed {
        return (decision, Some(evidence));
    }
    let judged = if let Some(why) = &after.not_built {
        CheckDecision::failed(format!("the program for the held-out inputs cannot be built: {why}"))
            .because(Cause::HeldOut)
    } else if !after.wrong.is_empty() {
        let wrong = cases.saturating_sub(after.right);
        CheckDecision::failed(format!("{wrong} of {cases} held-out inputs are not answered right"))
            .because(Cause::HeldOut)
    } else if let Some(why) = &after.no_answer {
        CheckDecision::inconclusive(format!("held-out inputs have no answer: {why}")).because(Cause::Infra)
    } else if after.right != cases {
        CheckDecision::inconclusive("not every held-out input was tried").because(Cause::Report)
    } else {
        // Answers that were right before the change show nothing of it.
        let tells = terms.expect == Expect::Guard || !base.answered() || base.right < cases;
        let detail = format!("{}; {cases} of {cases} held-out inputs are answered right", decision.detail);
        // What is right was compared here, where no code under test runs.
        let strength = tells
            .then_some(Strength { level: StrengthLevel::HeldOut, in_process: false })
            .or(decision.strength);
        return (CheckDecision { strength, detail, ..decision }, Some(evidence));
    };
    let judged = CheckDecision { counts: decision.counts, ..judged.withheld() };
    (judged, Some(evidence))
}

/// The profile is not what the contract pinned.
#[must_use]
pub fn profile_changed(why: &str) -> CheckDecision {
    CheckDecision::not_passed(GateStatus::Failed, Reason::ProfileChanged, why.to_owned())
        .because(Cause::Profile)
}

#[cfg(test)]
mod tests {
    use countersign_types::{Captured, JobId, Millis};

    use super::*;

    fn receipt(end: JobEnd, stdout: &[u8]) -> JobReceipt {
        JobReceipt {
            job: JobId::new("j1").unwrap(),
            end,
            stdout: Captured { head: stdout.to_vec(), total: stdout.len() as u64, ..Captured::default() },
            stderr: Captured::default(),
            wall: Millis(1),
            killed: 0,
        }
    }

    fn one() -> HeldOutCase {
        HeldOutCase {
            name: "a".to_owned(),
            args: Vec::new(),
            stdin: b"1h".to_vec(),
            stdout: b"3600\n".to_vec(),
            code: 0,
        }
    }

    #[test]
    fn an_answer_is_right_by_its_bytes_and_its_exit_code() {
        let ok = JobEnd::Exited { code: 0 };
        let terms = |compare| HeldOutTerms {
            argv: vec!["x".to_owned()],
            build: None,
            compare,
            timeout: Millis(1000),
            within: None,
            cases: 1,
            digest: Digest::of(b""),
        };
        let judge = |compare, end: &JobEnd, out: &[u8]| {
            judge_case(&one(), &terms(compare), &receipt(end.clone(), out))
        };
        assert_eq!(judge(Compare::Exact, &ok, b"3600\n"), CaseEnd::Right);
        assert_eq!(judge(Compare::Exact, &ok, b"3600"), CaseEnd::Wrong);
        assert_eq!(judge(Compare::Lines, &ok, b"3600  \n\n"), CaseEnd::Right);
        assert_eq!(judge(Compare::Lines, &ok, b" 3600\n"), CaseEnd::Wrong);
        assert_eq!(judge(Compare::Lines, &ok, b"3600\n1\n"), CaseEnd::Wrong);
        assert_eq!(judge(Compare::Exact, &JobEnd::Exited { code: 1 }, b"3600\n"), CaseEnd::Wrong);
        assert_eq!(judge(Compare::Exact, &JobEnd::Signaled { signal: 11 }, b"3600\n"), CaseEnd::Wrong);
        assert_eq!(judge(Compare::Exact, &JobEnd::Limit { which: LimitHit::Output }, b""), CaseEnd::Wrong);
        for end in [JobEnd::Limit { which: LimitHit::Timeout }, JobEnd::Canceled] {
            assert!(matches!(judge(Compare::Exact, &end, b"3600\n"), CaseEnd::NoAnswer(_)), "{end:?}");
        }
        let mut cut = receipt(ok, b"3600\n");
        cut.stdout.omitted = 1;
        assert_eq!(judge_case(&one(), &terms(Compare::Exact), &cut), CaseEnd::Wrong);
        // Too slow is wrong only where the profile says what too slow is.
        let slow = HeldOutTerms { within: Some(Millis(5)), ..terms(Compare::Exact) };
        let mut late = receipt(JobEnd::Exited { code: 0 }, b"3600\n");
        assert_eq!(judge_case(&one(), &slow, &late), CaseEnd::Right);
        late.wall = Millis(5);
        assert_eq!(judge_case(&one(), &slow, &late), CaseEnd::Wrong);
    }

    #[test]
    fn no_two_sets_of_cases_have_one_digest() {
        let mut moved = one();
        moved.name = "a1".to_owned();
        moved.stdin = b"h".to_vec();
        let mut answer = one();
        answer.stdout = b"3601\n".to_vec();
        let all = [one(), moved, answer].map(|case| digest(&[case]));
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        assert_ne!(digest(&[one()]), digest(&[one(), one()]));
    }
}
