//! Events between looking and acting.

use std::sync::Arc;

use nodeward_balancer::{BalanceSettings, Notice, RoundReport, Short};
use nodeward_machine::Liveness;
use nodeward_machine::fake::{FakeMachine, FakeProcess};
use nodeward_model::{CpuId, NodeId};
use nodeward_policy::placement::Reason;

use crate::stage::*;

fn news(reports: &[RoundReport]) -> Vec<&Notice> {
    reports.iter().flat_map(|report| &report.news).collect()
}

/// Goal: a process that ends or calls exec before any of its moves is reported as gone, and the
/// others are brought home all the same.
#[test]
fn processes_end_at_any_call() {
    for life in [Liveness::Exited, Liveness::Replaced] {
        for call in 0..5 {
            let fake = with(FakeProcess {
                end_at_call: Some((call, life)),
                ..fake_process([0, PAGES], 0, "0-3")
            });
            fake.spawn(pid(8), fake_process([0, PAGES], 0, "0-3"));
            let settings =
                BalanceSettings { budget_bytes_per_s: 8 << 20, ..BalanceSettings::default() };
            let mut balancer = balancer(&fake, settings);
            let reports = rounds(&fake, &mut balancer, 40);
            let on = fake.process(pid(8)).unwrap().residency();
            assert_eq!(on, [(NodeId(0), PAGES)].into(), "{life:?} before call {call}");
            let of_gone = reports.iter().flat_map(|report| &report.processes);
            let mut shorts = of_gone.filter(|row| row.pid == pid(7)).map(|row| row.done.short);
            assert!(call == 0 || shorts.any(|short| short == Some(Short::Gone)), "call {call}");
            assert_eq!(news(&reports), [&Notice::NodeCame { node: NodeId(0) }; 0]);
        }
    }
}

/// Goal: a thread whose program changes its affinity during a nudge keeps the new affinity, and is
/// reported as changed.
#[test]
fn affinity_changes_between_narrow_and_restore() {
    let changes_affinity = Some((0, cpus("0-1")));
    let fake = with(FakeProcess {
        affinity_change: changes_affinity,
        ..fake_process([0, PAGES], 0, "0-7")
    });
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 10);
    let changed: u32 =
        reports.iter().flat_map(|r| &r.processes).map(|row| row.done.threads_changed).sum();
    assert_eq!(changed, 1);
    assert_eq!(fake.process(pid(7)).unwrap().threads[&1].cpus, cpus("0-1"));
}

/// Goal: frozen processes are left alone until they run again.
#[test]
fn frozen_processes_wait() {
    let fake = with(fake_process([0, PAGES], 0, "0-7"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    fake.update_process(pid(7), |fake_process| fake_process.frozen = true);
    let reports = rounds(&fake, &mut balancer, 10);
    assert_eq!(row(&reports[9], 7).decision.reason, Reason::Frozen);
    assert_eq!((fake.process(pid(7)).unwrap().affinity_calls, runs_on(&fake)), (0, 0));
    fake.update_process(pid(7), |fake_process| fake_process.frozen = false);
    rounds(&fake, &mut balancer, 10);
    assert_eq!(runs_on(&fake), 1);
}

/// Goal: a process that mostly starts others stays where it is, even with a home, because its
/// children begin where it runs. It comes home when it has had more CPU time than they.
#[test]
fn launchers_stay_where_they_are() {
    let fake = with(fake_process([0, PAGES], 0, "0-7"));
    let ran_ns = fake.process(pid(7)).unwrap().threads[&1].cpu_time_ns;
    let far_ns = 30_000_000_000;
    fake.update_process(pid(7), |fake_process| fake_process.children_cpu_time_ns = ran_ns + far_ns);
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 10);
    assert_eq!(row(&reports[9], 7).decision.reason, Reason::Launcher);
    assert_eq!((fake.process(pid(7)).unwrap().affinity_calls, runs_on(&fake)), (0, 0));
    rounds(&fake, &mut balancer, 30); // in each a second of CPU time
    assert_eq!(runs_on(&fake), 1);
    fake.update_process(pid(7), |fake_process| {
        fake_process.children_cpu_time_ns += 2 * far_ns;
        fake_process.threads.values_mut().for_each(|thread| thread.cpu = CpuId(0));
    });
    rounds(&fake, &mut balancer, 10);
    assert_eq!(runs_on(&fake), 0);
}

/// Goal: memory goes only where the cpuset allows it, though the threads are elsewhere.
#[test]
fn cpusets_are_obeyed() {
    let forbidden = [NodeId(0)].into();
    let fake =
        with(FakeProcess { forbidden_nodes: forbidden, ..fake_process([0, PAGES], 0, "0-3") });
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 20);
    assert_eq!((residency(&fake), moved(&reports)), ([0, PAGES], 0));
    assert!(reports[19].settled);
}

