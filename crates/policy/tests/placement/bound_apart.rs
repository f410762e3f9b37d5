//! Entities whose threads are bound to different nodes.

use std::collections::BTreeMap;

use nodeward_model::NodeId;
use nodeward_policy::placement::*;
use proptest::prelude::*;

use crate::properties::machine;
use crate::quarter_or_all;
use crate::world::*;

/// Where a thread may run; `None` if that is anywhere.
type Bound = Option<usize>;

fn decision(plan: &Plan, id: EntityId) -> &Decision {
    plan.decisions.iter().find(|decision| decision.entity == id).unwrap()
}

fn spread(nodes: &str) -> Home {
    Home::Spread(mask(nodes))
}

/// Nodes of four CPUs and 4 GiB. Affinity 0 is all of them, affinity `n + 1` node `n`.
fn nodes_of_four(nodes: usize) -> World {
    let mut world = World::new(&vec![(4, 1 << 20); nodes]);
    let one = |node: usize| Affinity([(NodeId(node as u32), 4)].into());
    world.affinities.extend((0..nodes).map(one));
    world
}

/// Binds the threads of a process, which are there from now on.
fn bind(world: &mut World, id: EntityId, to: &[Bound]) {
    for (task, bound) in world.processes[id.0 as usize].tasks.iter_mut().zip(to) {
        task.affinity = bound.map(|node| node + 1);
        task.node = bound.unwrap_or(task.node);
    }
}

/// A process of one thread that wants a CPU for each of `to`, bound as that says.
fn start_bound(world: &mut World, to: &[Bound], pages: &[u64]) -> EntityId {
    let id = world.start(CPU, &vec![0; to.len()], pages);
    bind(world, id, to);
    id
}

/// Goal: threads that must be on different nodes are where they must be: the home is these nodes,
/// no thread is called, no memory goes to one of them as a whole, and counts are wanted.
#[test]
fn threads_bound_to_different_nodes_make_it_wide() {
    let mut world = nodes_of_four(2);
    let id = start_bound(&mut world, &[Some(0), Some(0), Some(1), Some(1)], &[40_000, 0]);
    let plan = world.round(&Rules::default());
    assert_eq!(
        (&plan.homes[&id], decision(&plan, id).reason),
        (&spread("0-1"), Reason::BoundApart)
    );
    assert_eq!(decision(&plan, id).memory, Some(Reason::ByPage));
    assert!(decision(&plan, id).counts_wanted);
    assert!(plan.nudges.is_empty() && plan.moves.is_empty());
    assert_eq!(world.settle(&Rules::default(), 100, 100), Some(0));
    assert!(world.round(&Rules::default()).settled);
}

/// Goal: the nodes are those that busy threads may use and whose memory the process may have.
/// Threads that may run anywhere count, as far as they do anything.
#[test]
fn the_home_is_the_nodes_of_busy_threads() {
    let home = |idle: bool, may_hold: &str| {
        let mut world = nodes_of_four(4);
        let id = start_bound(&mut world, &[Some(0), Some(1), None], &[9000, 0, 0, 0]);
        world.processes[0].tasks[2].wants = if idle { 9_999 } else { CPU }; // 1 % is 10,000
        let mut snapshot = world.snapshot();
        snapshot.entities[0].may_hold = mask(may_hold);
        let plan = Homes::default().decide(&snapshot, &Rules::default());
        check(&snapshot, &plan);
        assert!(plan.nudges.is_empty());
        (plan.homes.get(&id).cloned(), decision(&plan, id).reason)
    };
    let wide = |nodes| (Some(spread(nodes)), Reason::BoundApart);
    assert_eq!(home(false, "0-3"), wide("0-3"));
    assert_eq!(home(true, "0-3"), wide("0-1"));
    assert_eq!(home(false, "0-2"), wide("0-2"));
    assert_eq!(home(false, "0,2-3"), (None, Reason::NoNodeAllowed), "no memory for the second");
    assert_eq!(home(false, "7"), (None, Reason::NoNodeAllowed));
}

/// Goal: a thread whose node is gone leaves no node for all of it, so that nothing is done; one
/// thread alone that does anything decides alone.
#[test]
fn one_node_or_none_is_not_wide() {
    let mut world = nodes_of_four(3);
    let id = start_bound(&mut world, &[Some(0), Some(2)], &[9000, 0, 0]);
    let mut snapshot = world.snapshot();
    snapshot.nodes.remove(&NodeId(2));
    let plan = Homes::default().decide(&snapshot, &Rules::default());
    assert_eq!(decision(&plan, id).reason, Reason::NoNodeAllowed);
    world.processes[0].tasks[0].wants = 0;
    let plan = world.round(&Rules::default());
    assert_eq!((&plan.homes[&id], decision(&plan, id).reason), (&on(2), Reason::OnlyThere));
}

