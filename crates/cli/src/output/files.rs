//! Results and plans of moving the page cache of files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use nodeward_linux::file_cache::{CacheScan, FileProblem};
use nodeward_model::Escape as _;
use nodeward_model::units::format_bytes;
use nodeward_mover::{MoveReport, ProcessPlan};
use serde_json::{Value, json};

use super::account::{ending_text, moves_json, pages_text, planned_text, with_ending};
use super::{print, print_outcome, put_name};

/// Prints the result of a move on stdout.
pub fn print_report(
    looked: &CacheScan,
    report: &MoveReport,
    page_bytes: u64,
    as_json: bool,
) -> Result<()> {
    print_outcome(&if as_json {
        format!("{}\n", report_json(looked, report, page_bytes))
    } else {
        report_text(looked, report, page_bytes)
    })
}

/// Prints a plan on stdout.
pub fn print_plan(
    looked: &CacheScan,
    plan: &ProcessPlan,
    page_bytes: u64,
    as_json: bool,
) -> Result<()> {
    print(&if as_json {
        format!("{}\n", plan_json(looked, plan, page_bytes))
    } else {
        plan_text(looked, plan, page_bytes)
    })
}

/// Formats a plan for people.
pub fn plan_text(looked: &CacheScan, plan: &ProcessPlan, page_bytes: u64) -> String {
    let would = format!("would move {} pages\n", plan.pages());
    scan_text(looked) + &would + &planned_text(plan, page_bytes)
}

/// Formats the result of a move for people.
pub fn report_text(looked: &CacheScan, report: &MoveReport, page_bytes: u64) -> String {
    let mut text = scan_text(looked);
    for process in &report.processes {
        text += &pages_text(process, page_bytes);
    }
    match report.processes.is_empty() && report.stopped.is_none() {
        true => text + "nothing of them to move\n",
        false => text + &ending_text(report, report.account().moved * page_bytes),
    }
}

fn scan_text(looked: &CacheScan) -> String {
    let cached = format_bytes(looked.cached_bytes);
    let mut text = format!(
        "files: {} looked at, {} with pages in memory ({cached})\n",
        looked.files, looked.files_cached
    );
    if looked.others > 0 {
        let _ = writeln!(text, "  passed over: {} links, devices, pipes, sockets", looked.others);
    }
    if looked.holes_bytes > 0 {
        let _ = writeln!(
            text,
            "  not looked at: {} of holes (what was read of them is not seen before Linux 6.5)",
            format_bytes(looked.holes_bytes)
        );
    }
    if looked.problems > 0 {
        let _ = writeln!(text, "  left out: {}", looked.problems);
    }
    for FileProblem { path, kind: trouble, error } in &looked.first_problems {
        let error = error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
        let name = trouble.name();
        let _ = writeln!(text, "    {}: {name}{error}: {}", path.escaped(), trouble.advice());
    }
    let told = looked.first_problems.len() as u64;
    if looked.problems > told {
        let _ = writeln!(text, "    and {} more", looked.problems - told);
    }
    text
}

fn scan_json(looked: &CacheScan) -> Value {
    let problem = |problem: &FileProblem| {
        let mut told = json!({
            "trouble": problem.kind.name(),
            "error": problem.error.as_ref().map(ToString::to_string),
        });
        put_name(&mut told, "path", &problem.path.as_path().into());
        told
    };
    json!({
        "files": looked.files,
        "files_cached": looked.files_cached,
        "cached_bytes": looked.cached_bytes,
        "holes_bytes": looked.holes_bytes,
        "others": looked.others,
        "problems": looked.problems,
        "first_problems": looked.first_problems.iter().map(problem).collect::<Vec<_>>(),
    })
}

