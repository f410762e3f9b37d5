//! Output of `nodeward doctor`.

use std::fmt::Write;

use nodeward_linux::probes::{Finding, Role, can_move};
use serde::Serialize;

/// The version of the JSON.
const SCHEMA: &str = "nodeward.doctor/1";

/// Formats all findings, as a table for people.
pub fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for (role, title) in [
        (Role::Needed, "Needed to move pages"),
        (Role::Helps, "Moves more, or faster"),
        (Role::Around, "This machine"),
    ] {
        section(&mut text, title, findings.iter().filter(|finding| finding.role == role));
    }
    text.push_str(verdict(findings));
    text
}

fn section<'a>(text: &mut String, title: &str, findings: impl Iterator<Item = &'a Finding>) {
    let _ = writeln!(text, "{title}"); // writing to a string cannot fail
    for Finding { check, matters, state, .. } in findings {
        let _ = writeln!(text, "  {:<8} {check:<15} {}", state.name(), state.seen());
        if let Some(fix) = state.fix() {
            let _ = writeln!(text, "{:27}why: {matters}\n{:27}fix: {fix}", "", "");
        }
    }
    text.push('\n');
}

fn verdict(findings: &[Finding]) -> &'static str {
    match can_move(findings) {
        true => "Pages can be moved here.\n",
        false => "Pages cannot be moved here; see the first section.\n",
    }
}

/// Formats all findings, for programs.
pub fn json(findings: &[Finding]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Report::of(findings))
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    can_move: bool,
    findings: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    check: &'a str,
    role: &'static str,
    state: &'static str,
    seen: &'a str,
    matters: &'a str,
    fix: Option<&'a str>,
}

impl<'a> Report<'a> {
    fn of(findings: &'a [Finding]) -> Self {
        let findings_json = findings.iter().map(Line::of).collect();
        Self { schema: SCHEMA, can_move: can_move(findings), findings: findings_json }
    }
}

impl<'a> Line<'a> {
    fn of(finding: &'a Finding) -> Self {
        let role = match finding.role {
            Role::Needed => "needed",
            Role::Helps => "helps",
            Role::Around => "around",
        };
        Self {
            check: finding.check,
            role,
            state: finding.state.name(),
            seen: finding.state.seen(),
            matters: finding.matters,
            fix: finding.state.fix(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeward_linux::probes::State;

    fn findings(move_pages: State) -> Vec<Finding> {
        let finding = |check, role, matters, state| Finding { check, role, matters, state };
        let hinders = State::Hinders {
            why: "on (1): pages follow threads".to_owned(),
            fix: "sysctl kernel.numa_balancing=0".to_owned(),
        };
        let unknown = State::Unknown { why: "we are process 1 ourselves".to_owned() };
        vec![
            finding("move-pages", Role::Needed, "moves pages", move_pages),
            finding("other-users", Role::Helps, "processes of other users", unknown),
            finding("numa-balancing", Role::Around, "the kernel may move pages back", hinders),
        ]
    }

    fn works() -> Vec<Finding> {
        findings(State::Works("moved a page of ours on node 0".to_owned()))
    }

    fn missing() -> Vec<Finding> {
        findings(State::Missing {
            why: "a seccomp filter refuses the call".to_owned(),
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
