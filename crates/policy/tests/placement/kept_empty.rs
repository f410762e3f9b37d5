//! Nodes that are kept empty: nothing ever goes there (`world::check` asserts that in each round of
//! every test), and what is there leaves, whatever that costs.

use nodeward_model::NodeId;
use nodeward_policy::placement::*;
use proptest::prelude::*;

use crate::properties::machine;
use crate::world::*;

fn decision(plan: &Plan, id: EntityId) -> &Decision {
    plan.decisions.iter().find(|decision| decision.entity == id).unwrap()
}

/// Two nodes of four CPUs and 4 GiB, of which the second is kept empty.
fn two_nodes() -> World {
    let mut world = World::new(&[(4, 1 << 20); 2]);
    world.nodes[1].keep_empty = true;
    world
}

/// Goal: threads and memory leave, those of an idle process too, although moving them does not pay,
/// and although the other node gets more to do than its CPUs can. 12 threads on 4 CPUs.
#[test]
fn what_is_there_leaves() {
    let mut world = two_nodes();
    let busy = world.start(CPU, &[1; 12], &[0, 100_000]);
    let idle = world.start(0, &[1], &[0, 20_000]);
    let plan = world.round(&Rules::default());
    for id in [busy, idle] {
        assert_eq!(plan.homes[&id], on(0), "{:?}", decision(&plan, id));
        assert_eq!(decision(&plan, id).memory, Some(Reason::KeptEmpty));
    }
    assert_eq!(decision(&plan, busy).numbers.threads_nudged, 12);
    assert_eq!(world.processes[0].pages, [100_000, 0]);
    assert_eq!(world.processes[1].pages, [20_000, 0]);
    let plan = world.round(&Rules::default());
    assert_eq!(decision(&plan, idle).memory, Some(Reason::AllHome));
}

/// Goal: a home that is there when the settings change is given up at once; when they change back,
/// it may be there again.
#[test]
fn the_settings_change() {
    let mut world = two_nodes();
    world.nodes[1].keep_empty = false;
    let id = world.start(CPU, &[1, 1], &[0, 50_000]);
    assert_eq!(world.round(&Rules::default()).homes[&id], on(1));
    world.nodes[1].keep_empty = true;
    let plan = world.round(&Rules::default());
    assert_eq!((&plan.homes[&id], decision(&plan, id).reason), (&on(0), Reason::Displaced));
    world.nodes[1].keep_empty = false;
    let other = world.start(CPU, &[1, 1], &[0, 50_000]);
    assert_eq!(world.round(&Rules::default()).homes[&other], on(1));
}

/// Goal: what may only be there stays, and is told why: by its affinity, its cpuset, or a home that
/// was set for it. One that may be nowhere at all is told so.
#[test]
fn what_is_bound_stays() {
    let mut world = two_nodes();
    let only = |node| Affinity([(NodeId(node), 4)].into());
    world.affinities.extend([only(1), Affinity::default()]);
    let bound = world.start(CPU, &[1], &[0, 50_000]);
    world.processes[0].affinity = 1;
    let set = world.start(CPU, &[1], &[0, 50_000]);
    world.processes[1].target = Target::Within(mask("1"));
    let nowhere = world.start(CPU, &[1], &[0, 50_000]);
    world.processes[2].affinity = 2;
    let mut snapshot = world.snapshot();
    let in_cpuset = EntityId(3);
    snapshot.entities.push(Entity {
        id: in_cpuset,
        may_hold: mask("1"),
        target: Target::Anywhere,
        ..snapshot.entities[1].clone()
    });
    let plan = Homes::default().decide(&snapshot, &Rules::default());
    check(&snapshot, &plan);
    for id in [bound, set, in_cpuset] {
        assert_eq!(decision(&plan, id).reason, Reason::KeptEmpty, "{id:?}");
    }
    assert_eq!(decision(&plan, nowhere).reason, Reason::NoNodeAllowed);
    assert!(plan.moves.is_empty() && plan.nudges.is_empty() && plan.homes.is_empty());
}

