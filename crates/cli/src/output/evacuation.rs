//! Results and plans of evacuations.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use nodeward_linux::file_cache::CacheScan;
use nodeward_linux::sysfs::NodeMemoryUse;
use nodeward_machine::Liveness;
use nodeward_model::units::format_bytes;
use nodeward_model::{Account, NodeId, Pid};
use nodeward_mover::{LedgerReport, MoveReport, ProcessPlan, ProcessReport, StopReason};
use serde_json::{Value, json};

use super::account::{account_text, ending_text, planned_text, with_stop};
use super::moves::{self, MoveOutput, SelectionReport};
use super::shared_memory::{self, SharedMemoryReport};
use super::{files, print, print_outcome};
use crate::machines::evacuation::{EvacuatedProcesses, EvacuationRoute};

/// Processes that are listed one by one.
const LISTED_MAX: usize = 10;
/// Destinations of a node that are listed one by one.
const NODES_LISTED_MAX: usize = 3;

/// The plan of an evacuation: its first pass.
pub struct EvacuationPlan<'a> {
    /// The nodes.
    pub route: &'a EvacuationRoute,
    /// Bytes in a base page.
    pub page_bytes: u64,
    /// The processes, with what would move of each.
    pub found: EvacuatedProcesses,
    /// What would move of shared segments, if there are any.
    pub segments: Option<ProcessPlan>,
    /// What would move of cached files, if that was requested.
    pub files: Option<(CacheScan, ProcessPlan)>,
}

/// The result of an evacuation.
pub struct EvacuationReport<'a> {
    /// The nodes.
    pub route: &'a EvacuationRoute,
    /// Bytes in a base page.
    pub page_bytes: u64,
    /// The processes.
    pub found: EvacuatedProcesses,
    /// What was moved of processes.
    pub moves: MoveReport,
    /// Its ledger, if there is one.
    pub ledger: Option<LedgerReport>,
    /// What was moved of shared segments.
    pub shared: Option<SharedMemoryReport>,
    /// What was moved of cached files, if that was requested.
    pub files: Option<(CacheScan, MoveReport)>,
    /// Moved processes that set memory policies themselves.
    pub with_policies: Vec<Pid>,
    /// The use of the nodes afterwards, where the machine tells it.
    pub memory: BTreeMap<NodeId, NodeMemoryUse>,
}

impl EvacuationReport<'_> {
    /// Returns the account of processes, segments and files together.
    pub fn account(&self) -> Account {
        let mut account = self.moves.account();
        let segments = self.shared.as_ref().and_then(SharedMemoryReport::account);
        segments.into_iter().for_each(|segments| account.add(segments));
        self.files.iter().for_each(|(_, files)| account.add(&files.account()));
        account
    }

    /// Returns why the evacuation ended early, if it was stopped.
    pub fn stopped(&self) -> Option<StopReason> {
        self.moves.stopped.or(self.files.as_ref().and_then(|(_, files)| files.stopped))
    }

    /// Returns true if an error ended a part of it early.
    pub fn has_error(&self) -> bool {
        let files = self.files.as_ref().and_then(|(_, files)| files.error.as_ref());
        self.moves.error.is_some() || files.is_some()
    }

    fn move_output(&self) -> MoveOutput<'_> {
        MoveOutput {
            report: &self.moves,
            page_bytes: self.page_bytes,
            selection: SelectionReport::default(),
            ledger: self.ledger.as_ref(),
            by_agent: false,
            shared_memory: self.shared.as_ref(),
            collapse: None,
        }
    }
}

/// Prints the result on stdout.
pub fn print_report(report: &EvacuationReport<'_>, as_json: bool) -> Result<()> {
    print_outcome(&match as_json {
        true => format!("{}\n", report_json(report)),
        false => report_text(report),
    })
}

/// Prints a plan on stdout.
pub fn print_plan(plan: &EvacuationPlan<'_>, as_json: bool) -> Result<()> {
    print(&match as_json {
        true => format!("{}\n", plan_json(plan)),
        false => plan_text(plan),
    })
}

fn report_text(report: &EvacuationReport<'_>) -> String {
    let mut text = route_text(report.route, report.page_bytes) + &processes_text(&report.found);
    if !report.with_policies.is_empty() {
        let pids = pids(&report.with_policies);
        let _ =
            writeln!(text, "  with memory policies of their own, which new pages follow: {pids}");
    }
    text += &moved_text(&report.moves.processes, report.page_bytes);
    text += &account_text(&report.moves.account(), report.page_bytes);
    let told = report.move_output();
    let shared = report.shared.as_ref();
    text += &shared.map(|it| it.text(told.moved_pages(), report.page_bytes)).unwrap_or_default();
    text += &ending_text(&report.moves, told.moved_pages() * report.page_bytes);
    text += &moves::ledger_text(&told);
    if let Some((looked, moved)) = &report.files {
        text += &files::report_text(looked, moved, report.page_bytes);
        text +=
            "  cached files are in no ledger: nodeward move --file PATH FROM TO takes them back\n";
    }
    for (node, memory) in &report.memory {
        text += &memory_text(*node, memory, report.files.is_some());
    }
    text
}

