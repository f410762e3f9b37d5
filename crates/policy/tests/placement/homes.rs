//! Which entities get a home, which home, and when it changes.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

use crate::world::*;
use nodeward_policy::placement::*;

fn decision(plan: &Plan, id: EntityId) -> &Decision {
    plan.decisions.iter().find(|decision| decision.entity == id).unwrap()
}

fn first(mut world: World) -> Plan {
    world.round(&Rules::default())
}

/// Goal: an entity that is left alone has the reason for it.
#[test]
fn what_is_left_alone_is_told() {
    let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20)]);
    let young = world.start(CPU, &[0], &[1000, 0]);
    world.processes[0].run_ns = SECOND - 1;
    let old = world.start(CPU, &[0], &[1000, 0]);
    world.processes[1].run_ns = SECOND;
    let exclusions =
        [Exclusion::ExplicitPolicy, Exclusion::Frozen, Exclusion::Denied, Exclusion::Excluded];
    let excluded = exclusions.map(|exclusion| {
        let id = world.start(CPU, &[1], &[1000, 0]);
        world.processes[id.0 as usize].exclusion = Some(exclusion);
        id
    });
    let empty = world.start(CPU, &[], &[1000, 0]);
    let launcher = world.start(CPU, &[1], &[1000, 0]);
    let process = &mut world.processes[launcher.0 as usize];
    process.children_ns = process.run_ns + 1;
    let plan = world.round(&Rules::default());
    assert_eq!(decision(&plan, young).reason, Reason::TooYoung);
    assert_eq!(decision(&plan, old).verdict, Verdict::Settles);
    assert_eq!(decision(&plan, empty).reason, Reason::NoThreads);
    assert_eq!(decision(&plan, launcher).reason, Reason::Launcher);
    let reasons = excluded.map(|id| decision(&plan, id).reason);
    use Reason::{Denied, Excluded, ExplicitPolicy, Frozen};
    assert_eq!(reasons, [ExplicitPolicy, Frozen, Denied, Excluded]);
    assert!(plan.nudges.is_empty() && plan.moves.is_empty());
}

/// Goal: on one node, or with memory only beside it, there is nothing to choose.
#[test]
fn one_node_with_cpus_is_no_choice() {
    for nodes in [&[(4, 1 << 20)][..], &[(4, 1 << 20), (0, 1 << 22)]] {
        let mut world = World::new(nodes);
        let pages = vec![1000; nodes.len()];
        let id = world.start(CPU, &[0], &pages);
        assert_eq!(decision(&first(world), id).reason, Reason::OneNode);
    }
}

/// Goal: affinity and cpuset are respected: the node that they allow is the home; if they have no
/// node in common, or leave too few CPUs on each, there is no home.
#[test]
fn affinities_are_respected() {
    let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20), (4, 1 << 20)]);
    world.affinities.extend([
        Affinity(BTreeMap::from([(NodeId(2), 4)])),
        Affinity(BTreeMap::from([(NodeId(0), 1), (NodeId(1), 1)])),
    ]);
    let only = world.start(CPU / 10, &[2], &[50_000, 0, 0]);
    let crowd = world.start(CPU, &[0, 1], &[50_000, 0, 0]);
    let torn = world.start(CPU, &[1], &[0, 50_000, 0]);
    world.processes[0].affinity = 1;
    world.processes[1].affinity = 2;
    let mut snapshot = world.snapshot();
    snapshot.entities[2].may_hold = [NodeId(7)].into_iter().collect();
    let plan = Homes::default().decide(&snapshot, &Rules::default());
    check(&snapshot, &plan);
    assert_eq!((&plan.homes[&only], decision(&plan, only).reason), (&on(2), Reason::OnlyThere));
    assert_eq!(decision(&plan, crowd).reason, Reason::NarrowAffinity, "2 threads, 1 CPU on each");
    assert_eq!(decision(&plan, torn).reason, Reason::NoNodeAllowed);
    assert_eq!(plan.moves.len(), 1, "the memory of the first comes to its threads");
}

