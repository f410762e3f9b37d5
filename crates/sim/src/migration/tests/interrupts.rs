//! What flushes of translations cost, and whom they interrupt.

use nodeward_model::NodeId;
use nodeward_scenario::NodeSpec;

use super::*;
use crate::statistics::CpuTimeKind;

/// Goal: on one CPU no CPU is interrupted; on more, every CPU that runs the process is.
#[test]
fn interrupts_go_to_those_who_run_the_process() {
    let mut one = machine(1, 1);
    one.nodes.push(NodeSpec { id: NodeId(1), cpus: Default::default(), ..one.nodes[0].clone() });
    one.distances = vec![vec![10, 20], vec![20, 10]];
    let mut world = world(one);
    let space = process(&mut world, 0, 512, false);
    spin(&mut world, space, 0);
    world.run_until(100_000);
    let (moved, _) = run_move(&mut world, job(space, 512, 1));
    assert_eq!((moved.account.moved, world.counters.flush_ipis), (512, 0));
    assert!(world.counters.flushes > 0, "its own translations go, too");
    // 3 of 8 CPUs run it; 512 pages are one batch.
    let (_, ipis) = timed_move(4, 3, 512, 1, &[]);
    assert_eq!(ipis, 3);
}

/// Goal: a batch of c pages takes 1/c of the interrupts.
#[test]
fn interrupts_are_divided_by_the_batch() {
    let ipis = |batch| timed_move(4, 2, 2048, 1, &[("batch", batch)]).1;
    assert_eq!(ipis("1"), 2048 * 2);
    assert_eq!(ipis("64"), 2048 / 64 * 2);
    assert_eq!(ipis("512"), 2048 / 512 * 2); // 1/512
}

/// Goal: a flush costs its sender, its targets and its distance.
#[test]
fn a_flush_takes_what_its_targets_take() {
    // CPUs 0-3 run the process, the mover is on CPU 4, of the other node: it sends (1000 ns) to 4
    // (40 ns each) on one other node (2000 ns), once a page.
    let (moved, ipis) = timed_move(4, 4, 10, 1, &[("batch", "1")]);
    assert_eq!(ipis, 40);
    assert_eq!(moved.step_ns[CpuTimeKind::Flush as usize], 10 * (1000 + 4 * 40 + 2000));
    // With CPU 0-2 only, it is on CPU 3, beside them.
    let (moved, _) = timed_move(4, 3, 10, 1, &[("batch", "1")]);
    assert_eq!(moved.step_ns[CpuTimeKind::Flush as usize], 10 * (1000 + 3 * 40));
}

/// Goal: an interrupted task loses the time of the interrupts.
#[test]
fn victims_lose_time() {
    let mut world = world(machine(2, 2));
    world.machine.params.batch_pages = 1;
    let space = process(&mut world, 0, 1000, false);
    let task = spin(&mut world, space, 0);
    world.run_until(100_000);
    let ran = world.tasks[task as usize].cpu_time_ns;
    run_move(&mut world, job(space, 1000, 1));
    world.run_until(20_000_000);
    // 1000 interrupts of 700 ns; turns of a millisecond end within one of the end.
    let lost = 20_000_000 - 100_000 - (world.tasks[task as usize].cpu_time_ns - ran);
    assert!((700_000..700_000 + 1_000_000).contains(&lost), "{lost}");
}

/// Goal: a broadcast costs the same whichever CPUs run the process.
#[test]
fn a_broadcast_does_not_know_cpus() {
    let flush = |cpus, busy| {
        let params = [("shootdown", "broadcast")];
        let (moved, ipis) = timed_move(cpus, busy, 1024, 1, &params);
        assert_eq!(ipis, 0);
        moved.step_ns[CpuTimeKind::Flush as usize]
    };
    // 300 ns a page, and 1890 ns for each of two batches.
    assert_eq!(flush(1, 0), 1024 * 300 + 2 * 1890);
    assert_eq!(flush(8, 7), 1024 * 300 + 2 * 1890);
}

/// Goal: the drain of a barrier is paid for once per batch.
#[test]
fn copies_behind_a_barrier_begin_anew() {
    let copy_ns = |batch| {
        let params = [("shootdown", "broadcast"), ("broadcast-drain", "1us"), ("batch", batch)];
        timed_move(2, 0, 1024, 1, &params).0.result.step_ns[CpuTimeKind::Copy as usize]
    };
    // 512 ns a page.
    assert_eq!(copy_ns("1"), 1024 * (512 + 1000));
    assert_eq!(copy_ns("512"), 1024 * 512 + 2 * 1000);
}
