//! Copies by several CPUs, and by a copy engine.

use super::*;
use crate::cpu::{Op, Task};
use crate::hardware::CpuIndexSet;
use crate::ids::TaskId;
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// Goal: a helper starts later on a busy CPU, by the cost of the interrupt that preempts it.
#[test]
fn who_has_a_cpu_is_interrupted_first() {
    let move_ns = |preempt_ns| {
        let mut machine = machine(2, 2);
        machine.params.copiers = 2;
        machine.params.preempt_ns = preempt_ns;
        let mut world = world(machine);
        let [space, other] = [0, 1].map(|node| process(&mut world, node, 512, node == 0));
        for cpu in [2, 3] {
            spin(&mut world, other, cpu);
        }
        world.run_until(100_000);
        run_move(&mut world, job(space, 512, 512)).1
    };
    assert_eq!(move_ns(3000), move_ns(0) + 3000);
}

/// Goal: k copiers on idle cores take a k-th of the copy, and what it costs to start them.
#[test]
fn copiers_share_a_copy() {
    let huge = |copiers| time_of(8, 512, 512, &[("copiers", copiers)]);
    // 2 MiB: 32768 lines of 8 ns. With k of them: k times 1800 ns to hand over, then the last one
    // wakes up (2000 ns), copies its part, and the mover wakes up (2000 ns) and goes on (2000 ns).
    let expected = |k: u64| 5000 + k * 1800 + 2000 + 262_144 / k + 2000 + 2000;
    assert_eq!(huge("1"), 5000 + 262_144);
    assert_eq!(huge("2"), expected(2));
    assert_eq!(huge("4"), expected(4));
    assert_eq!(huge("8"), expected(8));
}

/// Goal: handing out a copy that is smaller than the cost of handing it out does not pay.
#[test]
fn base_pages_one_by_one_are_slower_with_copiers() {
    let base = |copiers| time_of(8, 64, 1, &[("batch", "1"), ("copiers", copiers)]);
    // 512 ns to copy, or an eighth of that behind 8 hand-overs and 3 waits: as in 2017.
    assert_eq!(base("1"), 64 * (590 + 512));
    assert_eq!(base("8"), 64 * (590 + 8 * 1800 + 2000 + 64 + 2000 + 2000));
}

/// Goal: busy CPUs on the destination make copiers slower, because one late helper delays all; and
/// programs there lose time.
#[test]
fn busy_destinations_delay_copiers() {
    let move_ns = |busy: bool| {
        let mut machine = machine(2, 4);
        machine.params.copiers = 4;
        machine.params.copy_bytes_per_s = 100_000_000_000;
        let mut world = world(machine);
        let space = process(&mut world, 0, 51_200, true);
        let other = process(&mut world, 1, 512, false);
        let faults = |cpu| {
            let mut task = Task::new(CpuIndexSet::of([cpu]));
            task.space = Some(other);
            task
        };
        (4..8).filter(|_| busy).for_each(|cpu| {
            world.start_task(faults(cpu), Box::new(LongKernelTurns));
        });
        world.run_until(100_000);
        run_move(&mut world, job(space, 51_200, 512)).1
    };
    /// Long stretches in the kernel that cannot be interrupted.
    struct LongKernelTurns;
    impl TaskProgram for LongKernelTurns {
        fn next(&mut self, _world: &mut World, _task: TaskId) -> Op {
            Op::Busy(CpuTimeKind::Fault, 50_000)
        }
    }
    let (idle, busy) = (move_ns(false), move_ns(true));
    // The last of 4 stretches of 50 us to end: 40 us on average; 100 huge pages.
    println!("idle {idle} ns, busy {busy} ns");
    assert!(busy > idle + 100 * 20_000 && busy < idle + 100 * 60_000);
}

/// Goal: n channels copy n times as fast, and no CPU is needed.
#[test]
fn channels_of_an_engine_add_up() {
    let engine = |channels| time_of(2, 512, 512, &[("dma-channels", channels), ("dma", "4GB/s")]);
    // 2 us to set up, 2 MiB at 4 GB/s are 524288 ns, and the mover wakes up in 2 us.
    assert_eq!(engine("1"), 5000 + 2000 + 524_288 + 2000);
    assert_eq!(engine("4"), 5000 + 2000 + 524_288 / 4 + 2000);
    assert_eq!(engine("16"), 5000 + 2000 + 524_288 / 16 + 2000);
}