/// Goal: where the threads of one node end before the others, the home becomes the node of those
/// that are left, but for 10 s no memory follows: nobody uses what the others leave behind.
#[test]
fn what_ended_threads_leave_behind_waits() {
    let mut world = nodes_of_four(2);
    let id = start_bound(&mut world, &[Some(0), Some(0), Some(1), Some(1)], &[40_000, 40_000]);
    world.settle(&Rules::default(), 20, 20);
    world.processes[0].tasks.iter_mut().take(2).for_each(|task| task.wants = 0);
    let mut moves_after = None;
    for second in 0..20 {
        let plan = world.round(&Rules::default());
        assert_eq!(plan.homes[&id], on(1));
        if !plan.moves.is_empty() {
            moves_after = moves_after.or(Some(second));
        }
    }
    assert!(moves_after.is_some_and(|seconds| seconds >= 10), "{moves_after:?}");
}

/// Goal: a home on one node ends at once when threads are bound to different ones, and nothing
/// moves for it. When they are free again it is placed anew after a hold, which doubles with each
/// change of the home: the first holds for 10 s, the next ones for 20, 40 and 80.
#[test]
fn who_is_bound_and_freed_comes_back_after_a_hold() {
    let mut world = nodes_of_four(2);
    let id = world.start(CPU, &[0, 0], &[40_000, 0]);
    let round = |world: &mut World| {
        let plan = world.round(&Rules::default());
        let Decision { verdict, reason, .. } = *decision(&plan, id);
        (plan.homes[&id].clone(), verdict, reason)
    };
    assert_eq!(round(&mut world).0, on(0));
    for held in [20, 80] {
        bind(&mut world, id, &[Some(0), Some(1)]);
        assert_eq!(round(&mut world), (spread("0-1"), Verdict::Moves, Reason::BoundApart));
        bind(&mut world, id, &[None, None]);
        for second in 1..held {
            let told = round(&mut world);
            assert_eq!(told, (spread("0-1"), Verdict::Stays, Reason::BoundApart), "{second}");
        }
        assert_eq!(round(&mut world), (on(0), Verdict::Moves, Reason::MemoryThere));
    }
    assert_eq!(world.moved, 0);
}

/// Goal: who is freed and is larger than a node stays where it is, for that reason; and who is
/// bound to a single other node goes there at once.
#[test]
fn who_is_freed_may_stay_spread() {
    let mut world = nodes_of_four(3);
    let to = [Some(0), Some(0), Some(0), Some(0), Some(1), Some(1), Some(1), Some(1)];
    let id = start_bound(&mut world, &to, &[40_000, 40_000, 0]);
    assert_eq!(world.round(&Rules::default()).homes[&id], spread("0-1"));
    bind(&mut world, id, &[None; 8]);
    let plans: Vec<_> = (0..12).map(|_| world.round(&Rules::default())).collect();
    assert!(plans.iter().all(|plan| plan.homes[&id] == spread("0-1")));
    assert_eq!(decision(&plans[11], id).reason, Reason::LargerThanNode);
    bind(&mut world, id, &[Some(2); 8]);
    let plan = world.round(&Rules::default());
    assert_eq!((&plan.homes[&id], decision(&plan, id).reason), (&on(2), Reason::Displaced));
}

/// Goal: threads on two nodes that work in turns, with a second in which both do, make it wide ever
/// longer: its memory does not go to and fro. In an hour the home changes at most
/// 2 * log2(3600 / 10 + 1) = 17 times.
#[test]
fn bound_threads_that_work_in_turns_move_no_memory_for_long() {
    let mut world = nodes_of_four(2);
    let id = start_bound(&mut world, &[Some(0), Some(1)], &[40_000, 0]);
    let (mut home, mut changes) = (None, 0);
    for second in 0..3600 {
        let (turn, is_last) = (second / 5 % 2, second % 5 == 4);
        for task in 0..2 {
            let works = task == turn || is_last;
            world.processes[0].tasks[task].wants = if works { CPU } else { 0 };
        }
        let plan = world.round(&Rules::default());
        let now = plan.homes.get(&id).cloned();
        changes += u32::from(now != home);
        home = now;
    }
    assert!(changes <= 17, "{changes}");
    assert!(world.moved <= 9 * 40_000, "{}", world.moved);
}

/// Goal: what is bound to a node counts there. Three of its four CPUs are in use by bound threads,
/// and one of the other node: of 6 CPUs in all each node invites 3.15, so a process of two goes to
/// the other node, though its memory is here.
#[test]
fn bound_threads_count_where_they_are() {
    let mut world = nodes_of_four(2);
    start_bound(&mut world, &[Some(0), Some(0), Some(0), Some(1)], &[40_000, 0]);
    let id = world.start(CPU, &[0, 1], &[9000, 0]);
    let plan = world.round(&Rules::default());
    assert_eq!((&plan.homes[&id], decision(&plan, id).reason), (&on(1), Reason::Idlest));
    assert_eq!(plan.nodes[&NodeId(0)].home_load_ppm, 3 * CPU);
}

