//! What works and rests in turn: its mean load says less than its node has to do at a time.

use nodeward_policy::placement::*;

use super::world::{CPU, World, mask, on};

/// Seconds of work, and of rest.
const TURN: u64 = 2;

/// Makes rounds in which even processes work in even turns and odd ones in odd turns. Returns the
/// homes that changed.
fn rounds(world: &mut World, rounds: std::ops::Range<u64>) -> Vec<(u64, EntityId, Reason)> {
    rounds_of(CPU, world, rounds)
}

/// The same of threads that want this much of a CPU while they work.
fn rounds_of(
    wants: u64,
    world: &mut World,
    rounds: std::ops::Range<u64>,
) -> Vec<(u64, EntityId, Reason)> {
    let mut changes = Vec::new();
    for round in rounds {
        for (number, process) in world.processes.iter_mut().enumerate() {
            let works = number as u64 % 2 == round / TURN % 2;
            let wants = if works { wants } else { CPU / 1000 };
            process.tasks.iter_mut().for_each(|task| task.wants = wants);
        }
        let plan = world.round(&Rules::default());
        let changed = plan.decisions.iter().filter(|it| it.verdict == Verdict::Moves);
        changes.extend(changed.map(|it| (round, it.entity, it.reason)));
    }
    changes
}

/// Goal: two programs of two threads that work in turns have two CPUs' load while they work, and a
/// mean of one. Nodes of one CPU are too small for either: both are spread, so that no CPU is idle
/// while a thread waits, and stay so for ten minutes. The second rests when it is first seen, and
/// is known as soon as it works, in the third round: a first home need not be held. A program of
/// one thread is no larger for turns.
#[test]
fn a_program_is_as_large_as_its_work() {
    let mut world = World::new(&[(1, 1 << 20), (1, 1 << 20)]);
    let wide = [0, 1].map(|node| {
        let pages = if node == 0 { [40_000, 0] } else { [0, 40_000] };
        world.start(CPU, &[node, node], &pages)
    });
    let changes = rounds(&mut world, 0..600);
    assert_eq!(changes, [(2, wide[1], Reason::LargerThanNode)]);
    for id in wide {
        assert_eq!(world.homes.home(id), Some(&Home::Spread(mask("0-1"))));
    }
    let mut world = World::new(&[(1, 1 << 20), (1, 1 << 20)]);
    let narrow = world.start(CPU, &[0], &[40_000, 0]);
    assert_eq!(rounds(&mut world, 0..600), []);
    assert_eq!(world.homes.home(narrow), Some(&on(0)));
}

/// Goal: a thread works if it wants nine tenths of a CPU. Two such threads of a program are larger
/// than a node of one CPU while they work; two that want less rest in between, and are as large as
/// their mean, which fits.
#[test]
fn a_thread_works_for_nine_tenths_of_the_time() {
    for (wants, is_spread) in [(CPU / 10 * 9, true), (CPU / 10 * 9 - 1, false)] {
        let mut world = World::new(&[(1, 1 << 20), (1, 1 << 20)]);
        let id = world.start(wants, &[0, 0], &[40_000, 0]);
        rounds_of(wants, &mut world, 0..100);
        let home = world.homes.home(id);
        assert_eq!(matches!(home, Some(Home::Spread(_))), is_spread, "{wants}: {home:?}");
    }
}

/// Goal: ten programs of a node of eight CPUs work at the same time, and ten of the other in the
/// turns between. The mean loads of five fit, but two of each node have to stay away each time.
/// When they have worked there for 5 s (four rounds after the first of a turn, in three turns of
/// theirs) and their homes are 10 s old, these follow them, and the memory. Nothing moves after
/// that.
#[test]
fn homes_follow_threads_that_a_busy_home_keeps_away() {
    let mut world = World::new(&[(8, 1 << 22), (8, 1 << 22)]);
    let ids: Vec<EntityId> = (0..20)
        .map(|number| match number % 2 {
            0 => world.start(CPU / 50, &[0], &[40_000, 0]),
            _ => world.start(CPU / 50, &[1], &[0, 40_000]),
        })
        .collect();
    world.round(&Rules::default());
    let away = 16..20;
    for number in away.clone() {
        world.processes[number].tasks[0].node = 1 - number % 2; // where a CPU was idle
    }
    let changes = rounds(&mut world, 0..600);
    assert!(changes.iter().all(|&(round, ..)| (9..16).contains(&round)), "{changes:?}");
    let mut moved: Vec<_> = changes.iter().map(|&(_, id, reason)| (id, reason)).collect();
    moved.sort();
    let expected = away.clone().map(|number| (ids[number], Reason::CrowdedOut));
    assert_eq!(moved, expected.collect::<Vec<_>>());
    for number in away {
        let node = 1 - number % 2;
        assert_eq!(world.homes.home(ids[number]), Some(&on(node as u32)));
        assert_eq!(world.processes[number].pages[node], 40_000);
    }
    assert_eq!(world.moved, 4 * 40_000);
}
