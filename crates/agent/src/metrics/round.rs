//! Metrics of the balancer, from the report of a round.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use nodeward_balancer::{MoveSubject, RoundReport};
use nodeward_machine::Machine;
use nodeward_model::{NodeId, Nodemask, OtherBalancer};
use nodeward_mover::MoveSums;
use nodeward_policy::placement::{Decision, Home, Reason};

use super::agent_totals::AgentTotals;
use super::exposition::{Exposition, counts, seconds};
use super::families;
use super::node_pairs::{self, MisplacedPages};

/// The label of memory that belongs on any of several nodes.
const SEVERAL: &str = "several";

/// Adds everything but moves.
pub fn add(out: &mut Exposition, report: &RoundReport, machine: &dyn Machine) {
    add_rounds(out, report, machine);
    add_placement(out, report);
    let totals = &report.totals;
    out.add(
        &families::DECISIONS,
        decisions(report)
            .iter()
            .map(|(&(about, reason), &count)| ([about, reason.name()], count as f64)),
    );
    out.add(&families::DECISION_CHANGES, counts(&totals.changes));
    out.add(&families::NUDGES, counts(&totals.nudges));
    let cost = report.total_cost;
    let activities = [
        ("looking", cost.looking_ns),
        ("observing", cost.observing_ns),
        ("deciding", cost.deciding_ns),
        ("moving", cost.moving_ns),
    ];
    out.add(&families::CPU, activities.map(|(what, ns)| ([what], seconds(ns))));
}

fn add_rounds(out: &mut Exposition, report: &RoundReport, machine: &dyn Machine) {
    let totals = &report.totals;
    let rounds = [("full", totals.rounds), ("fast", totals.fast_rounds)];
    out.add(&families::ROUNDS, rounds.map(|(kind, count)| ([kind], count as f64)));
    out.add_one(&families::ROUND_SECONDS, seconds(totals.took_ns));
    let age_ns = machine.now_ns().saturating_sub(report.at_ns);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    out.add_one(&families::LAST_ROUND, now.as_secs_f64() - seconds(age_ns));
    out.add_one(&families::SAMPLES, totals.samples as f64);
    out.add_one(&families::SAMPLES_DUE, report.look_later as f64);
    out.add(&families::NOTICES, counts(&totals.notices));
    out.add_one(&families::STANDS_BACK, f64::from(u8::from(report.stands_back)));
    out.add(&families::RIVALS, report.rivals.iter().map(|rival| ([rival_kind(rival)], 1.0)));
}

/// Adds where threads and memory belong, and where memory is.
fn add_placement(out: &mut Exposition, report: &RoundReport) {
    let entities = [
        ("process", report.processes.len()),
        ("group", report.groups.len()),
        ("segment", report.segments.len()),
    ];
    out.add(&families::ENTITIES, entities.map(|(kind, count)| ([kind], count as f64)));
    out.add_one(&families::THREADS, report.threads as f64);
    let PlacementSums { homes, pages, misplaced } = PlacementSums::of(report);
    let bytes = |pages: u64| (pages * report.page_bytes) as f64;
    out.add(&families::HOMES, counts(&homes));
    out.add(&families::MEMORY, pages.iter().map(|(&node, &pages)| ([node], bytes(pages))));
    let pairs = node_pairs::largest(&misplaced);
    out.add(&families::MISPLACED, pairs.into_iter().map(|(pair, pages)| (pair, bytes(pages))));
}

/// Sums over processes, groups and segments.
struct PlacementSums {
    homes: BTreeMap<NodeId, u64>,
    /// Base pages by node.
    pages: BTreeMap<NodeId, u64>,
    /// Base pages that are elsewhere than they belong, by node and home.
    misplaced: MisplacedPages,
}