/// Goal: a load that goes up and down takes no home away; an entity with more busy threads than its
/// affinity has CPUs still has its memory there if no other node is allowed.
#[test]
fn a_home_outlasts_more_load_than_an_affinity_has_cpus_for() {
    let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20)]);
    world.affinities.push(Affinity(BTreeMap::from([(NodeId(0), 1), (NodeId(1), 1)])));
    world.affinities.push(Affinity(BTreeMap::from([(NodeId(1), 1)])));
    let ids = [1, 2].map(|affinity| {
        let id = world.start(CPU / 4, &[1, 1], &[10_000, 0]);
        world.processes[id.0 as usize].affinity = affinity;
        id
    });
    let homes = [on(0), on(1)];
    for round in 0..20 {
        let plan = world.round(&Rules::default());
        assert_eq!(ids.map(|id| plan.homes[&id].clone()), homes, "round {round}");
        for task in world.processes.iter_mut().flat_map(|process| &mut process.tasks) {
            task.wants = if round % 2 == 0 { CPU } else { CPU / 4 };
        }
    }
}

/// Goal: entities of which each needs one CPU of a node do not all get the same CPU.
#[test]
fn a_narrow_affinity_is_shared_out() {
    let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20)]);
    world.affinities.push(Affinity(BTreeMap::from([(NodeId(0), 1), (NodeId(1), 1)])));
    for _ in 0..2 {
        let id = world.start(CPU, &[1], &[10_000, 0]);
        world.processes[id.0 as usize].affinity = 1;
    }
    let plan = world.round(&Rules::default());
    assert_eq!(plan.homes.values().collect::<Vec<_>>(), [&on(0), &on(1)]);
}

/// Goal: the home is the node of the memory; only if that node is full it is the idlest. Of 8 equal
/// loads of one CPU on 2 nodes of 4 CPUs, each node admits 4.
#[test]
fn homes_are_where_memory_is_until_the_node_is_full() {
    let mut world = World::new(&[(4, 1 << 22), (4, 1 << 22)]);
    let ids: Vec<_> = (1..=8).map(|size| world.start(CPU, &[0], &[size * 10_000, 0])).collect();
    let plan = world.round(&Rules::default());
    let at_0: Vec<_> = ids.iter().filter(|id| plan.homes[id] == on(0)).map(|id| id.0 + 1).collect();
    assert_eq!(at_0, [5, 6, 7, 8], "those whose move would cost most");
    assert_eq!(decision(&plan, ids[7]).reason, Reason::MemoryThere);
    assert_eq!(decision(&plan, ids[0]).reason, Reason::Idlest);
    assert_eq!(world.moved, 100_000, "1 to 4 times 10,000");
}

/// Goal: of two homes of equal cost the one where it runs is taken, because residency samples are
/// no more exact than the hysteresis of a tenth; if one costs more, the other is taken.
#[test]
fn homes_that_cost_the_same_are_where_it_runs() {
    let home_of = |pages: [u64; 2]| {
        let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20)]);
        let id = world.start(CPU, &[1], &pages);
        world.round(&Rules::default()).homes[&id].clone()
    };
    assert_eq!(home_of([54_000, 50_000]), on(1)); // 54,000 pages to move, or 50,000
    assert_eq!(home_of([56_000, 50_000]), on(0)); // 55,000 is a tenth more
}

/// Goal: the home of an entity without memory is the node where it runs.
#[test]
fn without_memory_it_is_at_home_where_it_runs() {
    let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20)]);
    let id = world.start(CPU, &[1], &[0, 0]);
    let plan = world.round(&Rules::default());
    assert_eq!((&plan.homes[&id], decision(&plan, id).reason), (&on(1), Reason::RunsThere));
    assert_eq!(decision(&plan, id).memory, None);
}

/// Goal: homes leave the busiest node when it has been busy for 5 s, light ones before heavy ones,
/// and as many as necessary.
#[test]
fn the_busiest_node_gives_homes_away_light_ones_first() {
    let mut world = World::new(&[(4, 1 << 22), (4, 1 << 22)]);
    let ids: Vec<_> = (1..=6).map(|size| world.start(1000, &[0], &[size * 50_000, 0])).collect();
    world.round(&Rules::default());
    assert!(world.homes.home(ids[0]) == Some(&on(0)), "they do next to nothing");
    for process in &mut world.processes {
        process.tasks[0].wants = CPU;
    }
    let mut rounds = 0;
    while world.homes.home(ids[0]) == Some(&on(0)) {
        world.round(&Rules::default());
        rounds += 1;
        assert!(rounds < 30);
    }
    assert!(rounds >= 6, "{rounds}: patience of 5 s, and the home is kept for 10 s");
    let homes: Vec<_> = ids.iter().map(|&id| world.homes.home(id) == Some(&on(0))).collect();
    // 6 CPUs on node 0, a share of 3: three go.
    assert_eq!(homes, [false, false, false, true, true, true]);
    assert_eq!(world.settle(&Rules::default(), 100, 200), Some(0));
}