/// Goal: memory on a node that none of its threads may use comes to the nodes of its threads.
#[test]
fn memory_that_no_thread_is_near_to_comes() {
    let mut world = nodes_of_four(3);
    start_bound(&mut world, &[Some(0), Some(1)], &[0, 10_000, 30_000]);
    world.round(&Rules::default());
    assert_eq!(world.processes[0].pages, [30_000, 10_000, 0]);
    assert_eq!(world.settle(&Rules::default(), 100, 100), Some(0));
}

/// Goal: a spread home is not left for a node on which an affinity leaves too few CPUs.
#[test]
fn what_shrinks_under_a_narrow_affinity_stays_spread() {
    let mut world = nodes_of_four(2);
    let narrow = world.affinities.len();
    world.affinities.push(Affinity(BTreeMap::from([(NodeId(0), 1), (NodeId(1), 1)])));
    let id = world.start(CPU, &[0, 1, 0, 1, 0, 1], &[40_000, 0]);
    assert_eq!(world.round(&Rules::default()).homes[&id], spread("0-1"));
    let process = &mut world.processes[0];
    process.affinity = narrow;
    process.tasks.iter_mut().skip(2).for_each(|task| task.wants = 0);
    process.tasks[1].wants = CPU / 20; // with the first more than a CPU, and not parallel
    assert_eq!(world.round(&Rules::default()).homes[&id], spread("0-1"));
}

/// A machine by chance, on which threads of some processes are bound, each to a node.
fn bound_machine(seed: u64) -> World {
    let mut world = machine(seed);
    let first = world.affinities.len();
    let with_cpus: Vec<_> = (0..world.nodes.len()).filter(|&at| world.nodes[at].cpus > 0).collect();
    for &node in &with_cpus {
        let cpus = world.nodes[node].cpus;
        world.affinities.push(Affinity([(NodeId(node as u32), cpus)].into()));
    }
    for number in 0..world.processes.len() {
        let is_bound = world.chance(2) == 0;
        for task in 0..world.processes[number].tasks.len() {
            let at = world.chance(with_cpus.len() as u64) as usize;
            if is_bound && world.chance(3) > 0 {
                let task = &mut world.processes[number].tasks[task];
                (task.affinity, task.node) = (Some(first + at), with_cpus[at]);
            }
        }
    }
    world
}

/// Goal: machines by chance with bound threads come to rest as all others do: no page moves and no
/// thread is called in the end. What a plan may do `world::check` holds in each round.
#[test]
fn machines_with_bound_threads_come_to_rest() {
    for seed in 0..quarter_or_all(300).into() {
        let mut world = bound_machine(seed);
        let last = world.settle(&Rules::default(), 60, 200);
        assert!(last.is_some_and(|last| last <= 100), "machine {seed}: {last:?}");
        (0..100).for_each(|_| drop(world.round(&Rules::default())));
        let plan = world.round(&Rules::default());
        assert!(plan.nudges.is_empty() && plan.settled, "machine {seed}: {:?}", plan.decisions);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(quarter_or_all(24)))]

    /// Goal: however threads are bound anew and freed, in each second by chance, no page moves more
    /// often than homes change, and these changes are the fewer the more there were. Those that
    /// an affinity forces are no choice of ours.
    #[test]
    fn who_is_bound_anew_all_the_time_is_survived(seed in any::<u64>(), percent in 1..40_u64) {
        let mut world = bound_machine(seed);
        let mut changes = vec![1; world.processes.len()];
        for _ in 0..200 {
            let plan = world.round(&Rules::default());
            for decision in plan.decisions.iter().filter(|it| it.verdict == Verdict::Moves) {
                changes[decision.entity.0 as usize] += 1;
            }
            rebind(&mut world, percent);
        }
        for (process, changes) in world.processes.iter().zip(changes) {
            prop_assert!(process.moved <= process.pages.iter().sum::<u64>() * changes);
        }
    }
}

/// Gives threads another affinity, each with this probability in per cent.
fn rebind(world: &mut World, percent: u64) {
    for number in 0..world.processes.len() {
        for task in 0..world.processes[number].tasks.len() {
            if world.chance(100) < percent {
                let affinity = world.chance(world.affinities.len() as u64) as usize;
                let nodes: Vec<NodeId> = world.affinities[affinity].0.keys().copied().collect();
                let node = nodes[world.chance(nodes.len() as u64) as usize];
                let task = &mut world.processes[number].tasks[task];
                (task.affinity, task.node) = (Some(affinity), node.0 as usize);
            }
        }
    }
}
