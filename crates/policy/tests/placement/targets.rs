//! Entities that are to be on nodes that somebody set, and processes whose threads are in groups.

use nodeward_policy::placement::*;

use crate::world::*;

fn decision(plan: &Plan, id: EntityId) -> &Decision {
    plan.decisions.iter().find(|decision| decision.entity == id).unwrap()
}

/// Four nodes of four CPUs and 4 GiB.
fn four_nodes() -> World {
    World::new(&[(4, 1 << 20); 4])
}

fn target(world: &mut World, id: EntityId, target: Target) {
    world.processes[id.0 as usize].target = target;
}

/// Goal: an entity with a set home goes there with threads and memory, however young and idle it
/// is, and stays there while the node is busy with others; where it was would have been cheaper.
#[test]
fn a_set_home_is_kept() {
    let mut world = four_nodes();
    let id = world.start(0, &[0, 0], &[90_000, 0, 0, 0]);
    world.processes[0].run_ns = 0;
    target(&mut world, id, Target::Within(mask("2")));
    world.start(CPU, &[2; 4], &[0, 0, 50_000, 0]);
    let plan = world.round(&Rules::default());
    assert_eq!((&plan.homes[&id], decision(&plan, id).reason), (&on(2), Reason::GroupHome));
    assert_eq!(plan.moves[0].reason, Reason::GroupHome);
    assert_eq!(world.processes[0].pages, [0, 0, 90_000, 0]);
    world.processes[0].tasks.iter_mut().for_each(|task| task.wants = CPU);
    for _ in 0..100 {
        let plan = world.round(&Rules::default());
        assert_eq!(plan.homes[&id], on(2));
    }
}

/// Goal: memory without threads has a home if one is set, and none otherwise.
#[test]
fn memory_alone_goes_where_it_is_set_to() {
    let mut world = four_nodes();
    let id = world.start(0, &[], &[70_000, 0, 0, 0]);
    let plan = world.round(&Rules::default());
    assert_eq!(decision(&plan, id).reason, Reason::NoThreads);
    target(&mut world, id, Target::Within(mask("3")));
    world.round(&Rules::default());
    assert_eq!(world.processes[0].pages, [0, 0, 0, 70_000]);
}

/// Goal: another home is taken at once, without waiting for the hold of the first; several nodes
/// are those among which the rule chooses; a node that is not there leaves it without a home.
#[test]
fn a_set_home_changes_at_once() {
    let mut world = four_nodes();
    let id = world.start(CPU, &[0, 0], &[40_000, 0, 0, 0]);
    let mut home = |nodes: &str| {
        target(&mut world, id, Target::Within(mask(nodes)));
        let plan = world.round(&Rules::default());
        (plan.homes.get(&id).cloned(), decision(&plan, id).reason)
    };
    assert_eq!(home("1"), (Some(on(1)), Reason::GroupHome));
    assert_eq!(home("3"), (Some(on(3)), Reason::GroupHome));
    assert_eq!(home("2-3").0, Some(on(3)), "where its memory is");
    assert_eq!(home("9"), (None, Reason::NoNodeAllowed));
    assert_eq!(home("0-9").0, Some(on(3)));
}

/// Goal: what is larger than a node is spread over set nodes, and over others at once when these
/// are set.
#[test]
fn a_spread_home_follows_the_set_nodes() {
    let mut world = four_nodes();
    let id = world.start(CPU, &[0; 6], &[40_000, 0, 0, 0]);
    for nodes in ["0-1", "2-3", "1-2"] {
        target(&mut world, id, Target::Within(mask(nodes)));
        let plan = world.round(&Rules::default());
        assert_eq!(plan.homes[&id], Home::Spread(mask(nodes)));
    }
}

/// Goal: an explicit affinity wins over a set home, and the reason says so.
#[test]
fn an_affinity_wins_over_a_set_home() {
    let mut world = four_nodes();
    world.affinities.push(Affinity([(nodeward_model::NodeId(0), 4)].into()));
    let id = world.start(CPU, &[0], &[40_000, 0, 0, 0]);
    world.processes[0].affinity = 1;
    target(&mut world, id, Target::Within(mask("2")));
    let plan = world.round(&Rules::default());
    assert_eq!((plan.homes.get(&id), decision(&plan, id).reason), (None, Reason::NoNodeAllowed));
    assert_eq!(world.processes[0].pages[0], 40_000);
}