/// Goal: a few busy threads on one node are no reason to move memory while that node has idle CPUs.
#[test]
fn a_quiet_machine_is_left_as_it_is() {
    let mut world = World::new(&[(12, 1 << 20), (12, 1 << 20)]);
    for _ in 0..3 {
        world.start(CPU, &[0], &[10_000, 0]);
    }
    let plan = world.round(&Rules::default());
    assert!(plan.homes.values().all(|home| *home == on(0)), "3 of 12 CPUs are a quarter");
    assert!(plan.moves.is_empty() && plan.nudges.is_empty());
}

/// Goal: an entity with more busy threads than a node has CPUs gets as few nodes as suffice, those
/// of its memory. Threads go there; only access counts tell which page belongs to which node.
#[test]
fn what_is_larger_than_a_node_is_spread_over_the_fewest() {
    let mut world = World::new(&[(4, 1 << 20); 4]);
    let id = world.start(CPU, &[0, 1, 2, 3, 0, 1, 2, 3], &[0, 40_000, 0, 80_000]);
    let plan = world.round(&Rules::default());
    assert_eq!(plan.homes[&id], Home::Spread(mask("1,3")), "8 threads, 4 CPUs each");
    assert_eq!(decision(&plan, id).reason, Reason::LargerThanNode);
    assert!(decision(&plan, id).counts_wanted);
    assert_eq!(decision(&plan, id).memory, Some(Reason::ByPage));
    assert!(plan.moves.is_empty());
    assert_eq!(plan.nudges.len(), 4);
    assert!((0..4).all(|node| world.threads_on(node) == [0, 4, 0, 4][node]));
    assert_eq!(world.settle(&Rules::default(), 100, 100), Some(0));
}

/// Goal: each thread of a spread entity belongs near its part of the memory, if that is known; it
/// is brought back from the other nodes of its home too.
#[test]
fn threads_of_what_is_spread_belong_near_their_part() {
    let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20)]);
    let id = world.start(CPU, &[0, 1, 0, 1, 0, 1, 0, 1], &[40_000, 40_000]);
    let plan = world.round(&Rules::default());
    assert_eq!(plan.homes[&id], Home::Spread(mask("0-1")));
    assert_eq!(plan.nudges, [], "any of the two nodes will do");
    let mut snapshot = world.snapshot();
    let threads = &mut snapshot.entities[0].threads;
    threads.iter_mut().for_each(|thread| thread.near = Some(thread.node));
    // The first two changed places; the third belongs to a node that is none of its home's.
    (threads[0].near, threads[1].near) = (threads[1].near, threads[0].near);
    threads[2].near = Some(NodeId(7));
    let plan = world.homes.clone().decide(&snapshot, &Rules::default());
    let nudges: Vec<_> = plan.nudges.iter().map(|nudge| nudge.to.clone()).collect();
    assert_eq!(nudges, [mask("1"), mask("0")]);
}

/// Goal: an entity that would be larger than a node if it was alone gets a single node if others
/// want as much: eight threads on four CPUs each, of two nodes, have half a CPU each, which makes
/// four.
#[test]
fn what_has_its_share_is_not_larger_than_a_node() {
    let mut world = World::new(&[(4, 100_000), (4, 100_000)]);
    let mixed = [0, 1, 0, 1, 0, 1, 0, 1];
    let ids = [[20_000, 0], [0, 20_000]].map(|pages| world.start(CPU, &mixed, &pages));
    let plan = world.round(&Rules::default());
    assert_eq!(ids.map(|id| plan.homes[&id].clone()), [on(0), on(1)]);
}

/// Goal: an entity with more memory than a node is spread too, and its other memory comes to these
/// nodes.
#[test]
fn memory_larger_than_a_node_is_spread() {
    let mut world = World::new(&[(4, 100_000), (4, 100_000), (4, 100_000)]);
    let id = world.start(CPU, &[0, 0], &[70_000, 20_000, 40_000]);
    let plan = world.round(&Rules::default());
    assert_eq!(plan.homes[&id], Home::Spread(mask("0,2")), "130,000 pages, 96,000 a node");
    assert_eq!(plan.moves.len(), 1, "from node 1");
    assert_eq!(world.processes[0].pages[1], 0);
    assert_eq!(world.settle(&Rules::default(), 100, 100), Some(0));
}

