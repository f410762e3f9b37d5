//! Metrics of single processes, for those who ask for them.

use std::cmp::Reverse;

use nodeward_balancer::{ProcessRow, RoundReport};
use nodeward_model::Pid;
use nodeward_policy::placement::Home;

use super::exposition::Exposition;
use super::families::{PID_HOME, PID_MEMORY, PID_MISPLACED};
use super::node_pairs::away;

/// A process, and the pid by which the reader knows it.
pub type NamedProcess<'a> = (Pid, &'a ProcessRow);

/// Returns the processes with most memory away from home, that with most first; of processes with
/// the same, those with most memory.
pub fn most_misplaced(report: &RoundReport, count: usize) -> Vec<&ProcessRow> {
    if count == 0 {
        return Vec::new();
    }
    let mut rows: Vec<_> = report.processes.iter().collect();
    rows.sort_by_cached_key(|row| Reverse((pages_away(row), row.pages.values().sum::<u64>())));
    rows.truncate(count);
    rows
}

/// Adds where processes and their memory belong, and where their memory is.
pub fn add(out: &mut Exposition, named: &[NamedProcess<'_>], page_bytes: u64) {
    let bytes = |pages: u64| (pages * page_bytes) as f64;
    let labels = |(pid, row): &NamedProcess<'_>| [pid.to_string(), row.name.to_string()];
    let and = |[pid, name]: [String; 2], third: String| [pid, name, third];
    let homes = named.iter().filter_map(|one| Some((one, one.1.home.as_ref()?.thread_nodes())));
    out.add(&PID_HOME, homes.map(|(one, nodes)| (and(labels(one), nodes.to_string()), 1.0)));
    let memory = named.iter().flat_map(|one| {
        let held = one.1.pages.iter().filter(|(_, pages)| **pages > 0);
        held.map(move |(node, &pages)| (and(labels(one), node.to_string()), bytes(pages)))
    });
    out.add(&PID_MEMORY, memory);
    let away = named.iter().map(|one| (labels(one), bytes(pages_away(one.1))));
    out.add(&PID_MISPLACED, away);
}

fn pages_away(row: &ProcessRow) -> u64 {
    let belongs = row.home.as_ref().map(Home::memory_nodes).unwrap_or_default();
    away(&belongs, &row.pages).map(|(_, pages)| pages).sum()
}