/// Goal: even memory is even within a huge page (512 base pages) of 99,000 / 3 each, however it lay
/// before, and then stays; threads stay on any of the nodes. No counts are wanted for it.
#[test]
fn even_memory_is_even() {
    for pages in [[99_000, 0, 0, 0], [0, 0, 0, 99_000], [20_000, 70_000, 0, 9_000]] {
        let mut world = four_nodes();
        let id = world.start(CPU, &[3, 1], &pages);
        target(&mut world, id, Target::Even(mask("0-2")));
        let plan = world.round(&Rules::default());
        assert_eq!(plan.homes[&id], Home::Spread(mask("0-2")));
        assert_eq!(decision(&plan, id).reason, Reason::GroupHome);
        assert!(!decision(&plan, id).counts_wanted);
        world.settle(&Rules::default(), 100, 300).unwrap();
        let now = &world.processes[0].pages;
        assert_eq!((now[3], now.iter().sum::<u64>()), (0, 99_000));
        assert!(now[..3].iter().all(|&pages| pages.abs_diff(33_000) <= 33_000 / 8), "{now:?}");
        assert!(world.processes[0].tasks.iter().all(|task| task.node < 3));
    }
}

/// Goal: memory is even while no node has more than its part and an eighth: of 64,000 / 2 pages
/// 4,000. One page more, and all whole huge pages of 512 among what is too much move: 7.
#[test]
fn memory_is_even_to_an_eighth() {
    for (more, moved) in [(4_000, 0), (4_001, 3_584)] {
        let mut world = World::new(&[(4, 1 << 20); 2]);
        let id = world.start(CPU, &[0, 1], &[32_000 + more, 32_000 - more]);
        target(&mut world, id, Target::Even(mask("0-1")));
        let plan = world.round(&Rules::default());
        assert_eq!(plan.moves.iter().map(|it| it.pages_max).sum::<u64>(), moved, "{more}");
    }
}

/// Goal: a process whose threads are in groups is spread over the homes that these get in the same
/// round, with no load of its own, and its pages are to be placed by those who use them, also if
/// all are on one node; while its groups have no home it is left alone.
#[test]
fn a_process_of_grouped_threads_is_where_they_are() {
    for (homes, spread) in [(["0", "2"], "0,2"), (["1", "1"], "1"), (["0", "9"], "0")] {
        let mut world = four_nodes();
        let id = world.start(0, &[], &[99_000, 0, 0, 0]);
        let groups: Vec<_> = homes.iter().map(|_| world.start(CPU, &[3], &[0; 4])).collect();
        target(&mut world, id, Target::WithGroups(groups.clone()));
        for (&group, home) in groups.iter().zip(homes) {
            target(&mut world, group, Target::Within(mask(home)));
        }
        for round in 0..3 {
            let plan = world.round(&Rules::default());
            let told = decision(&plan, id);
            assert_eq!(plan.homes[&id], Home::Spread(mask(spread)));
            assert_eq!((told.reason, told.counts_wanted), (Reason::WithGroups, true));
            let verdict = if round == 0 { Verdict::Settles } else { Verdict::Stays };
            assert_eq!(told.verdict, verdict);
            let loads = plan.nodes.values().map(|node| node.home_load_ppm).sum::<u64>();
            assert_eq!(loads, homes.iter().filter(|home| **home != "9").count() as u64 * CPU);
        }
        groups.iter().for_each(|&group| target(&mut world, group, Target::Within(mask("9"))));
        let plan = world.round(&Rules::default());
        assert_eq!(decision(&plan, id).reason, Reason::Grouped);
        assert!(!plan.homes.contains_key(&id));
    }
}

/// Goal: an entity all of whose threads are in groups is left alone, and the reason says why.
#[test]
fn what_is_in_groups_as_a_whole_is_left_alone() {
    let mut world = four_nodes();
    let id = world.start(0, &[], &[9_000, 0, 0, 0]);
    world.processes[0].exclusion = Some(Exclusion::Grouped);
    let plan = world.round(&Rules::default());
    assert_eq!(decision(&plan, id).reason, Reason::Grouped);
    assert!(!plan.homes.contains_key(&id));
}
