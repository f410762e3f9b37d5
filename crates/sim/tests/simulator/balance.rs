//! The balancer, the one that runs on a real kernel, on simulated machines, with the scenarios made
//! for balancers.

use std::sync::Arc;

use nodeward_balancer::{BalanceSettings, Balancer, SavedState};
use nodeward_machine::Machine;
use nodeward_model::{NodeId, ProcessFilter};
use nodeward_mover::MoveControl;
use nodeward_scenario::Scenario;
use nodeward_sim::SimMachine;

const S: u64 = 1_000_000_000;

/// A run of a scenario, with or without the balancer.
struct BalancedSimulation {
    machine: Arc<SimMachine>,
    balancer: Option<Balancer>,
    moved_pages: u64,
}

impl BalancedSimulation {
    fn new(name: &str, sets: &[(&str, &str)], is_balanced: bool) -> Self {
        let scenario = Scenario::find_with(name, sets).unwrap();
        let machine = Arc::new(SimMachine::new(&scenario, 1));
        let balancer = is_balanced.then(|| balancer(&machine, None));
        Self { machine, balancer, moved_pages: 0 }
    }

    /// Continues until a time, in seconds.
    fn run_until(&mut self, seconds: u64) {
        let until_ns = seconds * S;
        while self.machine.now_ns() < until_ns {
            let Some(balancer) = &mut self.balancer else {
                return self.machine.run_until(until_ns);
            };
            let report = balancer.round(&MoveControl::default()).unwrap();
            self.moved_pages += report.moved_pages;
            let next_ns = (report.at_ns + report.interval_ns).min(until_ns);
            self.machine.run_until(next_ns.max(self.machine.now_ns() + 1));
        }
    }

    /// Returns local and remote lines so far.
    fn lines(&self) -> [u64; 2] {
        self.machine.with_world(|world| {
            let counters = &world.counters;
            [counters.local_lines, counters.remote_lines]
        })
    }

    /// Returns the local lines per 1000 from now until a time.
    fn local_milli(&mut self, until_s: u64) -> u64 {
        let before = self.lines();
        self.run_until(until_s);
        let after = self.lines();
        let [local, remote] = [0, 1].map(|which| after[which] - before[which]);
        local * 1000 / (local + remote).max(1)
    }

    /// Returns the work of all programs so far, each in its own unit.
    fn work(&self) -> u64 {
        let report = self.machine.with_world(|world| world.report());
        report.workloads.iter().map(|workload| workload.done_per_s).sum()
    }
}

fn balancer(machine: &Arc<SimMachine>, saved: Option<SavedState>) -> Balancer {
    let machine: Arc<dyn Machine> = Arc::<SimMachine>::clone(machine);
    Balancer::new(machine, &ProcessFilter::default(), BalanceSettings::default(), saved).unwrap()
}

/// Goal: 48 programs on 24 CPUs whose memory is on the wrong node, or on both: at least 95 % of
/// lines are local once threads and memory are at home; memory moves only where threads cannot,
/// then once.
#[test]
fn the_case_of_2012_comes_home() {
    // 48 x 230 MB are 2,695,313 pages.
    let split = ("workload.stream.place", "left:0-1");
    for (sets, most_pages) in [(&[][..], 0), (&[split], 2_695_313 / 2)] {
        let mut run = BalancedSimulation::new("balance-2012", sets, true);
        run.run_until(10);
        let moved = run.moved_pages;
        let local = run.local_milli(20);
        assert!(local >= 950, "{local} of 1000, {sets:?}");
        assert!(moved <= most_pages * 102 / 100, "{moved} pages");
        assert!(run.moved_pages - moved <= most_pages / 1000, "still moving: {}", run.moved_pages);
    }
}

/// Goal: whatever the load, a balanced machine does at least 98 % of the work that it does without
/// a balancer.
#[test]
fn balancing_costs_no_work() {
    for name in ["balance-wide", "balance-shared", "balance-sides", "balance-crowded"] {
        let works = [false, true].map(|is_balanced| {
            let mut run = BalancedSimulation::new(name, &[], is_balanced);
            run.run_until(12);
            run.work()
        });
        let [without, with] = works;
        assert!(with * 100 >= without * 98, "{name}: {with} of {without}");
    }
}

/// Goal: where one memory controller is the bottleneck, the larger program's memory is interleaved
/// and both programs do more work than without. When the other program has ended, the memory comes
/// home again, and then nothing moves any more.
#[test]
fn a_choked_controller_gets_help_for_as_long_as_it_needs_it() {
    let mut runs = [false, true]
        .map(|is_balanced| BalancedSimulation::new("balance-choked", &[], is_balanced));
    let pages = |run: &BalancedSimulation| -> Vec<u64> {
        let steady = run.machine.processes().into_iter().find(|it| it.name == "steady").unwrap();
        [0, 1].map(|node| steady.pages.get(&NodeId(node)).copied().unwrap_or(0)).to_vec()
    };
    for run in &mut runs {
        run.run_until(20);
    }
    // 1 GiB is 262,144 pages; even enough is an eighth of its half.
    let [first, second] = pages(&runs[1])[..] else { panic!("two nodes") };
    assert!(first.abs_diff(second) <= 2 * 131_072 / 8, "{first} {second}");
    let [without, with] = [0, 1].map(|index: usize| runs[index].work());
    assert!(with > without, "{with} against {without}");
    let run = &mut runs[1];
    run.run_until(35);
    let moved = run.moved_pages;
    assert!(pages(run)[1] < 262_144 / 50, "{:?}", pages(run));
    run.run_until(40);
    assert_eq!(run.moved_pages, moved);
}

/// Goal: one seed gives one sequence of events, with the balancer included.
#[test]
fn rounds_are_deterministic() {
    let run = || {
        let mut run =
            BalancedSimulation::new("balance-2012", &[("workload.stream.place", "left:0-1")], true);
        run.run_until(5);
        (run.machine.trace_hash(), run.moved_pages, run.lines())
    };
    assert_eq!(run(), run());
}

/// Goal: after a kill in the middle of its moves, the next balancer continues with the same homes:
/// in total no more pages move than without the kill.
#[test]
fn a_restart_goes_on() {
    let mut run =
        BalancedSimulation::new("balance-2012", &[("workload.stream.place", "left:0-1")], true);
    run.run_until(4);
    let killed = run.balancer.take().unwrap();
    let saved = killed.saved_state();
    std::mem::forget(killed);
    run.balancer = Some(balancer(&run.machine, Some(saved)));
    run.run_until(14);
    assert!(run.moved_pages <= 2_695_313 / 2 * 102 / 100, "{}", run.moved_pages);
    let local = run.local_milli(20);
    assert!(local >= 950, "{local} of 1000");
}
