//! Results and plans of moves.

use std::fmt::Write as _;

use anyhow::Result;
use nodeward_machine::Liveness;
use nodeward_model::Account;
use nodeward_mover::address_list::ListCounts;
use nodeward_mover::{
    CollapseReport, LedgerReport, MoveReport, PlanReport, ProcessPlan, ProcessReport,
};
use serde_json::{Value, json};

use super::account::{ending_text, moves_json, pages_text, planned_text, with_ending};
use super::collapse;
use super::hot::HotReport;
use super::placement::RestoreReport;
use super::shared_memory::{self, SharedMemoryReport};
use super::spread::SpreadReport;
use super::{print, print_outcome};
use crate::results::NodePageCounts;

/// The way pages were named, if they were.
#[derive(Clone, Copy, Default)]
pub struct SelectionReport<'a> {
    /// By a list of addresses.
    pub list: Option<ListCounts>,
    /// As hot pages.
    pub hot: Option<&'a HotReport>,
    /// As the excess of nodes.
    pub spread: Option<&'a SpreadReport>,
    /// As away from where they were saved.
    pub placement: Option<&'a RestoreReport>,
}

impl SelectionReport<'_> {
    fn text(self, page_bytes: u64) -> String {
        let hot = self.hot.map_or_else(String::new, |hot| hot.text(page_bytes));
        hot + &self.list.map_or_else(String::new, list_text)
    }
}

/// A move with its context.
#[derive(Clone, Copy)]
pub struct MoveOutput<'a> {
    /// Its report.
    pub report: &'a MoveReport,
    /// Bytes in a base page.
    pub page_bytes: u64,
    /// The way its pages were named.
    pub selection: SelectionReport<'a>,
    /// Its ledger, if there is one.
    pub ledger: Option<&'a LedgerReport>,
    /// Whether the ledger is that of the agent.
    pub by_agent: bool,
    /// Memory that its processes share, if that was requested.
    pub shared_memory: Option<&'a SharedMemoryReport>,
    /// What was collapsed into huge pages, if that was requested.
    pub collapse: Option<&'a CollapseReport>,
}

impl MoveOutput<'_> {
    /// Returns the base pages that moved, in processes and in shared segments.
    pub fn moved_pages(&self) -> u64 {
        let of_segments = self.shared_memory.and_then(SharedMemoryReport::account);
        self.report.account().moved + of_segments.map_or(0, |account| account.moved)
    }

    /// Returns the named pages by node as they are now; `None` if that was not verified.
    fn named_pages_after(&self) -> Option<NodePageCounts> {
        let of_segments = self.shared_memory.and_then(SharedMemoryReport::process);
        let mut after = NodePageCounts::new();
        for process in self.report.processes.iter().chain(of_segments) {
            if !process.verified {
                return None;
            }
            for (&node, &pages) in &process.after {
                *after.entry(node).or_default() += pages;
            }
        }
        Some(after)
    }
}

/// Prints the result of a move on stdout.
pub fn print_report(told: &MoveOutput<'_>, as_json: bool) -> Result<()> {
    print_outcome(&if as_json { format!("{}\n", report_json(told)) } else { report_text(told) })
}

/// Prints a plan on stdout.
pub fn print_plan(
    report: &PlanReport,
    named: SelectionReport<'_>,
    segments: Option<&ProcessPlan>,
    page_bytes: u64,
    as_json: bool,
) -> Result<()> {
    print(&if as_json {
        let mut plan = plan_json(report, page_bytes);
        plan["segments"] = json!(segments.map(shared_memory::plan_json));
        plan["hot"] = json!(named.hot.map(HotReport::json));
        plan["spread"] = json!(named.spread.map(|spread| spread.json(None)));
        plan["placement"] = json!(named.placement.map(|placed| placed.json(None)));
        plan["list"] = json!(named.list.map(list_json));
        format!("{plan}\n")
    } else {
        let unmapped = named.spread.is_some() || named.placement.is_some();
        let segments = segments.map(|plan| shared_memory::plan_text(plan, unmapped, page_bytes));
        let spread = named.spread.map(|spread| spread.plan_text(page_bytes)).unwrap_or_default();
        let placed = named.placement.map(|placed| placed.plan_text(page_bytes));
        spread
            + &placed.unwrap_or_default()
            + &named.text(page_bytes)
            + &plan_text(report, page_bytes)
            + &segments.unwrap_or_default()
    })
}