/// Goal: three entities of 8 threads on two nodes of 12 CPUs: two have a node each, and the third
/// is spread, because no node has time for all of it.
#[test]
fn what_fits_no_node_is_spread() {
    let mut world = World::new(&[(12, 1 << 22), (12, 1 << 22)]);
    let tasks = [0; 8];
    let ids = [400_000, 300_000, 100_000].map(|pages| world.start(CPU, &tasks, &[pages, 0]));
    let plan = world.round(&Rules::default());
    let homes = ids.map(|id| plan.homes[&id].clone());
    assert_eq!(homes, [on(0), on(1), Home::Spread(mask("0-1"))]);
    assert_eq!(decision(&plan, ids[2]).reason, Reason::FitsNoNode);
}

/// Goal: an entity with one busy thread is not spread, however many light threads it has; a spread
/// one comes home when only one thread is busy.
#[test]
fn one_busy_thread_is_not_spread() {
    let mut world = World::new(&[(1, 1 << 20), (1, 1 << 20)]);
    let ids = [3000, 2000, 1000].map(|pages| world.start(CPU, &[0, 0], &[pages, 0]));
    (0..3).for_each(|at| world.processes[at].tasks[1].wants = CPU / 20);
    let plan = world.round(&Rules::default());
    // Each wants 1.05 of 2 CPUs that three share, so 0.67 as two are to have a node: none has
    // time for the third, and 0.67 + 0.67 is beyond the hysteresis.
    assert!(matches!(plan.homes[&ids[2]], Home::Node(_)), "{:?}", plan.homes);
    let mut world = World::new(&[(12, 1 << 22), (12, 1 << 22)]);
    let ids = [400_000, 300_000, 100_000].map(|pages| world.start(CPU, &[0; 8], &[pages, 0]));
    let spread = Home::Spread(mask("0-1"));
    assert_eq!(world.round(&Rules::default()).homes[&ids[2]], spread);
    world.processes[2].tasks[1..].iter_mut().for_each(|task| task.wants = 0);
    world.settle(&Rules::default(), 100, 100);
    let plan = world.round(&Rules::default());
    assert!(matches!(plan.homes[&ids[2]], Home::Node(_)), "{:?}", plan.homes);
}

/// Goal: a spread entity with one busy thread left goes to the node of its memory at once, because
/// only the thread moves. One that has one thread and two in turns, for 2 s each, does so less and
/// less often: at most log2(3600 / 10 + 1) = 8.5 times in an hour, and back as often.
#[test]
fn what_shrinks_gathers_at_its_memory_without_a_wait() {
    let mut world = World::new(&[(1, 1 << 20), (1, 1 << 20)]);
    let id = world.start(CPU, &[0, 1], &[0, 50_000]);
    assert_eq!(world.round(&Rules::default()).homes[&id], Home::Spread(mask("0-1")));
    world.processes[0].tasks[1].wants = 0;
    let plan = world.round(&Rules::default());
    assert_eq!(plan.homes[&id], on(1));
    assert_eq!(decision(&plan, id).reason, Reason::MemoryThere);
    assert_eq!((world.threads_on(1), world.moved), (2, 0));
    let (mut home, mut changes) = (on(1), 0);
    for second in 0..3600 {
        world.processes[0].tasks[1].wants = [0, CPU][second / 2 % 2];
        let plan = world.round(&Rules::default());
        changes += u32::from(plan.homes[&id] != home);
        home = plan.homes[&id].clone();
    }
    assert!((1..=16).contains(&changes), "{changes}");
    assert_eq!(world.moved, 0);
}

/// Goal: a home that goes offline is replaced at once; a clock that goes back does no harm.
#[test]
fn a_node_that_goes_offline_loses_its_homes() {
    let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20), (4, 1 << 20)]);
    let id = world.start(CPU, &[2], &[10, 10, 20_000]);
    world.at_ns = 1 << 60;
    assert_eq!(world.round(&Rules::default()).homes[&id], on(2));
    world.at_ns = 0;
    let mut snapshot = world.snapshot();
    snapshot.nodes.remove(&NodeId(2));
    let plan = world.homes.decide(&snapshot, &Rules::default());
    check(&snapshot, &plan);
    assert_eq!(plan.homes[&id], on(0));
    assert_eq!(decision(&plan, id).reason, Reason::Displaced);
    assert_eq!(plan.nudges.len(), 1, "its thread ran on a node that is gone");
}