/// Formats the result of a move for programs.
pub fn report_json(looked: &CacheScan, report: &MoveReport, page_bytes: u64) -> Value {
    let none = BTreeMap::new();
    let pages = report.processes.first();
    let residue = pages.map(|pages| pages.residue).unwrap_or_default();
    let after = pages.map_or(&none, |pages| &pages.after);
    let on_source = json!({ "expected_pages": residue.expected, "seen_pages": residue.seen });
    let verified = report.is_verified();
    let told = json!({
        "schema": "nodeward.files/1",
        "page_bytes": page_bytes,
        "looked": scan_json(looked),
        "account": report.account(),
        "before_pages": pages.map_or(&none, |pages| &pages.before),
        "before_in_flight_pages": pages.map_or(0, |pages| pages.before_in_flight),
        "after_pages": verified.then_some(after),
        "on_source": verified.then_some(on_source),
    });
    with_ending(told, report)
}

/// Formats a plan for programs.
pub fn plan_json(looked: &CacheScan, plan: &ProcessPlan, page_bytes: u64) -> Value {
    json!({
        "schema": "nodeward.files-plan/1",
        "page_bytes": page_bytes,
        "looked": scan_json(looked),
        "moves": moves_json(plan),
        "folios_by_pages": plan.folios,
        "stays": plan.account,
        "residency_pages": plan.residency,
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use nodeward_linux::file_cache::ProblemKind;
    use nodeward_machine::Liveness;
    use nodeward_model::{Account, NodeId, Pid, SkipReason};
    use nodeward_mover::{ProcessReport, Residue};

    use super::*;

    /// Three files; two could not be examined, and a third problem is only counted.
    fn looked() -> CacheScan {
        let problem = |path: &str, trouble, error: Option<io::ErrorKind>| FileProblem {
            path: path.into(),
            kind: trouble,
            error: error.map(Into::into),
        };
        CacheScan {
            files: 3,
            files_cached: 2,
            cached_bytes: 1 << 30,
            holes_bytes: 4 << 40,
            others: 4,
            problems: 3,
            not_permitted: 2,
            first_problems: vec![
                problem("/srv/key", ProblemKind::Unreadable, Some(io::ErrorKind::PermissionDenied)),
                problem("/srv/of-others", ProblemKind::Untold, None),
            ],
            ..CacheScan::default()
        }
    }

    /// 1 GiB, of which 3 pages are mapped by others and 2 were dropped again.
    fn report() -> MoveReport {
        let skipped = [(SkipReason::Shared, 3), (SkipReason::NotPresent, 2)].into();
        let account = Account { moved: 262_139, already_there: 0, skipped };
        let process = ProcessReport {
            pid: Pid::new(4711).unwrap(),
            account,
            before: [(NodeId(0), 262_144)].into(),
            before_in_flight: 0,
            after: [(NodeId(0), 3), (NodeId(1), 262_139)].into(),
            unexamined_bytes: 0,
            verified: true,
            residue: Residue { expected: 3, seen: 3 },
            life: Liveness::Running,
        };
        MoveReport {
            processes: vec![process],
            moving_ns: 1_000_000_000,
            verifying_ns: 20_000_000,
            workers: 2,
            ..MoveReport::default()
        }
    }

    #[test]
    fn the_account_as_text() {
        insta::assert_snapshot!(report_text(&looked(), &report(), 4096));
    }

    #[test]
    fn the_account_as_json() {
        let value = report_json(&looked(), &report(), 4096);
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn a_plan_as_json() {
        let plan = ProcessPlan {
            moves: [((NodeId(0), NodeId(1)), 1536)].into(),
            folios: [(1, 512), (512, 2)].into(),
            account: Account { already_there: 7, ..Account::default() },
            residency: [(NodeId(0), 1536), (NodeId(1), 7)].into(),
            in_flight: 0,
        };
        let value = plan_json(&looked(), &plan, 4096);
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn nothing_in_memory_is_nothing_to_move() {
        let looked = CacheScan { files: 3, ..CacheScan::default() };
        let text = report_text(&looked, &MoveReport::default(), 4096);
        let expected =
            "files: 3 looked at, 0 with pages in memory (0 B)\nnothing of them to move\n";
        assert_eq!(text, expected);
    }
}