impl PlacementSums {
    fn of(report: &RoundReport) -> Self {
        let zeros: BTreeMap<NodeId, u64> = report.nodes.keys().map(|&node| (node, 0)).collect();
        let mut sums = Self { homes: zeros.clone(), pages: zeros, misplaced: BTreeMap::new() };
        for row in &report.processes {
            sums.add(row.home.as_ref(), &row.pages);
        }
        for row in &report.groups {
            sums.add(row.home.as_ref(), &row.residency);
        }
        for row in &report.segments {
            sums.add_memory(&row.decision.nodes, &row.residency);
        }
        sums
    }

    fn add(&mut self, home: Option<&Home>, pages: &BTreeMap<NodeId, u64>) {
        for node in home.map(Home::thread_nodes).unwrap_or_default().iter() {
            *self.homes.entry(node).or_default() += 1;
        }
        self.add_memory(&home.map(Home::memory_nodes).unwrap_or_default(), pages);
    }

    /// Adds memory that belongs on these nodes; anywhere, if there are none.
    fn add_memory(&mut self, belongs: &Nodemask, pages: &BTreeMap<NodeId, u64>) {
        let home = match belongs.len() {
            1 => belongs.first().map_or_else(String::new, |node| node.to_string()),
            _ => SEVERAL.to_owned(),
        };
        for (&node, &pages) in pages {
            *self.pages.entry(node).or_default() += pages;
        }
        for (node, pages) in node_pairs::away(belongs, pages) {
            *self.misplaced.entry((node, home.clone())).or_default() += pages;
        }
    }
}

/// Returns the number of decisions by what they are about and their reason.
fn decisions(report: &RoundReport) -> BTreeMap<(&'static str, Reason), u64> {
    let processes = report.processes.iter().map(|row| &row.decision);
    let groups = report.groups.iter().map(|row| &row.decision);
    let of_entity = |decision: &Decision| {
        let home = ("home", Some(decision.reason));
        [home, ("threads", decision.threads), ("memory", decision.memory)]
    };
    let segments = report.segments.iter().map(|row| ("segment", Some(row.decision.reason)));
    let mut counts = BTreeMap::new();
    for (about, reason) in processes.chain(groups).flat_map(of_entity).chain(segments) {
        if let Some(reason) = reason {
            *counts.entry((about, reason)).or_default() += 1;
        }
    }
    counts
}

/// Adds the moves of the balancer and of users.
pub fn add_moves(
    out: &mut Exposition,
    report: &RoundReport,
    agent: Option<&AgentTotals>,
    page_bytes: u64,
) {
    let totals = &report.totals;
    let none = MoveSums::default();
    let of_balancer = MoveSubject::ALL
        .map(|subject| (subject.name(), totals.moves.get(&subject).unwrap_or(&none)));
    let movers = || of_balancer.into_iter().chain(agent.map(|agent| ("agent", &agent.moves)));
    let mut all = MoveSums::default();
    movers().for_each(|(_, moves)| all.join(moves));
    let bytes = |pages: u64| (pages * page_bytes) as f64;
    out.add(&families::MOVES, movers().map(|(mover, moves)| ([mover], moves.ended as f64)));
    out.add(&families::MOVED, movers().map(|(mover, it)| ([mover], bytes(it.moved_pages()))));
    let flows = node_pairs::flows(&all.flows);
    out.add(&families::FLOW, flows.into_iter().map(|(pair, pages)| (pair, bytes(pages))));
    out.add(&families::STAYED, all.stayed.iter().map(|(&reason, &it)| ([reason], bytes(it))));
    out.add(&families::MOVES_SHORT, counts(&totals.short));
    out.add_holds(&families::HOLD, &all.holds);
    out.add_one(&families::OTHERS_MIGRATED, bytes(totals.others_pages));
}

fn rival_kind(rival: &OtherBalancer) -> &'static str {
    match rival {
        OtherBalancer::Kernel { .. } => "kernel",
        OtherBalancer::Numad { .. } => "numad",
        OtherBalancer::Damon { .. } => "damon",
    }
}