fn plan_text(plan: &EvacuationPlan<'_>) -> String {
    let mut text = route_text(plan.route, plan.page_bytes) + &processes_text(&plan.found);
    let total = plan.found.plan.total();
    let _ = writeln!(text, "would move {} pages of them", total.pages());
    text += &planned_text(&total, plan.page_bytes);
    if let Some(segments) = &plan.segments {
        text += &shared_memory::plan_text(segments, false, plan.page_bytes);
    }
    if let Some((looked, files)) = &plan.files {
        text += &files::plan_text(looked, files, plan.page_bytes);
    }
    text
}

/// Formats the destinations of each node, in order, with their room.
fn route_text(route: &EvacuationRoute, page_bytes: u64) -> String {
    let mut text = String::new();
    for source in route.sources.iter() {
        let to = route.passes.iter().filter_map(|pairs| pairs.destination(source));
        let room = |node: NodeId| match route.free_pages.get(&node) {
            Some(pages) => format!("{node} ({} free)", format_bytes(pages * page_bytes)),
            None => node.to_string(),
        };
        let to: Vec<_> = to.map(room).collect();
        let first = to[..to.len().min(NODES_LISTED_MAX)].join(", then to node ");
        let more = match to.len().saturating_sub(NODES_LISTED_MAX) {
            0 => String::new(),
            more => format!(", then to {more} more"),
        };
        let _ = writeln!(text, "node {source} goes to node {first}{more}");
    }
    text
}

/// Formats what moved of each process, those first of which most stayed.
fn moved_text(processes: &[ProcessReport], page_bytes: u64) -> String {
    let mut processes: Vec<_> = processes.iter().collect();
    let stayed = |process: &ProcessReport| process.account.skipped_total();
    processes.sort_by_key(|it| std::cmp::Reverse((stayed(it), it.account.moved)));
    let mut text = String::new();
    for process in processes.iter().take(LISTED_MAX) {
        let moved = format_bytes(process.account.moved * page_bytes);
        let _ = write!(text, "  process {:<9}{moved:>12} moved", process.pid);
        if stayed(process) > 0 {
            let _ = write!(text, ", {} stayed", format_bytes(stayed(process) * page_bytes));
        }
        text += match process.life {
            Liveness::Running => "\n",
            Liveness::Exited => " (it ended meanwhile)\n",
            Liveness::Replaced => " (it called exec meanwhile)\n",
        };
    }
    match processes.len().saturating_sub(LISTED_MAX) {
        0 => text,
        more => text + &format!("  and {more} more (--json lists all)\n"),
    }
}

fn processes_text(found: &EvacuatedProcesses) -> String {
    let (all, some) = (found.opened.len(), found.residents.len());
    let mut text = format!("processes: {all} looked at, {some} with memory there\n");
    if found.ended > 0 {
        let _ = writeln!(text, "  ended meanwhile: {}", found.ended);
    }
    if found.denied > 0 {
        let remedy = found.remedy.as_deref().unwrap_or_default();
        let _ = writeln!(text, "  not to be touched: {}; {remedy}", found.denied);
    }
    if !found.confined.is_empty() {
        let pids = pids(&found.confined);
        let _ = writeln!(text, "  without another node in their cpuset, so that they stay: {pids}");
    }
    text
}

/// Lists pids, the first ten.
fn pids(pids: &[Pid]) -> String {
    let first: Vec<_> = pids.iter().take(LISTED_MAX).map(ToString::to_string).collect();
    match pids.len().checked_sub(LISTED_MAX) {
        Some(more) if more > 0 => format!("{} and {more} more", first.join(", ")),
        _ => first.join(", "),
    }
}