fn report_text(told: &MoveOutput<'_>) -> String {
    let MoveOutput { report, page_bytes, .. } = *told;
    let after = told.named_pages_after();
    let spread = |spread: &SpreadReport| spread.text(after.as_ref(), page_bytes);
    let placed = |placed: &RestoreReport| placed.text(after.as_ref(), page_bytes);
    let mut text = told.selection.spread.map(spread).unwrap_or_default();
    text += &told.selection.placement.map(placed).unwrap_or_default();
    text += &told.selection.text(page_bytes);
    let (worth_a_word, others): (Vec<_>, Vec<_>) = report
        .processes
        .iter()
        .partition(|process| report.processes.len() == 1 || is_notable(process));
    for process in worth_a_word {
        text += &process_text(process, page_bytes);
    }
    if !others.is_empty() {
        let _ = writeln!(text, "{} more processes: nothing to move there", others.len());
    }
    text += &told
        .shared_memory
        .map(|shared| shared.text(told.moved_pages(), page_bytes))
        .unwrap_or_default();
    if let Some(list) = told.selection.list {
        let account = report.account();
        let failed = account.skipped_total() + list.outside;
        let _ = writeln!(text, "of the list: {} moved, {failed} failed", account.moved);
    }
    text += &ending_text(report, told.moved_pages() * page_bytes);
    text += &walked_text(report);
    text + &told.collapse.map(collapse::text).unwrap_or_default() + &ledger_text(told)
}

/// Returns whether one of several processes is worth mentioning.
fn is_notable(process: &ProcessReport) -> bool {
    let Account { moved, skipped, .. } = &process.account;
    let stayed = skipped.values().any(|&pages| pages > 0);
    let is_as_always = process.verified && process.life == Liveness::Running;
    *moved > 0 || stayed || process.residue.appeared() > 0 || !is_as_always
}

/// Formats the counts of a list.
fn list_text(list: ListCounts) -> String {
    format!(
        "list: {} addresses = {} pages + {} named again + {} that the process does not have\n",
        list.entries(),
        list.pages,
        list.duplicates,
        list.outside,
    )
}

/// Formats how to take a move back.
pub fn ledger_text(told: &MoveOutput<'_>) -> String {
    match told.ledger {
        Some(LedgerReport { id, error: Some(error), .. }) => {
            format!("ledger {id} does not tell of everything: {error}\n")
        }
        Some(LedgerReport { id, .. }) if told.report.account().moved > 0 => {
            let unmapped = told.moved_pages() > told.report.account().moved;
            let but = match (unmapped, told.report.walked_pages > 0) {
                (true, true) => ", but for these, and the segments' pages that no process maps",
                (true, false) => ", but for the segments' pages that no process maps",
                (false, true) => ", but for these",
                (false, false) => "",
            };
            let agent = if told.by_agent { " --agent" } else { "" };
            format!("nodeward undo {id}{agent} takes this back{but}\n")
        }
        Some(_) | None => String::new(),
    }
}

/// Says how many pages a walk inside the kernel has moved.
fn walked_text(report: &MoveReport) -> String {
    match report.walked_pages {
        0 => String::new(),
        pages => format!(
            "{pages} of the moved pages are in mappings that are nearly empty; this kernel moved\n\
             them in one walk and told no addresses\n"
        ),
    }
}

