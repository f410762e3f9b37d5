//! Properties of every machine: moving ends, and the rules that `world::check` checks in each round
//! hold.

use std::collections::BTreeMap;

use nodeward_model::NodeId;
use nodeward_policy::placement::*;
use proptest::prelude::*;

use crate::quarter_or_all;
use crate::world::*;

/// Returns a random machine with a constant load.
pub fn machine(seed: u64) -> World {
    let mut dice = World::new(&[]);
    dice.seed(seed);
    let count = 2 + dice.chance(4);
    let node = |dice: &mut World, index: u64| {
        let cpus = if index > 1 && dice.chance(5) == 0 { 0 } else { 1 + dice.chance(12) as u32 };
        let pages =
            if index > 1 && dice.chance(5) == 0 { 0 } else { 50_000 + dice.chance(500_000) };
        (cpus, pages)
    };
    let nodes: Vec<(u32, u64)> = (0..count).map(|index| node(&mut dice, index)).collect();
    let mut world = World::new(&nodes);
    world.seed(dice.chance(u64::MAX));
    world.far = 12 + world.chance(30) as u32;
    for _ in 0..world.chance(4) {
        let affinity = affinity(&mut world, &nodes);
        world.affinities.push(affinity);
    }
    for _ in 0..1 + world.chance(40) {
        start(&mut world, &nodes);
    }
    let mut dice = World::new(&[]);
    dice.seed(seed ^ 0x67_72_6f_75_70);
    draw_targets(&mut dice, &mut world);
    world
}

/// Gives some entities a target: one in eight is to be within some nodes, or even on them, and one
/// in sixteen has its threads in groups, which others stand for. They are drawn apart from all
/// else.
fn draw_targets(dice: &mut World, world: &mut World) {
    let count = world.processes.len() as u64;
    for at in 0..world.processes.len() {
        let nodes = (0..world.nodes.len() as u32).filter(|_| dice.chance(2) == 0).map(NodeId);
        let nodes = nodes.collect();
        world.processes[at].target = match dice.chance(16) {
            0 => Target::Within(nodes),
            1 => Target::Even(nodes),
            2 => {
                Target::WithGroups(vec![EntityId(dice.chance(count)), EntityId(dice.chance(count))])
            }
            _ => continue,
        };
        if matches!(world.processes[at].target, Target::WithGroups(_)) {
            world.processes[at].tasks.clear();
        }
    }
}

fn affinity(world: &mut World, nodes: &[(u32, u64)]) -> Affinity {
    let mut affinity = BTreeMap::new();
    for (id, &(cpus, _)) in nodes.iter().enumerate() {
        let some = world.chance(u64::from(cpus) + 1) as u32;
        if some > 0 {
            affinity.insert(NodeId(id as u32), some);
        }
    }
    let first = NodeId(0);
    if affinity.is_empty() {
        affinity.insert(first, 1);
    }
    Affinity(affinity)
}

fn start(world: &mut World, nodes: &[(u32, u64)]) {
    let affinity = world.chance(world.affinities.len() as u64) as usize;
    let within: Vec<usize> = world.affinities[affinity].0.keys().map(|id| id.0 as usize).collect();
    let threads = if world.chance(3) == 0 { 1 + world.chance(16) } else { 1 };
    let wants = [CPU, CPU, CPU / 2, CPU / 10, CPU / 200][world.chance(5) as usize];
    let tasks: Vec<usize> =
        (0..threads).map(|_| within[world.chance(within.len() as u64) as usize]).collect();
    let size = 1 + world.chance(60_000);
    let pages: Vec<u64> = (0..nodes.len())
        .map(|node| {
            let pages = world.chance(3) * world.chance(size) / 2;
            pages.min(world.room(node))
        })
        .collect();
    let id = world.start(wants, &tasks, &pages);
    world.processes[id.0 as usize].affinity = affinity;
}

/// Goal: on 1,000 machines with a constant load no page moves after convergence.
#[test]
fn a_thousand_machines_come_to_rest() {
    let mut latest = 0;
    for seed in 0..quarter_or_all(1000).into() {
        let mut world = machine(seed);
        let last = world.settle(&Rules::default(), 60, 200);
        let last = last.unwrap_or_else(|| panic!("machine {seed} moves memory for ever"));
        latest = latest.max(last);
    }
    assert!(latest <= 100, "the last move was in round {latest}");
}

