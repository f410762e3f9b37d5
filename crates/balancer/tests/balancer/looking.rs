//! The rate of the balancer's looks, and the identity of processes from look to look.

use nodeward_balancer::BalanceSettings;
use nodeward_machine::Machine;
use nodeward_machine::fake::FakeProcess;
use nodeward_model::{CpuId, Mapping, MappingKind, MemoryPolicies, NodeId, Page, Range};
use nodeward_mover::MoveControl;

use crate::stage::*;

/// Goal: where nothing changes, no process is sampled again; after ten minutes the number of
/// samples is the same.
#[test]
fn a_steady_machine_is_not_looked_into() {
    let fake = with(fake_process([PAGES, 0], 0, "0-7"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    rounds(&fake, &mut balancer, 20);
    let looks = fake.process(pid(7)).unwrap().page_reads;
    let reports = rounds(&fake, &mut balancer, 600);
    assert_eq!(fake.process(pid(7)).unwrap().page_reads, looks);
    assert!(looks > 0 && reports.iter().all(|report| report.looked == 0 && report.settled));
}

/// Goal: the time for which a thread waits for a CPU counts as load. A thread that runs for 0.4 s
/// of a second and waits for 0.5 s wants 0.9 of a CPU; one whose long wait ends wants one CPU at
/// most.
#[test]
fn who_waits_for_a_cpu_wants_it() {
    for (waits_milli, wants_ppm) in [(0, 400_000), (500, 900_000), (3000, 1_000_000)] {
        let fake = with(fake_process([PAGES, 0], 0, "0-7"));
        fake.update_process(pid(7), |fake_process| {
            let thread = fake_process.threads.get_mut(&1).unwrap();
            (thread.run_permille, thread.wait_permille) = (400, waits_milli);
        });
        let mut balancer = balancer(&fake, BalanceSettings::default());
        let reports = rounds(&fake, &mut balancer, 3);
        assert_eq!(row(&reports[2], 7).decision.numbers.load_ppm, wants_ppm);
    }
}

/// Goal: a round that comes soon after the one before (SIGHUP, a second run) does not measure loads
/// over that short time: loads cover half an interval at least.
#[test]
fn short_times_tell_no_loads() {
    let fake = with(fake_process([PAGES, 0], 0, "0-7"));
    let busy = |milli| {
        fake.update_process(pid(7), |fake_process| {
            fake_process.threads.get_mut(&1).unwrap().run_permille = milli;
        });
    };
    let mut balancer = balancer(&fake, BalanceSettings::default());
    busy(400);
    rounds(&fake, &mut balancer, 3);
    let mut load_after = |ns| {
        fake.sleep_ns(ns);
        row(&balancer.round(&MoveControl::default()).unwrap(), 7).decision.numbers.load_ppm
    };
    assert_eq!(load_after(0), 400_000);
    busy(0);
    assert_eq!(load_after(S / 100), 400_000);
    // The mean of the loads that were known and that of 0.51 s, in which it did not run.
    assert!(load_after(S / 2) < 400_000);
}

/// Goal: a sample that was cut short by its time limit is not taken for the whole. The next sample
/// gets more time, and all memory comes home.
#[test]
fn what_is_seen_too_slowly_is_looked_at_for_longer() {
    let mut slow = fake_process([0, PAGES], 0, "0-3");
    slow.locate_ns = 1_000_000; // 100 ms are over when the stack was looked at
    let first = 1 << 20;
    slow.pages.extend((first..first + PAGES).map(|number| (number, Page::on(NodeId(0)))));
    let stack = Mapping {
        range: Range::new(first * 4096, (first + PAGES) * 4096),
        kind: MappingKind::Stack,
        shared: false,
        huge_page_bytes: None,
        path: Default::default(),
        segment: None,
        origin: Default::default(),
    };
    slow.mappings.push(stack);
    let fake = with(slow);
    let mut balancer = balancer(&fake, BalanceSettings::default());
    rounds(&fake, &mut balancer, 40);
    assert_eq!(residency(&fake), [2 * PAGES, 0]);
}

/// Goal: memory that grew on another node is noticed and brought home.
#[test]
fn growth_is_mopped_up() {
    let fake = with(fake_process([PAGES, 0], 0, "0-3"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    rounds(&fake, &mut balancer, 10);
    fake.update_process(pid(7), |fake_process| _ = grow(fake_process));
    let reports = rounds(&fake, &mut balancer, 70);
    assert_eq!(residency(&fake), [2 * PAGES, 0]);
    assert_eq!(moved(&reports), PAGES);
}

/// Goal: new memory that a program binds stays where it is, however recently policies were read.
#[test]
fn growth_that_is_bound_is_respected() {
    let fake = with(fake_process([PAGES, 0], 0, "0-3"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    rounds(&fake, &mut balancer, 10);
    fake.update_process(pid(7), |fake_process| {
        let ranges = vec![grow(fake_process)];
        fake_process.memory_policies =
            MemoryPolicies { has_task_policy: false, policy_ranges: ranges };
    });
    let reports = rounds(&fake, &mut balancer, 70);
    assert_eq!((moved(&reports), residency(&fake)), (0, [PAGES, PAGES]));
}

/// Doubles the memory of a process, on node 1; returns where it is.
fn grow(fake_process: &mut FakeProcess) -> Range {
    let first = 1 << 20; // a page number far behind the others
    let range = Range::new(first * 4096, (first + PAGES) * 4096);
    fake_process.pages.extend((first..first + PAGES).map(|number| (number, Page::on(NodeId(1)))));
    fake_process.mappings.push(Mapping {
        range,
        kind: MappingKind::Anonymous,
        shared: false,
        huge_page_bytes: None,
        path: Default::default(),
        segment: None,
        origin: Default::default(),
    });
    range
}

/// Goal: a process that runs on another node is sampled again, but not each time: one that keeps
/// changing nodes is sampled at growing intervals.
#[test]
fn restless_threads_cost_few_looks() {
    let fake = with(fake_process([PAGES / 2, PAGES / 2], 0, "0-7"));
    let settings = BalanceSettings { act: false, ..BalanceSettings::default() };
    let mut balancer = balancer(&fake, settings);
    let mut looked = 0;
    for second in 0..300 {
        looked += round(&fake, &mut balancer).looked;
        let cpu = CpuId(if second % 2 == 0 { 4 } else { 0 });
        fake.update_process(pid(7), |fake_process| {
            fake_process.threads.get_mut(&1).unwrap().cpu = cpu;
        });
    }
    // After 1, 2, 4, ... 32 s, then every 60 s: about 6 + 237 / 60; a few more as seconds fall.
    assert!((5..=13).contains(&looked), "{looked}");
}

/// Goal: a process with the pid of one that ended is another process, with its own number and its
/// own CPU time.
#[test]
fn a_pid_that_comes_back_is_another_process() {
    let fake = with(fake_process([PAGES, 0], 0, "0-7"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let before = rounds(&fake, &mut balancer, 10);
    fake.kill(pid(7));
    // It ran for 40 s less, and has its memory on the other node.
    let mut other = fake_process([0, PAGES], 0, "0-7");
    other.threads.get_mut(&1).unwrap().cpu_time_ns = 20 * S;
    fake.spawn(pid(7), FakeProcess { started_ticks: 9, ..other });
    let after = rounds(&fake, &mut balancer, 10);
    let entity = |report| row(report, 7).decision.entity;
    assert_ne!(entity(&before[9]), entity(&after[9]));
    assert_eq!(entity(&before[2]), entity(&before[9]), "while it lives its number stays");
    assert!(after.iter().all(|report| report.processes.len() <= 1));
    let loads =
        after.iter().flat_map(|report| &report.processes).map(|row| row.decision.numbers.load_ppm);
    assert!(loads.max().unwrap() <= 1_000_000);
    assert_eq!(row(&after[9], 7).home.as_ref().unwrap().thread_nodes(), "1".parse().unwrap());
}

/// Goal: processes that ran for less than a second are not sampled and get no home.
#[test]
fn the_young_are_left_alone() {
    let mut young = fake_process([0, PAGES], 0, "0-7");
    let thread = young.threads.get_mut(&1).unwrap();
    (thread.cpu_time_ns, thread.run_permille) = (0, 10);
    let fake = with(young);
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 90);
    assert!(reports.iter().all(|report| report.looked == 0)); // 90 s x 10 / 1000 = 0.9 s
    assert_eq!(fake.process(pid(7)).unwrap().affinity_calls, 0);
}