/// Formats the use of a node, with what could be done about each part.
fn memory_text(node: NodeId, memory: &NodeMemoryUse, files_moved: bool) -> String {
    let files = match files_moved {
        true => "cache of files that no process uses (--file PATH), or that came since",
        false => "page cache (--files, --file PATH)",
    };
    let kernel = memory.slab_bytes + memory.page_tables_bytes + memory.stacks_bytes;
    let [slab, tables, stacks, rest] = [
        memory.slab_bytes,
        memory.page_tables_bytes,
        memory.stacks_bytes,
        memory.uncounted_bytes(),
    ]
    .map(format_bytes);
    let kernel_text =
        format!("slab {slab}, page tables {tables}, stacks {stacks}, uncounted {rest}: stays");
    let rows = [
        ("anonymous", memory.anonymous_bytes, "of processes: what stayed or came since"),
        ("shared", memory.shared_bytes, "shared memory, tmpfs"),
        ("files", memory.file_bytes, files),
        ("huge pages", memory.huge_pages_bytes, "pools of the node (nr_hugepages)"),
        ("kernel", kernel + memory.uncounted_bytes(), &kernel_text),
    ];
    let [used, total] = [memory.used_bytes, memory.total_bytes].map(format_bytes);
    let mut text = format!("node {node} now: {used} of {total} in use\n");
    for (name, bytes, what) in rows {
        let _ = writeln!(text, "  {name:<12}{:>12}  {what}", format_bytes(bytes));
    }
    text
}

fn report_json(report: &EvacuationReport<'_>) -> Value {
    let files = report.files.as_ref();
    let files = files.map(|(looked, moved)| files::report_json(looked, moved, report.page_bytes));
    let memory: BTreeMap<_, _> = report
        .memory
        .iter()
        .map(|(node, memory)| (node.to_string(), memory_json(memory)))
        .collect();
    let mut told = json!({
        "schema": "nodeward.evacuation/1",
        "page_bytes": report.page_bytes,
        "passes": passes_json(report.route),
        "processes": processes_json(&report.found),
        "with_policies": report.with_policies,
        "account": report.account(),
        "move": moves::report_json(&report.move_output()),
        "files": files,
        "memory_after": memory,
    });
    with_stop(&mut told, report.stopped());
    told
}

fn plan_json(plan: &EvacuationPlan<'_>) -> Value {
    let files = plan.files.as_ref();
    json!({
        "schema": "nodeward.evacuation-plan/1",
        "page_bytes": plan.page_bytes,
        "passes": passes_json(plan.route),
        "processes": processes_json(&plan.found),
        "move": moves::plan_json(&plan.found.plan, plan.page_bytes),
        "segments": plan.segments.as_ref().map(shared_memory::plan_json),
        "files": files.map(|(looked, plan_)| files::plan_json(looked, plan_, plan.page_bytes)),
    })
}

fn passes_json(route: &EvacuationRoute) -> Vec<Value> {
    let pairs = route.passes.iter().map(|pass| {
        let pair = |(from, to): (NodeId, NodeId)| {
            json!({ "from": from, "to": to, "free_pages": route.free_pages.get(&to) })
        };
        json!(pass.iter().map(pair).collect::<Vec<_>>())
    });
    pairs.collect()
}

fn processes_json(found: &EvacuatedProcesses) -> Value {
    json!({
        "looked_at": found.opened.len(),
        "resident": found.residents.len(),
        "denied": found.denied,
        "ended": found.ended,
        "confined": found.confined,
    })
}

fn memory_json(memory: &NodeMemoryUse) -> Value {
    json!({
        "total_bytes": memory.total_bytes,
        "used_bytes": memory.used_bytes,
        "anonymous_bytes": memory.anonymous_bytes,
        "shared_bytes": memory.shared_bytes,
        "file_bytes": memory.file_bytes,
        "huge_pages_bytes": memory.huge_pages_bytes,
        "slab_bytes": memory.slab_bytes,
        "page_tables_bytes": memory.page_tables_bytes,
        "stacks_bytes": memory.stacks_bytes,
        "uncounted_bytes": memory.uncounted_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the use of a node adds up: 100 MiB in use, of which 10 MiB have no other line.
    #[test]
    fn the_use_of_a_node_as_text() {
        let mib = |count: u64| count << 20;
        let memory = NodeMemoryUse {
            total_bytes: mib(1024),
            used_bytes: mib(100),
            anonymous_bytes: mib(40),
            shared_bytes: mib(5),
            file_bytes: mib(15),
            huge_pages_bytes: mib(6),
            slab_bytes: mib(20),
            page_tables_bytes: mib(3),
            stacks_bytes: mib(1),
        };
        insta::assert_snapshot!(memory_text(NodeId(1), &memory, true));
    }

    /// Goal: what was left out has one line each, and long lists are cut.
    #[test]
    fn what_was_left_out_as_text() {
        let found = EvacuatedProcesses {
            denied: 3,
            remedy: Some("run as root".to_owned()),
            ended: 2,
            confined: (1..13).map(|pid| Pid::new(pid).unwrap()).collect(),
            ..EvacuatedProcesses::default()
        };
        insta::assert_snapshot!(processes_text(&found));
    }
}