/// Goal: thread moves end as well if the scheduler leaves threads where they are.
#[test]
fn threads_come_to_rest() {
    for seed in 0..100 {
        let mut world = machine(seed);
        for _ in 0..150 {
            world.round(&Rules::default());
        }
        let plan = world.round(&Rules::default());
        assert!(plan.nudges.is_empty(), "machine {seed}: {:?}", plan.nudges);
        assert!(plan.settled, "machine {seed}: {:?}", plan.decisions);
    }
}

/// Returns how often memory moved under a load that changes sides every so many seconds: first the
/// even processes are busy, then the odd ones.
fn moves_with_sides(seconds: u64, rounds: u64) -> u64 {
    let mut world = World::new(&[(8, 1 << 22), (8, 1 << 22)]);
    for number in 0..24 {
        world.start(CPU, &[number % 2], &[30_000, 0]);
    }
    let mut moves = 0;
    for round in 0..rounds {
        for (number, process) in world.processes.iter_mut().enumerate() {
            let busy = number as u64 % 2 == round / seconds % 2;
            process.tasks[0].wants = if busy { CPU } else { CPU / 1000 };
        }
        moves += world.round(&Rules::default()).moves.len() as u64;
    }
    moves
}

/// Goal: a load that changes sides moves a home again only after 10 s, 20 s, 40 s and so on, so at
/// most log2(3600 / 10 + 1) = 8.5 times in an hour, and once at first. Sides of 2 s are too short
/// for any move.
#[test]
fn changing_sides_cannot_play_ping_pong() {
    assert!(moves_with_sides(2, 3600) <= 24, "{}", moves_with_sides(2, 3600));
    for seconds in [7, 12, 31, 60, 200] {
        let moves = moves_with_sides(seconds, 3600);
        assert!(moves <= 24 * 10, "{moves} with sides of {seconds} s");
    }
}