/// Goal: memory leaves a node without CPUs, too, where otherwise what is seldom used stays; and
/// memory of a node that has none goes to the next that is not kept empty.
#[test]
fn nodes_without_cpus_or_memory() {
    let mut world = World::new(&[(4, 1 << 20), (0, 1 << 20)]);
    let id = world.start(CPU, &[0], &[10_000, 30_000]);
    // One node with CPUs leaves nothing to choose, unless there is something to leave.
    assert_eq!(decision(&world.round(&Rules::default()), id).reason, Reason::OneNode);
    let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20), (0, 1 << 20)]);
    world.nodes[2].keep_empty = true;
    world.start(CPU, &[0], &[10_000, 0, 30_000]);
    world.round(&Rules::default());
    assert_eq!(world.processes[0].pages, [40_000, 0, 0]);
    let mut world = World::new(&[(4, 0), (4, 1 << 20), (4, 1 << 20)]);
    world.nodes[1].keep_empty = true;
    world.affinities[0] = Affinity([(NodeId(0), 4)].into());
    world.start(CPU, &[0], &[0, 30_000, 0]);
    world.round(&Rules::default());
    assert_eq!(world.processes[0].pages, [0, 0, 30_000]);
}

/// Goal: a segment leaves with those who use it.
#[test]
fn segments_leave() {
    let mut world = two_nodes();
    let user = world.start(CPU, &[1], &[0, 10_000]);
    let mut snapshot = world.snapshot();
    snapshot.segments.push(Segment {
        users: vec![SegmentUser { entity: user, load_ppm: CPU }],
        pages: [(NodeId(1), 60_000)].into(),
        pages_at_ns: 1,
        may_hold: mask("0-1"),
        ..Segment::default()
    });
    let mut homes = Homes::default();
    let mut moved = None;
    for round in 0..10 {
        snapshot.at_ns = round * SECOND;
        let plan = homes.decide(&snapshot, &Rules::default());
        check(&snapshot, &plan);
        moved = moved.or(plan.segment_moves.first().cloned());
    }
    let moved = moved.expect("it moves");
    assert_eq!((moved.to, moved.pages_max, moved.reason), (NodeId(0), 60_000, Reason::KeptEmpty));
}

/// Keeps some nodes of a machine empty, but not the first, which has CPUs and memory.
fn keep_some_empty(world: &mut World) {
    for node in 1..world.nodes.len() {
        world.nodes[node].keep_empty = world.chance(2) == 0;
    }
}

proptest! {
    /// Goal: on any machine, whatever of the plans is carried out and while the settings change,
    /// nothing ever goes to a node that is kept empty; what has a home leaves it.
    #[test]
    fn nothing_goes_to_a_kept_empty_node(
        seed in any::<u64>(),
        percent in prop_oneof![Just(100_u64), 0..=100_u64],
        scatters in prop_oneof![Just(0_u64), 0..=100_u64],
    ) {
        let mut world = machine(seed);
        world.move_limit = MoveLimit::Some(percent);
        world.scheduler = Scheduler::Scatters(scatters);
        for round in 0..60 {
            if round % 20 == 0 {
                keep_some_empty(&mut world);
            }
            world.round(&Rules::default());
        }
        world.move_limit = MoveLimit::All;
        world.scheduler = Scheduler::Still;
        let plan = world.settle(&Rules::default(), 10, 200).map(|_| world.round(&Rules::default()));
        let plan = plan.expect("it comes to rest");
        for id in plan.homes.keys() {
            let (process, told) = (&world.processes[id.0 as usize], decision(&plan, *id));
            let kept = (0..world.nodes.len()).filter(|&node| world.nodes[node].keep_empty);
            let is_left = kept.clone().any(|node| process.pages[node] > 0);
            prop_assert!(!is_left || told.memory != Some(Reason::AllHome), "{told:?}");
            let is_busy = |task: &&Task| task.wants >= CPU / 100;
            let on = |node| process.tasks.iter().filter(is_busy).any(|task| task.node == node);
            prop_assert!(!kept.clone().any(on) || told.threads.is_some(), "{told:?}");
        }
    }
}
