//! What a move did, or would do.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use nodeward_engine::{MoveReport, PlanReport, ProcessPlan, ProcessReport};
use nodeward_machine::Life;
use nodeward_model::units::{show_bytes, show_ns};
use nodeward_model::{Account, NodeId};
use serde_json::{Value, json};

use super::print;

/// Prints the result of a move on stdout.
pub fn print_report(report: &MoveReport, page_bytes: u64, as_json: bool) -> Result<()> {
    print(&if as_json {
        format!("{}\n", report_json(report, page_bytes))
    } else {
        report_text(report, page_bytes)
    })
}

/// Prints a plan on stdout.
pub fn print_plan(report: &PlanReport, page_bytes: u64, as_json: bool) -> Result<()> {
    print(&if as_json {
        format!("{}\n", plan_json(report, page_bytes))
    } else {
        plan_text(report, page_bytes)
    })
}

fn report_text(report: &MoveReport, page_bytes: u64) -> String {
    let mut text = String::new();
    for process in &report.processes {
        text += &process_text(process, page_bytes);
    }
    text + &ending_text(report, page_bytes)
}

/// How much moved, how fast, and what ended it early.
pub(super) fn ending_text(report: &MoveReport, page_bytes: u64) -> String {
    let bytes = report.account().moved * page_bytes;
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(report.moving_ns.max(1));
    let plural = if report.workers == 1 { "" } else { "s" };
    let mut text = format!(
        "moved {} in {} ({}/s, {} worker{plural}), verified in {}\n",
        show_bytes(bytes),
        show_ns(report.moving_ns),
        show_bytes(u64::try_from(rate).unwrap_or(u64::MAX)),
        report.workers,
        show_ns(report.verifying_ns),
    );
    if let Some(ns) = report.longest_hold_ns {
        let _ = writeln!(text, "pages were held for about {} at most", show_ns(ns));
    }
    if report.interrupted {
        text += "interrupted: the same command moves the rest\n";
    }
    if let Some(error) = &report.error {
        let _ = writeln!(text, "ended early: {error}");
    }
    text
}

fn process_text(process: &ProcessReport, page_bytes: u64) -> String {
    let mut text = match process.life {
        Life::Running => format!("process {}\n", process.pid),
        Life::Exited => format!("process {} (it ended meanwhile)\n", process.pid),
        Life::Replaced => format!("process {} (it called exec meanwhile)\n", process.pid),
    };
    text += &pages_text(process, page_bytes);
    text
}

/// Where the pages of a process were and are, and what became of them.
pub(super) fn pages_text(process: &ProcessReport, page_bytes: u64) -> String {
    let mut text = nodes_text(&process.before, &process.after, page_bytes);
    text += &account_text(&process.account, page_bytes);
    let appeared = process.residue.appeared();
    if appeared > 0 {
        let bytes = show_bytes(appeared * page_bytes);
        let _ = writeln!(
            text,
            "  {appeared} pages ({bytes}) appeared on the source since: allocated, or moved back\n\
             \x20 (nodeward doctor tells who might)"
        );
    }
    text
}

fn nodes_text(
    before: &BTreeMap<NodeId, u64>,
    after: &BTreeMap<NodeId, u64>,
    page_bytes: u64,
) -> String {
    let mut nodes: Vec<_> = before.keys().chain(after.keys()).collect();
    nodes.sort();
    nodes.dedup();
    let bytes = |counts: &BTreeMap<NodeId, u64>, node| {
        show_bytes(counts.get(node).copied().unwrap_or(0) * page_bytes)
    };
    let mut text = format!("  {:<6}{:>12}{:>12}\n", "node", "before", "after");
    for node in nodes {
        let _ =
            writeln!(text, "  {:<6}{:>12}{:>12}", node.0, bytes(before, node), bytes(after, node));
    }
    text
}

fn account_text(account: &Account, page_bytes: u64) -> String {
    let mut text = format!(
        "  pages: {} selected = {} moved + {} already there + {} skipped\n",
        account.selected(),
        account.moved,
        account.already_there,
        account.skipped_total()
    );
    for (reason, &pages) in &account.skipped {
        let bytes = show_bytes(pages * page_bytes);
        let _ = writeln!(text, "    {reason:<14}{pages:>10} ({bytes}): {}", reason.advice());
    }
    if !account.skipped.is_empty() {
        text += "    (nodeward explain REASON tells more)\n";
    }
    text
}

fn plan_text(report: &PlanReport, page_bytes: u64) -> String {
    let mut text = String::new();
    for (pid, plan) in &report.processes {
        let _ = writeln!(text, "process {pid}: would move {} pages", plan.pages());
        text += &planned_text(plan, page_bytes);
    }
    text
}

