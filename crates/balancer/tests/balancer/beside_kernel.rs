//! Cooperation: the balancer beside the kernel's NUMA balancing.

use std::sync::Arc;

use nodeward_balancer::{BalanceSettings, Balancer, RivalMode};
use nodeward_machine::fake::FakeMachine;
use nodeward_model::{NodeId, NumaActivity, OtherBalancer};
use nodeward_policy::placement::{Home, Reason, Verdict};

use crate::stage::*;

/// A machine whose kernel balances, with one process, and a balancer that cooperates.
fn beside(on: [u64; 2], cpu: u32) -> (Arc<FakeMachine>, Balancer) {
    let fake = with(fake_process(on, cpu, "0-7"));
    fake.set_other_balancers(vec![OtherBalancer::Kernel { mode: 1 }]);
    kernel_did(&fake, 0, None);
    let settings = BalanceSettings { rivals: RivalMode::Cooperate, ..BalanceSettings::default() };
    let balancer = balancer(&fake, settings);
    (fake, balancer)
}

/// Sets the counts of the kernel for the thread of process 7.
fn kernel_did(fake: &FakeMachine, migrated_pages: u64, prefers: Option<u32>) {
    let activity = NumaActivity { migrated_pages, preferred_node: prefers.map(NodeId) };
    fake.update_process(pid(7), |process| {
        process.threads.get_mut(&1).unwrap().numa_activity = Some(activity);
    });
}

/// Goal: where the kernel has decided nothing, a thread comes to its memory as if nobody else
/// balanced; and once all is at home, nothing is read of what the kernel does.
#[test]
fn what_the_kernel_has_not_decided_is_ours() {
    let (fake, mut balancer) = beside([0, PAGES], 0);
    let reports = rounds(&fake, &mut balancer, 5);
    assert!(!reports[4].stands_back && reports[4].acted);
    assert_eq!((runs_on(&fake), residency(&fake)), (1, [0, PAGES]));
    let reads = || fake.process(pid(7)).unwrap().numa_activity_reads;
    let before = reads();
    assert!(before > 0);
    rounds(&fake, &mut balancer, 60);
    assert_eq!(reads(), before);
}

/// Goal: a process whose pages the kernel is moving is left alone, in each round in which it moves
/// more than 256, and 4 s after that; then it gets a home where its memory is by then, and nothing
/// comes back.
#[test]
fn what_the_kernel_moves_is_left_alone() {
    let (fake, mut balancer) = beside([0, PAGES], 0);
    for second in 1..=10 {
        kernel_did(&fake, second * 300, None);
        let report = round(&fake, &mut balancer);
        if second > 1 {
            let row = row(&report, 7);
            let told = (row.decision.verdict, row.decision.reason, row.home.clone());
            assert_eq!(told, (Verdict::Left, Reason::KernelMoves, None), "{second}");
        }
    }
    let process = fake.process(pid(7)).unwrap();
    assert_eq!((process.affinity_calls, process.calls), (0, 0));
    // The kernel brought all of it to the thread, and is done.
    fake.update_process(pid(7), |process| {
        process.pages.values_mut().for_each(|page| *page = nodeward_model::Page::on(NodeId(0)));
    });
    // Seen at 0 s, 4 s and 12 s at the latest: hands off for 4, 8 and 16 s.
    let reports = rounds(&fake, &mut balancer, 40);
    let last = row(&reports[39], 7);
    assert_eq!(
        (last.home.clone(), last.decision.memory),
        (Some(Home::Node(NodeId(0))), Some(Reason::AllHome))
    );
    assert_eq!((runs_on(&fake), residency(&fake), moved(&reports)), (0, [PAGES, 0], 0));
}

/// Goal: a thread that the kernel wants elsewhere than at home stays there, and memory waits with
/// it; when the kernel changes its mind, both come home.
#[test]
fn what_the_kernel_prefers_stands() {
    let (fake, mut balancer) = beside([0, PAGES], 0);
    kernel_did(&fake, 0, Some(0));
    let reports = rounds(&fake, &mut balancer, 10);
    let told = &row(&reports[9], 7).decision;
    assert_eq!((told.threads, told.memory), (Some(Reason::KernelPrefers), Some(Reason::AllHome)));
    assert_eq!(runs_on(&fake), 0);
    kernel_did(&fake, 0, Some(1));
    rounds(&fake, &mut balancer, 5);
    assert_eq!(runs_on(&fake), 1);
}

/// Goal: a thread that had less than 5 s of CPU time comes home, as the kernel has decided nothing
/// yet and what is at home is near then; memory waits for what the kernel decides, and is ours when
/// that time is over.
#[test]
fn young_threads_come_home_and_memory_waits() {
    let (fake, mut balancer) = beside([PAGES / 4, PAGES - PAGES / 4], 0);
    fake.update_process(pid(7), |process| {
        process.threads.get_mut(&1).unwrap().cpu_time_ns = 2 * S;
    });
    // It runs all the time, and looks are a second apart: 3 s of CPU time at the second. A look at
    // its threads only follows, to see whether it stayed.
    let reports = rounds(&fake, &mut balancer, 3);
    let told = &row(&reports[1], 7).decision;
    assert_eq!((told.threads, told.memory), (None, Some(Reason::KernelPrefers)));
    assert_eq!((runs_on(&fake), moved(&reports)), (1, 0));
    rounds(&fake, &mut balancer, 10);
    assert_eq!(residency(&fake), [0, PAGES]);
}