/// Goal: memory on a node without CPUs stays there; the memory of threads on a node without memory
/// belongs on the nearest node that has some.
#[test]
fn nodes_without_cpus_or_memory_are_no_riddle() {
    let mut world = World::new(&[(4, 1 << 20), (4, 0), (0, 1 << 22), (4, 1 << 20)]);
    let id = world.start(CPU, &[1], &[0, 0, 50_000, 0]);
    let plan = world.round(&Rules::default());
    assert_eq!(plan.homes[&id], on(1));
    assert_eq!(decision(&plan, id).memory, Some(Reason::AllHome), "nobody's to move");
    let mut world = World::new(&[(4, 1 << 20), (4, 0), (4, 1 << 20)]);
    world.affinities.push(Affinity(BTreeMap::from([(NodeId(1), 4)])));
    let id = world.start(CPU, &[1], &[0, 0, 50_000]);
    world.processes[0].affinity = 1;
    world.far = 20;
    let plan = world.round(&Rules::default());
    assert_eq!((&plan.homes[&id], plan.moves.len()), (&on(1), 0), "node 0 is no nearer than 2");
    assert_eq!(decision(&plan, id).memory, Some(Reason::DoesNotPay));
}

/// Goal: when a node has long been too small for the memory at home there, some homes go where
/// there is room for all of theirs.
#[test]
fn homes_leave_a_node_that_is_too_small_for_their_memory() {
    let mut world = World::new(&[(4, 100_000), (4, 100_000)]);
    let ids = [0, 1].map(|_| world.start(CPU / 2, &[0], &[40_000, 0]));
    world.round(&Rules::default());
    assert!(ids.iter().all(|id| world.homes.home(*id) == Some(&on(0))));
    // They grow by 25,000 pages each, which node 0 has no room for: 130,000 of 96,000.
    for process in &mut world.processes {
        process.pages = vec![46_000, 19_000];
        process.measured_ns += 1;
    }
    assert!(world.settle(&Rules::default(), 40, 200).is_some());
    let mut homes: Vec<_> = ids.iter().map(|id| world.homes.home(*id).unwrap().clone()).collect();
    homes.sort_by_key(|home| *home == on(1));
    assert_eq!(homes, [on(0), on(1)]);
    assert_eq!(world.local_percent(), 100);
}

/// Goal: if a memory controller delivers its maximum, the memory of the entity behind that is
/// interleaved; its threads stay. Not if the other controllers are busy too.
#[test]
fn a_saturated_controller_gets_help() {
    /// Of 80,000 pages, in huge pages: 78 of 512.
    const HALF: u64 = 39_936;
    for (other, expected) in [(100_000, true), (500_000, false)] {
        let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20)]);
        let id = world.start(CPU, &[0, 0, 0, 0], &[80_000, 0]);
        let mut homes = Homes::default();
        let mut interleaved = false;
        for second in 0..30 {
            world.at_ns = second * SECOND;
            let mut snapshot = world.snapshot();
            snapshot.nodes.get_mut(&NodeId(0)).unwrap().traffic_ppm = Some(950_000);
            snapshot.nodes.get_mut(&NodeId(1)).unwrap().traffic_ppm = Some(other);
            let plan = homes.decide(&snapshot, &Rules::default());
            check(&snapshot, &plan);
            if let Home::Interleave { threads, memory } = &plan.homes[&id] {
                assert_eq!((*threads, memory), (NodeId(0), &mask("0-1")));
                interleaved = true;
            }
            if let [one] = &plan.moves[..] {
                assert_eq!((one.pages_max, one.reason), (HALF, Reason::Bottleneck));
                world.processes[0].pages = vec![80_000 - HALF, HALF];
                world.processes[0].measured_ns += 1;
            }
        }
        assert_eq!(interleaved, expected);
        assert_eq!(world.processes[0].pages[1], if expected { HALF } else { 0 });
    }
}

