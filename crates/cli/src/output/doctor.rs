//! Output of `nodeward doctor`.

use std::fmt::Write;

use nodeward_linux::probes::{CheckResult, Role, can_move};
use nodeward_machine::AccessSourceStatus;
use serde::Serialize;

/// The version of the JSON.
const SCHEMA: &str = "nodeward.doctor/1";

/// The findings about a machine.
#[derive(Clone, Debug)]
pub struct DoctorFindings {
    /// The checks.
    pub checks: Vec<CheckResult>,
    /// The sources of accesses, the preferred ones first.
    pub access_sources: Vec<AccessSourceStatus>,
}

/// Formats all findings, as a table for people.
pub fn text(findings: &DoctorFindings) -> String {
    let checks = &findings.checks;
    let mut text = String::new();
    for (role, title) in [
        (Role::Needed, "Needed to move pages"),
        (Role::Helps, "Moves more, or faster"),
        (Role::Environment, "This machine"),
    ] {
        section(&mut text, title, checks.iter().filter(|check| check.role == role));
    }
    access_sources(&mut text, &findings.access_sources);
    text.push_str(verdict(checks));
    text
}

/// Lists the sources; of those that do not work, what keeps them from it.
fn access_sources(text: &mut String, sources: &[AccessSourceStatus]) {
    if sources.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "Sources that tell which thread uses which page; the first that works is used"
    );
    for AccessSourceStatus { kind, obstacle, blind_to, price } in sources {
        let (state, words) = match obstacle {
            None => ("ok", *price),
            Some(obstacle) => ("missing", obstacle.as_str()),
        };
        let _ = writeln!(text, "  {state:<8} {:<15} {words}", kind.name());
        if obstacle.is_none() {
            let _ = writeln!(text, "{:27}blind to: {blind_to}", "");
        }
    }
    text.push('\n');
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
pub fn json(findings: &DoctorFindings) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&DoctorReport::of(findings))
}

#[derive(Serialize)]
struct DoctorReport<'a> {
    schema: &'static str,
    can_move: bool,
    findings: Vec<CheckLine<'a>>,
    access_sources: &'a [AccessSourceStatus],
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
    fn of(findings: &'a DoctorFindings) -> Self {
        Self {
            schema: SCHEMA,
            can_move: can_move(&findings.checks),
            findings: findings.checks.iter().map(CheckLine::of).collect(),
            access_sources: &findings.access_sources,
        }
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
    use nodeward_machine::AccessSourceKind;

    fn findings(move_pages: CheckState) -> DoctorFindings {
        DoctorFindings { checks: checks(move_pages), access_sources: sources() }
    }

    fn sources() -> Vec<AccessSourceStatus> {
        let source = |kind, obstacle: Option<&str>| AccessSourceStatus {
            kind,
            obstacle: obstacle.map(str::to_owned),
            blind_to: "accesses that hit a cache",
            price: "an interrupt a sample",
        };
        let off = "kernel.numa_balancing is 0";
        vec![source(AccessSourceKind::Registers, None), source(AccessSourceKind::Faults, Some(off))]
    }

    fn checks(move_pages: CheckState) -> Vec<CheckResult> {
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

    fn works() -> DoctorFindings {
        findings(CheckState::Works("moved a page of ours on node 0".to_owned()))
    }

    fn missing() -> DoctorFindings {
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