/// Goal: a process that may not be read gives one notice over all rounds, and the others are
/// balanced.
#[test]
fn permission_denied_is_told_once() {
    let fake = with(fake_process([0, PAGES], 0, "0-7"));
    for number in [8, 9] {
        let denied = Some("run as root".to_owned());
        fake.spawn(pid(number), FakeProcess { denied, ..fake_process([0, PAGES], 0, "0-7") });
    }
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 20);
    let expected = Notice::Denied { pids: vec![pid(8), pid(9)], need: "run as root".to_owned() };
    assert_eq!(news(&reports), [&expected]);
    assert_eq!(runs_on(&fake), 1);
}

/// Goal: a privilege that is lost between look and move gives one notice; the process is then left
/// alone.
#[test]
fn rights_may_be_lost_meanwhile() {
    let fake = with(fake_process([0, PAGES], 0, "0-3"));
    let settings = BalanceSettings { budget_bytes_per_s: 4 << 20, ..BalanceSettings::default() };
    let mut balancer = balancer(&fake, settings);
    let before = rounds(&fake, &mut balancer, 4);
    fake.update_process(pid(7), |fake_process| fake_process.denied = Some("be root".to_owned()));
    let after = rounds(&fake, &mut balancer, 10);
    assert!((1..PAGES).contains(&moved(&before)));
    assert_eq!(moved(&after), 0);
    let expected = Notice::Denied { pids: vec![pid(7)], need: "be root".to_owned() };
    assert_eq!(news(&after), [&expected]);
}