/// Goal: an interleaved home ends when all its controllers together have long delivered less than
/// half of what saturates one; its memory comes home. Not if the traffic is unknown, if there is no
/// room, or for a process that hardly runs.
#[test]
fn interleaved_memory_comes_back_when_the_traffic_is_gone() {
    let cases = [
        ([Some(225_000), Some(224_999)], CPU, 1 << 20, true), // 449,999 of 900,000 / 2
        ([Some(225_000), Some(225_000)], CPU, 1 << 20, false),
        ([Some(100_000), None], CPU, 1 << 20, false),
        ([Some(0), Some(0)], CPU, 20_000, false),
        // 40,000 pages cost 80.1 ms; 0.3 * 4 * 0.5 * 0.6 of 10 s saves 3.6 s, of a 100th 36 ms.
        ([Some(0), Some(0)], CPU / 100, 1 << 20, false),
    ];
    for (traffic, wants, room, expected) in cases {
        let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20)]);
        let id = world.start(CPU, &[0, 0, 0, 0], &[80_000, 0]);
        let mut homes = Homes::default();
        let mut round = |world: &mut World, second: u64, traffic: [Option<u32>; 2], room: u64| {
            world.at_ns = second * SECOND;
            let mut snapshot = world.snapshot();
            for (node, ppm) in (0..).map(NodeId).zip(traffic) {
                snapshot.nodes.get_mut(&node).unwrap().traffic_ppm = ppm;
            }
            snapshot.nodes.get_mut(&NodeId(0)).unwrap().room_pages = room;
            homes.decide(&snapshot, &Rules { horizon_ns_max: 0, ..Rules::default() })
        };
        let interleaved = (0..20).map(|second| {
            round(&mut world, second, [Some(950_000), Some(0)], 1 << 20).homes[&id].clone()
        });
        let interleaved = interleaved.last().unwrap();
        assert_eq!(interleaved, Home::Interleave { threads: NodeId(0), memory: mask("0-1") });
        world.processes[0].pages = vec![40_000, 40_000];
        world.processes[0].measured_ns += 1;
        world.processes[0].tasks.iter_mut().for_each(|task| task.wants = wants);
        // Until the mean of the last loads is that of now.
        (20..100).for_each(|second| drop(round(&mut world, second, [None; 2], room)));
        let plans: Vec<_> =
            (100..130).map(|second| round(&mut world, second, traffic, room)).collect();
        let last = plans.last().unwrap();
        assert_eq!(
            last.homes[&id],
            if expected { on(0) } else { interleaved.clone() },
            "{traffic:?}"
        );
        let moved: u64 = plans.iter().flat_map(|plan| &plan.moves).map(|one| one.pages_max).sum();
        assert_eq!(moved, if expected { 40_000 } else { 0 });
        if expected {
            assert_eq!(plans[4].homes[&id], interleaved, "for 4 s only");
            assert_eq!(decision(last, id).reason, Reason::Eased);
        }
    }
}

/// Goal: on the largest machine every entity gets a home and no node is crowded, and once the plan
/// is carried out nothing is left to do.
#[test]
fn the_largest_machine_comes_to_rest() {
    let size = case::Size::LARGE;
    let mut snapshot = case::misplaced(size);
    assert_eq!(snapshot.entities.iter().map(|entity| entity.threads.len()).sum::<usize>(), 10_000);
    assert_eq!(snapshot.nodes.values().map(|node| node.cpus).sum::<u32>(), 1024);
    let mut homes = Homes::default();
    let plan = homes.decide(&snapshot, &Rules::default());
    check(&snapshot, &plan);
    assert_eq!(plan.decisions.len(), 1250, "8 threads each");
    assert_eq!(plan.homes.len(), 1250);
    for node in plan.nodes.values() {
        assert!(node.home_load_ppm <= node.limit_ppm);
    }
    for nudge in &plan.nudges {
        let entity = &mut snapshot.entities[nudge.entity.0 as usize];
        let thread = entity.threads.iter_mut().find(|thread| thread.tid == nudge.tid).unwrap();
        thread.node = nudge.to.first().unwrap();
    }
    for one in &plan.moves {
        let entity = &mut snapshot.entities[one.entity.0 as usize];
        *entity.pages.get_mut(&one.from.first().unwrap()).unwrap() -= one.pages_max;
        *entity.pages.entry(one.to).or_default() += one.pages_max;
        entity.pages_at_ns += 1;
    }
    snapshot.at_ns += SECOND;
    let plan = homes.decide(&snapshot, &Rules::default());
    check(&snapshot, &plan);
    assert!(plan.moves.is_empty() && plan.nudges.is_empty() && plan.settled);
}
