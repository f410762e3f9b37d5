//! Output of `nodeward doctor`.

use std::fmt::Write;

use nodeward_linux::probes::{CheckResult, Role, can_move};
use serde::Serialize;

/// The version of the JSON.
const SCHEMA: &str = "nodeward.doctor/1";

/// Formats all findings, as a table for people.
pub fn text(findings: &[CheckResult]) -> String {
    let mut text = String::new();
    for (role, title) in [
        (Role::Needed, "Needed to move pages"),
        (Role::Helps, "Moves more, or faster"),
        (Role::Environment, "This machine"),
    ] {
        section(&mut text, title, findings.iter().filter(|finding| finding.role == role));
    }
    text.push_str(verdict(findings));
    text
}

fn section<'a>(text: &mut String, title: &str, findings: impl Iterator<Item = &'a CheckResult>) {
    let _ = writeln!(text, "{title}"); // writing to a string cannot fail
    for CheckResult { check, relevance: matters, state, .. } in findings {
        let _ = writeln!(text, "  {:<8} {check:<15} {}", state.name(), state.observation());
        if let Some(fix) = state.fix() {
            let _ = writeln!(text, "{:27}why: {matters}\n{:27}fix: {fix}", "", "");
        }
    }
    text.push('\n');
}

fn verdict(findings: &[CheckResult]) -> &'static str {
    match can_move(findings) {
        true => "Pages can be moved here.\n",
        false => "Pages cannot be moved here; see the first section.\n",
    }
}

/// Formats all findings, for programs.
pub fn json(findings: &[CheckResult]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&DoctorReport::of(findings))
}

#[derive(Serialize)]
struct DoctorReport<'a> {
    schema: &'static str,
    can_move: bool,
    findings: Vec<CheckLine<'a>>,
}

#[derive(Serialize)]
struct CheckLine<'a> {
    check: &'a str,
    role: &'static str,
    state: &'static str,
    seen: &'a str,
    matters: &'a str,
    fix: Option<&'a str>,
}

impl<'a> DoctorReport<'a> {
    fn of(findings: &'a [CheckResult]) -> Self {
        let findings_json = findings.iter().map(CheckLine::of).collect();
        Self { schema: SCHEMA, can_move: can_move(findings), findings: findings_json }
    }
}

impl<'a> CheckLine<'a> {
    fn of(finding: &'a CheckResult) -> Self {
        let role = match finding.role {
            Role::Needed => "needed",
            Role::Helps => "helps",
            Role::Environment => "around",
        };
        Self {
            check: finding.check,
            role,
            state: finding.state.name(),
            seen: finding.state.observation(),
            matters: finding.relevance,
            fix: finding.state.fix(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeward_linux::probes::CheckState;

    fn findings(move_pages: CheckState) -> Vec<CheckResult> {
        let finding =
            |check, role, matters, state| CheckResult { check, role, relevance: matters, state };
        let hinders = CheckState::Hinders {
            reason: "on (1): pages follow threads".to_owned(),
            fix: "sysctl kernel.numa_balancing=0".to_owned(),
        };
        let unknown = CheckState::Unknown { reason: "we are process 1 ourselves".to_owned() };
        vec![
            finding("move-pages", Role::Needed, "moves pages", move_pages),
            finding("other-users", Role::Helps, "processes of other users", unknown),
            finding("numa-balancing", Role::Environment, "the kernel may move pages back", hinders),
        ]
    }

    fn works() -> Vec<CheckResult> {
        findings(CheckState::Works("moved a page of ours on node 0".to_owned()))
    }

    fn missing() -> Vec<CheckResult> {
        findings(CheckState::Missing {
            reason: "a seccomp filter refuses the call".to_owned(),
            fix: "start the container with a seccomp profile that allows it".to_owned(),
        })
    }

    /// Goal: a failure stands out with its reason and its remedy; a success takes one line.
    #[test]
    fn people_see_what_to_do() {
        insta::assert_snapshot!("works", text(&works()));
        insta::assert_snapshot!("missing", text(&missing()));
    }

    /// Goal: the JSON keeps its shape.
    #[test]
    fn programs_see_the_same() {
        insta::assert_snapshot!("json", json(&missing()).unwrap());
    }
}
