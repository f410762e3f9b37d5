//! What an account of a move says, and pages that stay.

use nodeward_model::SkipReason;
use nodeward_scenario::AccessPattern;

use super::*;
use crate::cpu::{LineAccess, Op, Task};
use crate::hardware::CpuIndexSet;
use crate::ids::{SpaceId, TaskId};
use crate::memory::{GranuleRange, PageByte};
use crate::migration::outcome::FolioOutcome;
use crate::world::{TaskProgram, World};

/// Goal: pinned pages stay after ten attempts, and the account says so.
#[test]
fn pinned_pages_stay() {
    let mut world = world(machine(2, 2));
    let space = process(&mut world, 0, 600, false);
    world.spaces[space].regions[0].pinned.extend([3, 511, 599]);
    let (moved, ns) = run_move(&mut world, job(space, 600, 1));
    assert_eq!(moved.account.moved, 597);
    assert_eq!(moved.account.skipped_for(SkipReason::Pinned), 3);
    assert_eq!(moved.outcomes[3], FolioOutcome::Skipped(SkipReason::Pinned));
    // 597 pages as ever; each of the three is tried ten times, for 280 ns.
    assert_eq!(ns, 597 * 1102 + 3 * 10 * 280);
    check_pages(&world);
}

/// Goal: a full node takes what fits, and the account shows the rest.
#[test]
fn full_nodes_take_what_fits() {
    let mut world = world(machine(2, 2));
    let hog = world.memory.zones[1].free_pages - 100;
    process(&mut world, 1, hog, false);
    let space = process(&mut world, 0, 1000, false);
    let (moved, _) = run_move(&mut world, job(space, 1000, 1));
    assert_eq!(moved.account.moved, 100);
    assert_eq!(moved.account.skipped_for(SkipReason::NoMemory), 900);
    check_pages(&world);
}

/// Goal: pages that are on the destination, and pages that are absent, are accounted for apart.
#[test]
fn holes_and_pages_that_are_there_are_accounted_for() {
    let mut world = world(machine(2, 2));
    let space = process(&mut world, 0, 100, false);
    let region = &mut world.spaces[space].regions[0];
    region.set(0..10, PageByte::on(1));
    region.set(20..25, PageByte::ABSENT);
    world.memory.zones[1].free_pages -= 10;
    world.memory.zones[0].free_pages += 15;
    let (moved, _) = run_move(&mut world, job(space, 100, 1));
    let there = (moved.account.already_there, moved.account.moved);
    assert_eq!(there, (10, 85));
    assert_eq!(moved.account.skipped_for(SkipReason::NotPresent), 5);
    check_pages(&world);
}

/// Goal: marked pages move once, to the node of the thread that touches them, and only those that
/// are touched.
#[test]
fn lazy_pages_move_to_who_touches_them() {
    let mut world = world(machine(2, 2));
    let space = process(&mut world, 0, 64 * 512, false);
    let ns = world.make_lazy(0, space);
    assert_eq!(ns, 64 * 512 * 60); // no CPU has translations
    /// Goes through the first half.
    struct FirstHalfStream(SpaceId);
    impl TaskProgram for FirstHalfStream {
        fn next(&mut self, _world: &mut World, _task: TaskId) -> Op {
            let access = AccessPattern { parallel_milli: 10_000, compute_ps: 0, writes_milli: 0 };
            let part = GranuleRange { space: self.0, region: 0, first: 0, granules: 32 };
            Op::Access(LineAccess {
                range: part,
                lines: 32 * 512 * 64,
                pattern: access,
                reused: false,
            })
        }
    }
    let mut task = Task::new(CpuIndexSet::of([2, 3]));
    task.space = Some(space);
    world.start_task(task, Box::new(FirstHalfStream(space)));
    world.run_until(500_000_000);
    assert_eq!(world.spaces[space].count_all(2), [32 * 512, 32 * 512, 32 * 512, 0]);
    assert_eq!(world.counters.lazy_faults, 32 * 512);
    assert_eq!(world.counters.lazy_pages, 32 * 512);
    assert!(world.lazy_faults_due.len() <= 1);
    check_pages(&world);
}