/// Goal: beside the kernel looks have a nice value of their own, if there is one of moves that
/// shows that it may be left; without the kernel they have the old one.
#[test]
fn looks_have_less_weight() {
    let values = |nice: Option<i8>, act: bool| {
        let fake = with(fake_process([PAGES, 0], 0, "0-3")); // nothing is to be moved
        let kernel = vec![OtherBalancer::Kernel { mode: 1 }];
        fake.set_other_balancers(kernel);
        let rivals = RivalMode::Cooperate;
        let settings = BalanceSettings { rivals, nice, act, ..BalanceSettings::default() };
        let mut balancer = balancer(&fake, settings);
        rounds(&fake, &mut balancer, 15);
        fake.set_other_balancers(Vec::new());
        rounds(&fake, &mut balancer, 15);
        fake.nice_values()
    };
    assert_eq!(values(Some(-10), true), [-10, 5, 0]);
    assert!(values(None, true).is_empty() && values(Some(-10), false).is_empty());
}

/// Goal: memory that is on its way stops as soon as the kernel begins to move it, too.
#[test]
fn moves_stop_when_the_kernel_begins() {
    let fake = with(fake_process([0, PAGES], 0, "0-3"));
    kernel_did(&fake, 0, None);
    fake.set_other_balancers(vec![OtherBalancer::Kernel { mode: 1 }]);
    let settings = BalanceSettings {
        rivals: RivalMode::Cooperate,
        budget_bytes_per_s: 2 << 20, // 512 of 4096 pages
        ..BalanceSettings::default()
    };
    let mut balancer = balancer(&fake, settings);
    rounds(&fake, &mut balancer, 4);
    let on_the_way = residency(&fake);
    assert!(on_the_way[0] > 0 && on_the_way[1] > 0, "{on_the_way:?}");
    kernel_did(&fake, 257, None);
    let reports = rounds(&fake, &mut balancer, 3);
    assert_eq!((residency(&fake), moved(&reports)), (on_the_way, 0));
    assert_eq!(row(&reports[2], 7).decision.reason, Reason::KernelMoves);
}

/// Goal: where the kernel does not tell what it does, every process that could be moved is left
/// alone; so it is beside others than the kernel, at no process.
#[test]
fn what_is_not_known_is_left_alone() {
    let (fake, mut balancer) = beside([0, PAGES], 0);
    fake.update_process(pid(7), |process| {
        process.threads.get_mut(&1).unwrap().numa_activity = None;
    });
    let reports = rounds(&fake, &mut balancer, 10);
    assert_eq!(row(&reports[9], 7).decision.reason, Reason::KernelMoves);
    assert_eq!(runs_on(&fake), 0);
    fake.set_other_balancers(vec![OtherBalancer::Numad { pid: pid(99) }]);
    let reports = rounds(&fake, &mut balancer, 11);
    assert!(reports[10].stands_back);
    assert_eq!(fake.process(pid(7)).unwrap().affinity_calls, 0);
}

/// Goal: of 40 processes of ten threads each, all away from home, no more than 256 threads are
/// looked at in a round, and those that were not are left alone until their turn comes.
#[test]
fn looks_are_bounded() {
    let fake = fake();
    fake.set_other_balancers(vec![OtherBalancer::Kernel { mode: 1 }]);
    for number in 1..=40 {
        let mut process = fake_process([0, 100], 0, "0-7");
        let thread = process.threads[&1].clone();
        let thread = nodeward_machine::fake::FakeThread {
            run_permille: 20,
            numa_activity: Some(NumaActivity::default()),
            ..thread
        };
        process.threads = (1..=10).map(|tid| (tid, thread.clone())).collect();
        fake.spawn(pid(number), process);
    }
    let reads = || -> u64 {
        (1..=40).map(|number| fake.process(pid(number)).unwrap().numa_activity_reads).sum()
    };
    let settings = BalanceSettings { rivals: RivalMode::Cooperate, ..BalanceSettings::default() };
    let mut balancer = balancer(&fake, settings);
    let mut before = 0;
    let mut left = Vec::new();
    for _ in 0..6 {
        let report = round(&fake, &mut balancer);
        let looked = reads() - before;
        assert!(looked <= 256, "{looked}");
        before += looked;
        let is_left =
            |row: &&nodeward_balancer::ProcessRow| row.decision.reason == Reason::KernelMoves;
        left.push(report.processes.iter().filter(is_left).count());
    }
    // 25 processes and six threads of another fit: 14 wait in the first round that decides.
    assert!(left.contains(&14) && left[5] == 0, "{left:?}");
}