/// Goal: two processes that wait for the same memory have more load together than apart, so a home
/// that leaves such a pair makes another pair. As no node becomes less busy, the next one waits 40
/// s, then 80 s and so on, also beside a node that is always a little too busy: in ten minutes
/// log2(600 / 40 + 1) = 4 times, and once at first.
#[test]
fn what_is_busier_together_does_not_go_from_pair_to_pair() {
    let mut world = World::new(&[(4, 1 << 22), (4, 1 << 22), (4, 1 << 22)]);
    world.start(CPU / 2, &[0; 6], &[90_000, 0, 0]);
    let node = [1, 1, 2];
    let three = node.map(|node| world.start(CPU * 2 / 5, &[node; 3], &[0, 30_000, 30_000]));
    let mut moves = 0;
    for _ in 0..600 {
        let homes = three.map(|id| world.homes.home(id).cloned());
        for (at, id) in three.into_iter().enumerate() {
            let beside = homes.iter().filter(|home| **home == homes[at]).count() > 1;
            let wants = if beside { CPU * 3 / 5 } else { CPU * 2 / 5 };
            world.processes[id.0 as usize].tasks.iter_mut().for_each(|task| task.wants = wants);
        }
        let plan = world.round(&Rules::default());
        let moved = plan.decisions.iter().filter(|decision| decision.verdict == Verdict::Moves);
        moves += moved.count();
    }
    assert!((1..=5).contains(&moves), "{moves}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(quarter_or_all(24)))]

    /// Goal: memory moves end under a constant load even if plans are carried out in part or not at
    /// all. At worst a move takes a sixteenth of what is away: 60,000 pages are fewer than 8 after
    /// 16 * ln(7500) = 143 s, and five moves in vain wait 64 s each at most. A home or two may
    /// change before that. What is evened over nodes for a group goes to them in turn, and waits
    /// each time that little of it moves: seed 18249045054799261317 with 5 % takes over 1,200 s.
    #[test]
    fn moves_that_are_half_done_end(seed in any::<u64>(), percent in 0..=100_u64) {
        let mut world = machine(seed);
        world.move_limit = MoveLimit::Some(percent);
        for _ in 0..4800 {
            world.round(&Rules::default());
        }
        let mut moves = 0;
        for _ in 0..100 {
            moves += world.round(&Rules::default()).moves.len();
        }
        prop_assert_eq!(moves, 0, "after 4800 s");
    }

    /// Goal: however a scheduler scatters threads, and whatever part of a plan is carried out,
    /// homes change seldom: in 300 s at most log2(300 / 10 + 1) = 5 times. No page moves twice to
    /// the same home, and after five moves in vain there are no more.
    #[test]
    fn scattered_threads_cannot_play_ping_pong(
        seed in any::<u64>(), percent in 0..=100_u64, scatters in 0..60_u64, waits in any::<bool>(),
    ) {
        let mut world = machine(seed);
        world.move_limit = MoveLimit::Some(percent);
        world.scheduler = Scheduler::Scatters(scatters);
        world.tells_waits = waits;
        let mut homes = vec![0; world.processes.len()];
        let mut moves = vec![0; world.processes.len()];
        for _ in 0..300 {
            let plan = world.round(&Rules::default());
            for decision in &plan.decisions {
                let settles = matches!(decision.verdict, Verdict::Settles | Verdict::Moves);
                homes[decision.entity.0 as usize] += u64::from(settles);
                moves[decision.entity.0 as usize] += u64::from(decision.numbers.pages_planned > 0);
            }
        }
        for (number, process) in world.processes.iter().enumerate() {
            let pages: u64 = process.pages.iter().sum();
            prop_assert!(homes[number] <= 6, "{} homes", homes[number]);
            prop_assert!(process.moved <= pages * homes[number]);
            if percent == 0 {
                prop_assert!(moves[number] <= 5 * homes[number]);
            }
        }
    }

    /// Goal: the same snapshot and state give the same plan, whatever the order of entities.
    #[test]
    fn decisions_are_the_same_each_time(seed in any::<u64>(), rounds in 1..10_u64) {
        let mut world = machine(seed);
        world.scheduler = Scheduler::Scatters(20);
        for _ in 0..rounds {
            let mut snapshot = world.snapshot();
            let plan = world.homes.clone().decide(&snapshot, &Rules::default());
            snapshot.entities.reverse();
            let mut again = world.homes.clone();
            prop_assert_eq!(&again.decide(&snapshot, &Rules::default()), &plan);
            world.round(&Rules::default());
        }
    }

    /// Goal: a fast round brings home the same threads as a decision at the same moment, with the
    /// same homes, and decides nothing else.
    #[test]
    fn fast_rounds_bring_the_same_threads_home(seed in any::<u64>(), rounds in 1..20_u64) {
        let mut world = machine(seed);
        world.scheduler = Scheduler::Scatters(20);
        for _ in 0..rounds {
            world.round(&Rules::default());
        }
        let snapshot = Snapshot { at_ns: world.at_ns - SECOND, ..world.snapshot() };
        let fast = world.homes.thread_moves(&snapshot, &Rules::default());
        prop_assert!(fast.homes.iter().all(|(&id, home)| world.homes.home(id) == Some(home)));
        prop_assert!(fast.moves.is_empty() && fast.decisions.is_empty());
        let whole = world.homes.clone().decide(&snapshot, &Rules::default());
        if whole.homes == fast.homes {
            prop_assert_eq!(fast.nudges, whole.nudges);
        }
    }

    /// Goal: invalid input does no harm: no node, any number of pages, unknown nodes.
    #[test]
    fn nonsense_is_survived(
        pages in any::<u64>(), room_pages in any::<u64>(), cpus in any::<u32>(),
        load_ppm in any::<u32>(), affinity in 0..9_usize, tick in any::<u64>(), node in 0..4_u32,
    ) {
        let (node, near) = (NodeId(node), None);
        let thread = Thread {
            tid: 1,
            node,
            near,
            kernel_prefers: KernelPreference::Node(node),
            load_ppm,
            wait_ppm: load_ppm,
            affinity,
        };
        let entity = |id| Entity {
            id: EntityId(id),
            run_ns: u64::MAX,
            threads: vec![thread, Thread { tid: 2, ..thread }],
            pages: [0, 1, 3].map(|node| (NodeId(node), pages)).into(),
            may_hold: (0..4).map(NodeId).collect(),
            ..Entity::default()
        };
        let state =
            NodeState { cpus, pages, room_pages, foreign_pages: pages, ..NodeState::default() };
        let ids = [NodeId(0), NodeId(1), NodeId(2)];
        let snapshot = Snapshot {
            at_ns: tick,
            page_bytes: 4096,
            nodes: ids.map(|id| (id, state)).into(),
            affinities: vec![Affinity(ids.map(|id| (id, cpus)).into()); 3],
            kernel_balances: tick % 2 == 0,
            entities: vec![entity(3), entity(1), entity(3), entity(u64::MAX)],
            ..Snapshot::default()
        };
        let mut homes = Homes::default();
        for _ in 0..3 {
            prop_assert_eq!(homes.decide(&snapshot, &Rules::default()).decisions.len(), 3);
            prop_assert_eq!(homes.decide(&Snapshot::default(), &Rules::default()).homes.len(), 0);
        }
    }
}

/// Returns what two controllers deliver of the traffic that an entity asks for, in ppm of one
/// controller, beside the traffic of others: at home or half and half.
fn delivered(home: &Home, asked: u32, others: [u32; 2]) -> [u32; 2] {
    let of_it = match home {
        Home::Interleave { .. } => [asked / 2, asked / 2],
        _ => [asked, 0],
    };
    [0, 1].map(|node| (of_it[node] + others[node]).min(1_000_000))
}

/// Returns the seconds at which the home of the only process changed, given the traffic of each
/// second by its home.
fn changes(seconds: u64, mut traffic: impl FnMut(u64, &Home) -> [u32; 2]) -> Vec<u64> {
    let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20)]);
    let id = world.start(CPU, &[0, 0, 0, 0], &[80_000, 0]);
    let (mut homes, mut home) = (Homes::default(), on(0));
    let mut changes = Vec::new();
    for second in 0..seconds {
        world.at_ns = second * SECOND;
        let mut snapshot = world.snapshot();
        for (node, ppm) in (0..).map(NodeId).zip(traffic(second, &home)) {
            snapshot.nodes.get_mut(&node).unwrap().traffic_ppm = Some(ppm);
        }
        let plan = homes.decide(&snapshot, &Rules::default());
        check(&snapshot, &plan);
        if plan.homes[&id] != home {
            home = plan.homes[&id].clone();
            changes.push(second);
        }
        let halves = matches!(home, Home::Interleave { .. });
        if !plan.moves.is_empty() {
            world.processes[0].pages = if halves { vec![40_000; 2] } else { vec![80_000, 0] };
            world.processes[0].measured_ns += 1;
        }
    }
    changes
}