/// Goal: a node that goes offline gives a notice, gets nothing, and is used again when it is back.
#[test]
fn nodes_come_and_go() {
    let fake = with(fake_process([0, PAGES], 0, "0-7"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    round(&fake, &mut balancer);
    fake.set_offline(NodeId(1), true);
    let without = rounds(&fake, &mut balancer, 5);
    assert_eq!(fake.process(pid(7)).unwrap().affinity_calls, 0);
    fake.set_offline(NodeId(1), false);
    let with_it = rounds(&fake, &mut balancer, 30);
    assert_eq!(runs_on(&fake), 1);
    assert_eq!(news(&without), [&Notice::NodeLeft { node: NodeId(1) }]);
    assert_eq!(news(&with_it), [&Notice::NodeCame { node: NodeId(1) }]);
}

/// Goal: whatever the clock does, loads and budgets stay within their bounds.
#[test]
fn clocks_may_jump() {
    let fake = with(fake_process([0, 4 * PAGES], 0, "0-3"));
    let settings = BalanceSettings {
        process_budget_bytes_per_s: 8 << 20, // 2048 pages a second
        ..BalanceSettings::default()
    };
    let mut balancer = balancer(&fake, settings);
    rounds(&fake, &mut balancer, 4);
    for clock_ns in [0, 3600 * S, u64::MAX / 2, 5 * S, 5 * S] {
        fake.set_clock_ns(clock_ns);
        let report = round(&fake, &mut balancer);
        assert!(report.moved_pages <= 2048 + 512, "{} pages", report.moved_pages);
        let loads = report.processes.iter().map(|row| row.decision.numbers.load_ppm);
        assert!(loads.max().unwrap_or(0) <= 1_000_000);
    }
    rounds(&fake, &mut balancer, 60);
    assert_eq!(residency(&fake), [4 * PAGES, 0]);
}

/// Goal: two rounds at the same moment, with no time between them, do no harm.
#[test]
fn no_time_may_pass() {
    let fake = with(fake_process([0, PAGES], 0, "0-7"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    for _ in 0..5 {
        balancer.round(&nodeward_mover::MoveControl::default()).unwrap();
    }
    rounds(&fake, &mut balancer, 10);
    assert_eq!(runs_on(&fake), 1);
}

/// Goal: a move ends before its destination is full: a hundredth of the node stays free.
#[test]
fn moves_end_under_memory_pressure() {
    // A node of 4 GiB has 1,048,576 pages; a hundredth is 10,485. There is room for 3,000 more.
    let free = [(NodeId(0), 13_485)].into();
    let fake = with(FakeProcess { free_pages: free, ..fake_process([0, PAGES], 0, "0-3") });
    // The decision's own margin is out of the way.
    let mut settings = BalanceSettings::default();
    settings.rules.margin_ppm = 0;
    let mut balancer = balancer(&fake, settings);
    let reports = rounds(&fake, &mut balancer, 30);
    let left = fake.process(pid(7)).unwrap().free_pages_min[&NodeId(0)];
    // A chunk that has begun is finished; 64 MiB are more than all memory here.
    assert!(left >= 13_485 - PAGES, "{left}");
    assert!(moved(&reports) <= PAGES);
    let shorts = reports.iter().flat_map(|report| &report.processes).map(|row| row.done.short);
    assert!(shorts.flatten().all(|short| short == Short::Pressure), "nothing else held it up");
}

/// Goal: while tasks stall for want of memory for more than a tenth of the time, no page moves,
/// neither of a pending move nor of a new one, and the report has the number. When that ends, the
/// same move continues to its end.
#[test]
fn moves_wait_while_tasks_stall() {
    let fake = with(fake_process([0, PAGES], 0, "0-3"));
    let stalls = |milli| fake.update_counters(|counters| counters.stall_permille = milli);
    fake.update_counters(|counters| counters.pressure_stall_ns = Some(0));
    let settings = BalanceSettings { budget_bytes_per_s: 4 << 20, ..BalanceSettings::default() };
    let mut balancer = balancer(&fake, settings);
    let before = rounds(&fake, &mut balancer, 3);
    assert!((1..PAGES).contains(&moved(&before)), "{} of {PAGES}", moved(&before));
    assert_eq!(row(&before[2], 7).decision.numbers.stalled_ppm, Some(0));
    stalls(101);
    round(&fake, &mut balancer); // it knows of the time before only
    fake.spawn(pid(8), fake_process([0, PAGES], 1, "0-3"));
    let under = rounds(&fake, &mut balancer, 5);
    assert_eq!(moved(&under), 0);
    for report in &under[2..] {
        for number in [7, 8] {
            let told = row(report, number);
            assert_eq!(told.decision.memory, Some(Reason::Stalled), "{number}");
            assert_eq!(told.decision.numbers.stalled_ppm, Some(101_000));
        }
        assert_eq!(row(report, 7).done.short, Some(Short::Stalled));
        assert!(row(report, 7).done.pages_pending > 0 && !report.settled);
    }
    stalls(100);
    rounds(&fake, &mut balancer, 40);
    assert_eq!(residency(&fake), [PAGES, 0]);
    assert_eq!(fake.process(pid(8)).unwrap().residency(), [(NodeId(0), PAGES)].into());
}

/// Goal: a node from which a thousandth of its memory spilled to others since the last look gets
/// nothing, though it has room, until nothing spills any more.
#[test]
fn a_node_that_spills_takes_nothing() {
    let fake = with(fake_process([0, PAGES], 0, "0-3"));
    let mut balancer = balancer(&fake, BalanceSettings::default());
    // A node of 4 GiB has 1,048,576 pages.
    let mut spill = |pages: u64| {
        fake.update_counters(|counters| {
            *counters.foreign_pages.entry(NodeId(0)).or_default() += pages;
        });
        round(&fake, &mut balancer)
    };
    let reports: Vec<_> = (0..5).map(|_| spill(1049)).collect();
    assert_eq!(moved(&reports), 0);
    assert_eq!(row(&reports[4], 7).decision.memory, Some(Reason::Pressed));
    for _ in 0..5 {
        spill(1048);
    }
    assert_eq!(residency(&fake), [PAGES, 0]);
}

/// Creates a machine where all memory is away from home and half of it is pinned.
fn half_held() -> Arc<FakeMachine> {
    let mut held = fake_process([0, PAGES], 0, "0-3");
    held.pinned = (16..16 + PAGES / 2).collect();
    with(held)
}

/// Goal: pinned pages stay, are reported with their reason, and are not tried for ever.
#[test]
fn pinned_pages_are_given_up() {
    let fake = half_held();
    let mut balancer = balancer(&fake, BalanceSettings::default());
    let reports = rounds(&fake, &mut balancer, 120);
    assert_eq!(residency(&fake), [PAGES / 2, PAGES / 2]);
    let calls = fake.process(pid(7)).unwrap().calls;
    rounds(&fake, &mut balancer, 600);
    assert_eq!(fake.process(pid(7)).unwrap().calls, calls, "ten more minutes, no more tries");
    let told = reports.iter().flat_map(|report| &report.processes);
    assert!(told.clone().any(|row| row.done.short == Some(Short::Refused)));
    assert!(told.clone().any(|row| row.done.pages_away_after == Some(PAGES / 2)));
}

/// Goal: pinned pages are tried once more after an hour: the pins may be gone, and nothing would
/// show it.
#[test]
fn what_was_held_comes_home_after_an_hour() {
    let fake = half_held();
    let mut balancer = balancer(&fake, BalanceSettings::default());
    rounds(&fake, &mut balancer, 120);
    fake.update_process(pid(7), |fake_process| fake_process.pinned.clear());
    rounds(&fake, &mut balancer, 3000);
    assert_eq!(residency(&fake), [PAGES / 2, PAGES / 2], "not yet");
    rounds(&fake, &mut balancer, 600);
    assert_eq!(residency(&fake), [PAGES, 0]);
}

/// Goal: pages that stay are counted over all rounds of a move, so that they are not taken for
/// pages that could move.
#[test]
fn what_stays_is_counted_over_all_rounds() {
    let mut pinned = fake_process([0, PAGES], 0, "0-3");
    pinned.pinned = (16..16 + PAGES).filter(|page| page / 64 % 2 == 0).collect();
    let pinned_pages = pinned.pinned.len() as u64;
    let fake = with(pinned);
    let process_budget_bytes_per_s = 2 << 20; // 512 pages, so 4 rounds for half of 4,096
    let settings = BalanceSettings { process_budget_bytes_per_s, ..BalanceSettings::default() };
    let mut balancer = balancer(&fake, settings);
    let reports = rounds(&fake, &mut balancer, 12);
    let refused = |report: &RoundReport| {
        report.processes.iter().any(|row| row.done.short == Some(Short::Refused))
    };
    let last = reports.iter().position(refused).unwrap();
    assert_eq!(residency(&fake), [PAGES - pinned_pages, pinned_pages]);
    assert!(moved(&reports[..last]) > 3 * 512, "it took {last} rounds");
    let away = row(&reports[last + 1], 7).decision.numbers.pages_away;
    assert!(away <= PAGES / 64, "{away}: samples are not exact");
}