/// What would move, and what would stay.
pub(super) fn planned_text(plan: &ProcessPlan, page_bytes: u64) -> String {
    let mut text = moves_text(plan, page_bytes);
    let stay = plan.account.already_there + plan.account.skipped_total();
    let _ = writeln!(text, "  would stay: {stay} pages");
    if plan.account.already_there > 0 {
        let there = plan.account.already_there;
        let _ = writeln!(text, "    {:<14}{there:>10}", "already there");
    }
    for (reason, &pages) in &plan.account.skipped {
        let _ = writeln!(text, "    {reason:<14}{pages:>10}: {}", reason.advice());
    }
    text
}

fn moves_text(plan: &ProcessPlan, page_bytes: u64) -> String {
    let mut text = String::new();
    for ((from, to), pages) in &plan.moves {
        let bytes = show_bytes(pages * page_bytes);
        let _ = writeln!(text, "  node {from} -> node {to}: {pages} pages ({bytes})");
    }
    for (&pages, count) in &plan.folios {
        let size = show_bytes(u64::from(pages) * page_bytes);
        let _ = writeln!(text, "    in {count} folios of {size}");
    }
    text
}

fn report_json(report: &MoveReport, page_bytes: u64) -> Value {
    let process = |process: &ProcessReport| {
        json!({
            "pid": process.pid,
            "account": process.account,
            "before_pages": process.before,
            "after_pages": process.after,
            "on_source": {
                "expected_pages": process.residue.expected,
                "seen_pages": process.residue.seen,
            },
            "life": life_name(process.life),
        })
    };
    json!({
        "schema": "nodeward.move/1",
        "page_bytes": page_bytes,
        "processes": report.processes.iter().map(process).collect::<Vec<_>>(),
        "account": report.account(),
        "moving_ns": report.moving_ns,
        "verifying_ns": report.verifying_ns,
        "workers": report.workers,
        "longest_hold_ns": report.longest_hold_ns,
        "interrupted": report.interrupted,
        "error": report.error.as_ref().map(ToString::to_string),
    })
}

/// Pages that would move, by where they are and where they go.
pub(super) fn moves_json(plan: &ProcessPlan) -> Vec<Value> {
    let moves = plan.moves.iter();
    moves.map(|((from, to), pages)| json!({ "from": from, "to": to, "pages": pages })).collect()
}

fn plan_json(report: &PlanReport, page_bytes: u64) -> Value {
    let process = |(pid, plan): &(nodeward_model::Pid, ProcessPlan)| {
        json!({
            "pid": pid,
            "moves": moves_json(plan),
            "folios_by_pages": plan.folios,
            "stays": plan.account,
            "residency_pages": plan.residency,
        })
    };
    json!({
        "schema": "nodeward.plan/1",
        "page_bytes": page_bytes,
        "processes": report.processes.iter().map(process).collect::<Vec<_>>(),
    })
}

fn life_name(life: Life) -> &'static str {
    match life {
        Life::Running => "running",
        Life::Exited => "exited",
        Life::Replaced => "replaced",
    }
}

#[cfg(test)]
mod tests {
    use nodeward_engine::Residue;
    use nodeward_model::{Pid, SkipReason};

    use super::*;

    /// A process of 1 GiB on node 0, of which 3 pages were pinned and 2 appeared meanwhile.
    fn report() -> MoveReport {
        let account = Account {
            moved: 262_141,
            already_there: 256,
            skipped: [(SkipReason::Pinned, 3)].into(),
        };
        MoveReport {
            processes: vec![ProcessReport {
                pid: Pid::new(4711).unwrap(),
                account,
                before: [(NodeId(0), 262_144), (NodeId(1), 256)].into(),
                after: [(NodeId(0), 5), (NodeId(1), 262_397)].into(),
                residue: Residue { expected: 3, seen: 5 },
                life: Life::Running,
            }],
            moving_ns: 1_000_000_000,
            verifying_ns: 20_000_000,
            workers: 2,
            longest_hold_ns: Some(310_000),
            interrupted: false,
            error: None,
        }
    }

    #[test]
    fn the_account_as_text() {
        insta::assert_snapshot!(report_text(&report(), 4096));
    }

    #[test]
    fn the_account_as_json() {
        let value = report_json(&report(), 4096);
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn what_ended_early_is_said() {
        let mut report = report();
        report.interrupted = true;
        report.processes[0].life = Life::Replaced;
        let text = report_text(&report, 4096);
        assert!(text.contains("it called exec meanwhile"), "{text}");
        assert!(text.contains("interrupted: the same command moves the rest"), "{text}");
    }

    #[test]
    fn a_plan_as_text() {
        let plan = ProcessPlan {
            moves: [((NodeId(0), NodeId(1)), 1536)].into(),
            folios: [(1, 512), (512, 2)].into(),
            account: Account {
                moved: 0,
                already_there: 7,
                skipped: [(SkipReason::Shared, 9)].into(),
            },
            residency: [(NodeId(0), 1545), (NodeId(1), 7)].into(),
        };
        let report = PlanReport { processes: vec![(Pid::new(4711).unwrap(), plan)] };
        insta::assert_snapshot!(plan_text(&report, 4096));
    }
}
