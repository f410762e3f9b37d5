//! Processes that are at home on several nodes.

use std::sync::Arc;

use nodeward_balancer::{BalanceSettings, Notice, RoundReport};
use nodeward_machine::fake::{FakeMachine, FakeProcess, FakeThread};
use nodeward_model::{CpuId, Pid};
use nodeward_policy::placement::{Home, Reason, Rules};

use crate::stage::*;

/// A process with a busy thread on each node, each bound to it; all memory is on node 0.
fn bound_apart() -> FakeProcess {
    let thread = |cpu, may| {
        let thread = FakeThread::new(CpuId(cpu), cpus(may), 1000);
        FakeThread { cpu_time_ns: 60 * S, ..thread }
    };
    let threads = [(1, thread(0, "0-3")), (2, thread(4, "4-7"))].into();
    FakeProcess { threads, ..fake_process([PAGES, 0], 0, "0-7") }
}

/// Of whom it was said that nothing tells which thread uses which page.
fn without_source(reports: &[RoundReport]) -> Vec<Pid> {
    let pids = |notice: &Notice| match notice {
        Notice::NoAccessSource { pids, .. } => pids.clone(),
        _ => Vec::new(),
    };
    reports.iter().flat_map(|report| &report.news).flat_map(pids).collect()
}

/// Goal: threads that are bound to different nodes leave the process on both, with its affinities
/// and its memory as they are; that nothing tells which page is used where is said once.
#[test]
fn bound_threads_stay_and_the_lack_of_a_source_is_told_once() {
    let fake = with(bound_apart());
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 30);
    let row = row(reports.last().unwrap(), 7);
    assert_eq!(row.home, Some(Home::Spread("0-1".parse().unwrap())));
    assert_eq!(row.decision.reason, Reason::BoundApart);
    assert!(row.decision.counts_wanted && row.counted_pages.is_none());
    assert_eq!((moved(&reports), residency(&fake)), (0, [PAGES, 0]));
    assert!(reports.iter().all(|report| report.nudged == 0));
    assert_eq!(without_source(&reports), [pid(7)]);
    fake.spawn(pid(8), bound_apart());
    assert_eq!(without_source(&rounds(&fake, &mut balancer, 30)), [pid(8)], "and of each");
}

/// Goal: who is at home on one node, and whose memory may not move, misses nothing.
#[test]
fn who_needs_no_source_is_told_nothing() {
    let fake = with(fake_process([PAGES, 0], 0, "0-7"));
    let reports = |fake: &Arc<FakeMachine>, settings| {
        without_source(&rounds(fake, &mut balancer(fake, settings), 30))
    };
    assert_eq!(reports(&fake, BalanceSettings::default()), []);
    let settings = BalanceSettings::default();
    let rules = Rules { move_memory: false, ..settings.rules.clone() };
    assert_eq!(reports(&with(bound_apart()), BalanceSettings { rules, ..settings }), []);
}