/// Goal: traffic that disappears whenever memory is interleaved and returns whenever it is back
/// moves it less and less often: the memory stays at home for 160 s, 320 s, 640 s, and then as long
/// as any home after its ninth change: 10 s * 2^8.
#[test]
fn traffic_cannot_play_ping_pong() {
    let spiteful = |_, home: &Home| match home {
        Home::Interleave { .. } => [0, 0],
        _ => [1_000_000, 0],
    };
    let changes = changes(20_000, spiteful);
    assert!(changes.len() <= 12, "{changes:?}");
    let waits: Vec<u64> = changes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let at_home: Vec<u64> = waits.into_iter().skip(1).step_by(2).collect();
    assert_eq!(at_home, [160, 320, 640, 2560]);
}

proptest! {
    /// Goal: under constant traffic a home becomes interleaved once, or comes back once, and then
    /// stays.
    #[test]
    fn steady_traffic_moves_a_home_once(
        before in 0_u32..2_000_000,
        asked in 0_u32..2_000_000,
        others in [0_u32..1_000_000, 0_u32..1_000_000],
    ) {
        let changes = changes(400, |second, home| {
            delivered(home, if second < 100 { before } else { asked }, others)
        });
        let (early, late): (Vec<u64>, Vec<u64>) = changes.iter().partition(|&&at| at < 100);
        prop_assert!(early.len() <= 1 && late.len() <= 1, "{:?}", changes);
    }

    /// Goal: random traffic moves a home at most once for each step of the back-off: a step is
    /// undone after 80 s of calm or more, and the first moves are as many as waits of 10 s, doubled
    /// each time, fit.
    #[test]
    fn restless_traffic_moves_a_home_rarely(
        lasts in proptest::collection::vec((1_u64..60, 0_u32..1_500_000), 20..60),
    ) {
        let seconds = lasts.iter().map(|(seconds, _)| seconds).sum::<u64>();
        let asked: Vec<u32> =
            lasts.iter().flat_map(|&(seconds, ppm)| vec![ppm; seconds as usize]).collect();
        let changes =
            changes(seconds, |second, home| delivered(home, asked[second as usize], [0; 2]));
        let most = seconds / 80 + u64::from((seconds / 10).max(1).ilog2()) + 2;
        prop_assert!(changes.len() as u64 <= most, "{} of {}: {:?}", changes.len(), most, changes);
    }
}

/// Goal: a home that changes twice in a round is told as one that moved. A machine on which homes
/// leave a busy node and then one that is too small for them.
#[test]
fn two_changes_in_a_round_are_one_move() {
    let mut world = machine(5_016_285_785_487_995_728);
    world.move_limit = MoveLimit::Some(7);
    let mut homes = BTreeMap::new();
    for _ in 0..60 {
        let plan = world.round(&Rules::default());
        for decision in &plan.decisions {
            let home = plan.homes.get(&decision.entity).cloned();
            let before = homes.insert(decision.entity, home.clone()).flatten();
            let stays = before.is_some() && decision.verdict == Verdict::Stays;
            assert!(!stays || home == before, "{decision:?}: {before:?}");
        }
    }
}
