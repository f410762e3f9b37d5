//! Segments that processes share: that of a database with 40 backends is placed as one, and does
//! not go to and fro; of that of ranks which each use a part, each part is placed, and so it is
//! where groups use them.

use std::mem;
use std::sync::Arc;

use nodeward_balancer::{BalanceSettings, Balancer, Event, Host, RoundReport};
use nodeward_experiments::compare::{BalancerKind, CASES, CompareCase, CompareOutcome, run};
use nodeward_machine::Machine;
use nodeward_model::{NodeId, ProcessFilter};
use nodeward_mover::MoveControl;
use nodeward_policy::placement::Reason;
use nodeward_scenario::Scenario;
use nodeward_sim::SimMachine;

use crate::one_or_all;

const S: u64 = 1_000_000_000;
/// Pages of a segment of 2 GiB.
const PAGES: u64 = 524_288;

fn case(name: &str) -> &'static CompareCase<'static> {
    CASES.iter().find(|case| case.name == name).expect("a case of that name")
}

/// Follows the pages of the segment from round to round.
struct SegmentFollower<'a> {
    machine: &'a SimMachine,
    workload: &'a str,
    until_ns: u64,
    /// Pages that have moved so far, of any memory.
    migrated_pages: u64,
    nodes: Vec<Option<NodeId>>,
    /// When each page moved last.
    moved_ns: Vec<Option<u64>>,
    moves: u64,
    reason: Option<Reason>,
}

impl SegmentFollower<'_> {
    fn look(&mut self) {
        let now_ns = self.machine.now_ns();
        let migrated_pages = self.machine.inspect(|world| world.counters.migrated_pages);
        if mem::replace(&mut self.migrated_pages, migrated_pages) == migrated_pages {
            return;
        }
        let nodes = self.machine.inspect(|world| world.segment_nodes(self.workload));
        for (page, (node, before)) in nodes.iter().zip(&self.nodes).enumerate() {
            if before.is_some() && node != before {
                let last_ns = self.moved_ns[page].replace(now_ns);
                let is_rested = last_ns.is_none_or(|last_ns| now_ns - last_ns >= 60 * S);
                assert!(is_rested, "page {page} moves at {last_ns:?} and at {now_ns}");
                self.moves += 1;
            }
        }
        self.nodes = nodes;
    }
}

impl Host for SegmentFollower<'_> {
    fn wish(&mut self) -> Option<Event> {
        (self.machine.now_ns() >= self.until_ns).then_some(Event::Stop)
    }

    fn round(&mut self, report: &RoundReport) {
        self.look();
        let told = report.segments.first();
        self.reason = told.map(|row| row.decision.reason).or(self.reason);
    }
}

/// Balances the database for a time, as [`follow_segment`].
fn follow(overrides: &[(&str, &str)], seconds: u64) -> (u64, [u64; 2], Reason) {
    follow_segment(("database", "backend"), overrides, seconds)
}

/// Balances a scenario with a workload whose processes share a segment for a time. Returns how
/// often pages of the segment moved, where they are in the end (of two nodes), and what was told of
/// it last.
fn follow_segment(
    (scenario, workload): (&str, &str),
    overrides: &[(&str, &str)],
    seconds: u64,
) -> (u64, [u64; 2], Reason) {
    let mut scenario = Scenario::find_with(scenario, overrides).unwrap();
    scenario.time_ns = (seconds + 10) * S;
    let machine = Arc::new(SimMachine::new(&scenario, 1));
    let shared: Arc<dyn Machine> = Arc::<SimMachine>::clone(&machine);
    let settings = BalanceSettings::default();
    let mut balancer = Balancer::new(shared, &ProcessFilter::default(), settings, None).unwrap();
    let nodes = machine.inspect(|world| world.segment_nodes(workload));
    let mut follower = SegmentFollower {
        machine: &machine,
        workload,
        until_ns: seconds * S,
        migrated_pages: 0,
        moved_ns: vec![None; nodes.len()],
        nodes,
        moves: 0,
        reason: None,
    };
    balancer.run(&mut follower, &MoveControl::default()).unwrap();
    let on = |node| follower.nodes.iter().filter(|on| **on == Some(NodeId(node))).count() as u64;
    (follower.moves, [0, 1].map(on), follower.reason.expect("a segment is told of"))
}