fn process_text(process: &ProcessReport, page_bytes: u64) -> String {
    let mut text = match process.life {
        Liveness::Running => format!("process {}\n", process.pid),
        Liveness::Exited => format!("process {} (it ended meanwhile)\n", process.pid),
        Liveness::Replaced => format!("process {} (it called exec meanwhile)\n", process.pid),
    };
    text += &pages_text(process, page_bytes);
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

/// Formats the result of a move for programs.
pub fn report_json(told: &MoveOutput<'_>) -> Value {
    let report = told.report;
    let account = report.account();
    let process = |process: &ProcessReport| {
        json!({
            "pid": process.pid,
            "account": process.account,
            "before_pages": process.before,
            "before_in_flight_pages": process.before_in_flight,
            "unexamined_bytes": process.unexamined_bytes,
            "verified": process.verified,
            "after_pages": process.verified.then_some(&process.after),
            "on_source": process.verified.then(|| json!({
                "expected_pages": process.residue.expected,
                "seen_pages": process.residue.seen,
            })),
            "life": life_name(process.life),
        })
    };
    let told = json!({
        "schema": "nodeward.move/1",
        "page_bytes": told.page_bytes,
        "processes": report.processes.iter().map(process).collect::<Vec<_>>(),
        "hot": told.selection.hot.map(HotReport::json),
        "spread": told.selection.spread.map(|it| it.json(told.named_pages_after().as_ref())),
        "placement": told.selection.placement.map(|it| it.json(told.named_pages_after().as_ref())),
        "list": told.selection.list.map(|list| listed_json(list, &account)),
        "account": account,
        "walked_pages": report.walked_pages,
        "collapse": told.collapse.map(collapse::json),
        "ledger": told.ledger.map(ledger_json),
        "segments": told.shared_memory.and_then(SharedMemoryReport::segments_json),
        "together": told.shared_memory.and_then(|shared| shared.total_json(told.moved_pages())),
    });
    with_ending(told, report)
}

fn list_json(list: ListCounts) -> Value {
    json!({
        "read": list.entries(),
        "pages": list.pages,
        "duplicates": list.duplicates,
        "outside": list.outside,
    })
}

/// Formats the account of a list's entries, with the terms of the 2004 proposal.
fn listed_json(list: ListCounts, account: &Account) -> Value {
    let mut value = list_json(list);
    value["moved"] = json!(account.moved);
    value["failed"] = json!(account.skipped_total() + list.outside);
    value
}

fn ledger_json(ledger: &LedgerReport) -> Value {
    json!({
        "id": ledger.id,
        "writing_ns": ledger.writing_ns,
        "error": ledger.error.as_ref().map(ToString::to_string),
    })
}

/// Formats a plan for programs.
pub fn plan_json(report: &PlanReport, page_bytes: u64) -> Value {
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

fn life_name(life: Liveness) -> &'static str {
    match life {
        Liveness::Running => "running",
        Liveness::Exited => "exited",
        Liveness::Replaced => "replaced",
    }
}

#[cfg(test)]
mod tests {
    use nodeward_linux::file_cache::CacheScan;
    use nodeward_model::{NodeId, Pid, SkipReason};
    use nodeward_mover::{Residue, StopReason};

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
                before_in_flight: 0,
                after: [(NodeId(0), 5), (NodeId(1), 262_397)].into(),
                unexamined_bytes: 0,
                verified: true,
                residue: Residue { expected: 3, seen: 5 },
                life: Liveness::Running,
            }],
            moving_ns: 1_000_000_000,
            verifying_ns: 20_000_000,
            workers: 2,
            walked_pages: 0,
            longest_hold_ns: Some(310_000),
            ..MoveReport::default()
        }
    }

    fn output_of(report: &MoveReport) -> MoveOutput<'_> {
        MoveOutput {
            report,
            page_bytes: 4096,
            selection: SelectionReport::default(),
            ledger: None,
            by_agent: false,
            shared_memory: None,
            collapse: None,
        }
    }

    /// Goal: pages that a walk inside the kernel moved are told, and that an undo lacks them.
    #[test]
    fn pages_without_addresses_are_told() {
        let report = MoveReport { walked_pages: 2000, ..report() };
        let ledger = LedgerReport { id: "42".parse().unwrap(), writing_ns: 0, error: None };
        let text = report_text(&MoveOutput { ledger: Some(&ledger), ..output_of(&report) });
        assert!(text.contains("\n2000 of the moved pages are in mappings that are nearly empty"));
        assert!(text.ends_with("takes this back, but for these\n"), "{text}");
    }

    #[test]
    fn the_account_as_text() {
        insta::assert_snapshot!(report_text(&output_of(&report())));
    }

    /// Goal: of several processes those worth mentioning are shown, and all of them together with
    /// their segments: 1 GiB, of which 3 pages stayed, and 3984 pages that no process maps.
    #[test]
    fn several_processes_are_told_together() {
        let mut report = report();
        let quiet = |pid| ProcessReport {
            pid: Pid::new(pid).unwrap(),
            account: Account { already_there: 7, ..Account::default() },
            before: [(NodeId(1), 7)].into(),
            before_in_flight: 0,
            after: [(NodeId(1), 7)].into(),
            unexamined_bytes: 0,
            verified: true,
            residue: Residue::default(),
            life: Liveness::Running,
        };
        report.processes.extend([quiet(4712), quiet(4713)]);
        let mut rest = quiet(4714);
        rest.account.moved = 3984;
        let segments = shared_memory::SegmentsReport {
            found: 1,
            scan: CacheScan::default(),
            process: Some(rest),
        };
        let before = [(NodeId(0), 266_128), (NodeId(1), 256)].into();
        let after = [(NodeId(0), 5), (NodeId(1), 266_381)].into();
        let shared = SharedMemoryReport {
            segments: Some(segments),
            pages_before_and_after: Some((before, after)),
        };
        let id = "42".parse().unwrap();
        let ledger = LedgerReport { id, writing_ns: 5_000_000, error: None };
        let told = MoveOutput {
            shared_memory: Some(&shared),
            ledger: Some(&ledger),
            ..output_of(&report)
        };
        insta::assert_snapshot!(report_text(&told));
        let value = report_json(&told);
        let [segments, together] = ["segments", "together"].map(|key| &value[key]);
        insta::assert_snapshot!(format!("{segments:#}\n{together:#}"));
        assert_eq!(value["processes"].as_array().map(Vec::len), Some(3), "all of them");
    }

    #[test]
    fn a_list_and_a_ledger_as_text() {
        let report = report();
        let list = Some(ListCounts { pages: 262_400, duplicates: 7, outside: 2 });
        let named = SelectionReport { list, ..SelectionReport::default() };
        let id = "42".parse().unwrap();
        let ledger = LedgerReport { id, writing_ns: 5_000_000, error: None };
        let told = MoveOutput { selection: named, ledger: Some(&ledger), ..output_of(&report) };
        insta::assert_snapshot!(report_text(&told));
        insta::assert_snapshot!(serde_json::to_string_pretty(&report_json(&told)).unwrap());
    }

    #[test]
    fn the_account_as_json() {
        let value = report_json(&output_of(&report()));
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }

    /// Goal: the budget that would have sufficed is reported, and one that was exceeded; pages that
    /// were on no node at the look have their line.
    #[test]
    fn what_would_do_is_said() {
        let mut report = report();
        (report.stall_ns, report.stall_needed_ns) = (Some(250_000), Some(2_560_001));
        report.processes[0].before_in_flight = 512;
        let text = report_text(&output_of(&report));
        assert!(text.contains("for about 310 us at most, longer than --stall 250 us\n"), "{text}");
        assert!(text.contains("--stall 3ms would have been enough for all pages\n"), "{text}");
        assert!(text.contains("  none      2.00 MiB  (somebody was moving them)\n"), "{text}");
    }

    #[test]
    fn what_ended_early_is_said() {
        let mut report = report();
        report.stopped = Some(StopReason::Requested);
        report.processes[0].life = Liveness::Replaced;
        let text = report_text(&output_of(&report));
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
            in_flight: 0,
        };
        let report = PlanReport { processes: vec![(Pid::new(4711).unwrap(), plan)] };
        insta::assert_snapshot!(plan_text(&report, 4096));
    }
}
