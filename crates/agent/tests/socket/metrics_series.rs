//! Metrics are few: how many series there are on machines with many nodes and processes.

use std::collections::{BTreeMap, BTreeSet};

use nodeward_agent::metrics::{AgentTotals, text};
use nodeward_balancer::{MoveSubject, RoundReport};
use nodeward_machine::fake::FakeMachine;
use nodeward_model::{NodeId, Nodemask, SkipReason};
use nodeward_mover::{MoveSums, PageFlows};
use nodeward_policy::placement::{Home, Reason};

use crate::metrics::{balanced, machine_of};
use crate::text_format::{Metrics, Sample};

/// Series that a machine of up to 16 nodes may have, however many processes it has.
const SERIES_MAX: usize = 200;

/// Nodes of the large machine.
const NODES: u32 = 16;

/// Bytes of a page of the machine.
const PAGE: f64 = 4096.0;

/// Every pair of two nodes, each with so many pages.
fn all_pairs(nodes: u32, pages: u64) -> PageFlows {
    let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (NodeId(from), NodeId(to))));
    pairs.filter(|(from, to)| from != to).map(|pair| (pair, pages)).collect()
}

fn counts(names: &[&'static str]) -> BTreeMap<&'static str, u64> {
    names.iter().map(|&name| (name, 1)).collect()
}

/// Makes a round one of a balancer that has run for months: all pairs of nodes have moved memory,
/// threads were nudged with every outcome, much of what may stay stayed.
fn has_seen_much(report: &mut RoundReport) {
    let stayed = SkipReason::ALL[..8].iter().map(|&reason| (reason, 1)).collect();
    let moves = MoveSums { flows: all_pairs(NODES, 3), stayed, ..MoveSums::default() };
    let totals = &mut report.totals;
    totals.moves.insert(MoveSubject::Process, moves);
    totals.nudges = counts(&["done", "not-allowed", "asleep", "changed", "gone"]);
    totals.changes = counts(&["left", "settles", "stays", "moves"]);
    totals.short = counts(&["pressure", "refused", "not-there", "gone", "too-dear"]);
    totals.notices = counts(&["denied", "rival-came", "rival-left", "looking-slowed"]);
}

/// Gives each process a home, one of 16 or two of them, and memory on all 16 nodes; decisions have
/// 15 reasons. Returns the pages that are then away from home.
fn scatter(report: &mut RoundReport) -> u64 {
    let mut away = 0;
    for (number, row) in (0_u32..).zip(&mut report.processes) {
        let home = NodeId(number % NODES);
        let spread = || [home, NodeId((number + 1) % NODES)].into_iter().collect::<Nodemask>();
        let nodes = if number % 100 == 0 { spread() } else { [home].into_iter().collect() };
        let pages = u64::from(number % 7) + 1;
        row.home =
            Some(if nodes.len() == 1 { Home::Node(home) } else { Home::Spread(nodes.clone()) });
        row.pages = (0..NODES).map(|node| (NodeId(node), pages)).collect();
        away += pages * (u64::from(NODES) - nodes.iter().count() as u64);
        row.decision.reason = Reason::ALL[number as usize % 15];
    }
    away
}

/// Goal: ten thousand processes on sixteen nodes, with memory away from home and moved between all
/// 240 pairs of nodes, have no more than 200 series. No process is named, and sums are those of all
/// pairs.
#[test]
fn ten_thousand_processes_are_two_hundred_series() {
    let machine = machine_of(NODES, 10_000);
    let mut report = balanced(&machine, 3);
    has_seen_much(&mut report);
    let away = scatter(&mut report);
    let metrics = Metrics::read(&text(&report, Some(&AgentTotals::default()), &*machine, &[]));
    assert_eq!(metrics.value("nodeward_entities", &[("kind", "process")]), Some(10_000.0));
    assert!(metrics.samples.len() <= SERIES_MAX, "{} series", metrics.samples.len());
    assert_eq!(metrics.sum("nodeward_misplaced_bytes"), away as f64 * PAGE);
    assert_eq!(metrics.sum("nodeward_flow_bytes_total"), 240.0 * 3.0 * PAGE);
    // 3 pages from each of the 15 other nodes.
    let to_7 = metrics.value("nodeward_flow_bytes_total", &[("from", "any"), ("to", "7")]);
    assert_eq!(to_7, Some(15.0 * 3.0 * PAGE));
    let labels = metrics.samples.iter().flat_map(|sample| sample.labels.keys());
    let labels: BTreeSet<&str> = labels.map(String::as_str).collect();
    assert!(!labels.contains("pid") && !labels.contains("name"), "{labels:?}");
}

/// Goal: while the balancer and users move memory between more and more pairs of nodes, no counter
/// of a series falls, and the flow of all pairs is what was moved.
#[test]
fn counters_never_go_backwards() {
    let machine = FakeMachine::with_topology(true, "16n 8c 1t 64GiB");
    let (mut report, mut agent) = (RoundReport::default(), AgentTotals::default());
    let (mut before, mut expected): (BTreeMap<String, f64>, f64) = Default::default();
    for (step, (pair, pages)) in all_pairs(NODES, 5).into_iter().enumerate() {
        let moves = match step % 3 {
            0 => &mut agent.moves,
            _ => report.totals.moves.entry(MoveSubject::Process).or_default(),
        };
        *moves.flows.entry(pair).or_default() += pages;
        expected += pages as f64 * PAGE;
        let metrics = Metrics::read(&text(&report, Some(&agent), &machine, &[]));
        assert_eq!(metrics.sum("nodeward_flow_bytes_total"), expected);
        let counters = metrics.samples.iter().filter(|sample| sample.name.ends_with("_total"));
        let series =
            |sample: &Sample| (format!("{} {:?}", sample.name, sample.labels), sample.value);
        let now: BTreeMap<String, f64> = counters.map(series).collect();
        for (series, was) in &before {
            assert!(now.get(series).is_none_or(|is| is >= was), "{series}, step {step}");
        }
        before.extend(now);
    }
}