/// Both outcomes of a case, without a balancer and with nodeward; prints them.
fn beside_nothing(name: &str) -> [CompareOutcome; 2] {
    [BalancerKind::Nothing, BalancerKind::Nodeward].map(|by| {
        let outcome = run(case(name), by, None).expect("a scenario that runs");
        println!(
            "{name}, {}: {} ‰ local, {:?}, {} pages",
            by.name(),
            outcome.local_milli,
            outcome.work_per_s,
            outcome.pages
        );
        outcome
    })
}

/// Goal: a segment that is wider than a node, used from both nodes, stays where it is.
#[test]
fn a_segment_wider_than_a_node_stays() {
    let (moves, _, reason) = follow(&[], 30);
    assert_eq!((moves, reason), (0, Reason::UsersApart));
}

/// Goal: a segment on one node whose controller it saturates is spread over both, once: half of it
/// moves, within an eighth, and no page twice.
#[test]
fn a_segment_that_saturates_its_node_is_spread_once() {
    let (moves, on, reason) = follow(case("database-fits").overrides, 90);
    println!("{moves} moves, {on:?}, {reason}");
    assert!((PAGES * 7 / 16..=PAGES * 9 / 16).contains(&moves), "{moves}");
    assert_eq!(on.iter().sum::<u64>(), PAGES);
}

/// Goal: when all backends may run on one node only and the segment lies on the other, all of it
/// comes to them: each page once.
#[test]
fn a_segment_comes_to_the_node_of_all_backends() {
    let overrides = [case("database-fits").overrides, &[("workload.backend.nodes", "1")]].concat();
    let (moves, on, reason) = follow(&overrides, 60);
    assert_eq!((moves, on, reason), (PAGES, [0, PAGES], Reason::AllHome));
}

/// Goal: of a segment on one node whose users each work on a part of it, half on each node, the
/// parts of those on the other node go there, no page twice: half of 1 GiB, within an eighth.
#[test]
fn each_part_of_a_segment_goes_to_its_user() {
    let (moves, on, reason) = follow_segment(("ranks", "rank"), &[], 30);
    println!("{moves} moves, {on:?}, {reason}");
    let half = (1 << 30) / 4096 / 2;
    assert!((half * 7 / 8..=half * 9 / 8).contains(&moves), "{moves}");
    assert_eq!(reason, Reason::UsersApart);
}

/// Goal: of a segment on both nodes whose processes have threads in two pools, each half goes to
/// the home of the group of its pool, though every process is at home on both nodes: half of 1 GiB
/// moves, within an eighth. So it does where somebody places pools and halves by hand.
#[test]
fn each_part_of_a_segment_goes_to_its_group() {
    let overrides = &[("workload.pools.memory", "1GiB"), ("time", "20s"), ("sample", "100ms")];
    let case = CompareCase { overrides, ..*case("grouped-shared") };
    let half = (1 << 30) / 4096 / 2;
    for (by, local_milli) in [(BalancerKind::Hand, 1000), (BalancerKind::Nodeward, 970)] {
        let outcome = run(&case, by, None).expect("a scenario that runs");
        println!("{by:?}: {} ‰ local, {} pages", outcome.local_milli, outcome.pages);
        assert!(outcome.local_milli >= local_milli, "{by:?}: {}", outcome.local_milli);
        assert!((half * 7 / 8..=half * 9 / 8).contains(&outcome.pages), "{}", outcome.pages);
    }
}

/// Goal: neither database is worse off than without a balancer: 980 of 1000 of its work, which is
/// what a balancer may cost, and its lines as local but for a point.
#[test]
fn no_database_is_worse_off() {
    for name in one_or_all(&["database", "database-fits"]) {
        let [nothing, ours] = beside_nothing(name);
        assert!(ours.work_milli(&nothing) >= 980, "{name}: {} ‰", ours.work_milli(&nothing));
        assert!(ours.local_milli + 10 >= nothing.local_milli, "{name}");
    }
}
