//! Where segments of shared memory go, and when they stay.

use nodeward_model::{NodeId, Nodemask, SegmentId};
use nodeward_policy::placement::*;
use proptest::prelude::*;

use crate::world::*;

const ID: SegmentId = SegmentId { major: 0, minor: 1, inode: 7 };

/// A segment with pages by node that these processes map.
fn segment(pages: &[u64], users: impl IntoIterator<Item = u64>) -> Segment {
    let user = |entity| SegmentUser { entity: EntityId(entity), load_ppm: CPU };
    Segment {
        id: ID,
        users: users.into_iter().map(user).collect(),
        pages: (0..).map(NodeId).zip(pages.iter().copied()).filter(|on| on.1 > 0).collect(),
        pages_at_ns: 1,
        may_hold: (0..pages.len() as u32).map(NodeId).collect(),
        ..Segment::default()
    }
}

fn mask(nodes: &[u32]) -> Nodemask {
    nodes.iter().copied().map(NodeId).collect()
}

/// Rounds with a snapshot that stays, but for time and the segment's sample.
struct Rounds {
    snapshot: Snapshot,
    homes: Homes,
    rules: Rules,
}

impl Rounds {
    fn new(world: &World, segment: Segment) -> Self {
        let mut snapshot = world.snapshot();
        snapshot.segments = vec![segment];
        let rules = Rules { horizon_ns_max: 0, ..Rules::default() };
        Self { snapshot, homes: Homes::default(), rules }
    }

    /// A decision after so many seconds.
    fn decide(&mut self, seconds: u64) -> Plan {
        self.snapshot.at_ns += seconds * SECOND;
        self.homes.decide(&self.snapshot, &self.rules)
    }

    /// The same, with what moved carried out and sampled again.
    fn round(&mut self, seconds: u64) -> Plan {
        let plan = self.decide(seconds);
        let segment = &mut self.snapshot.segments[0];
        for one in &plan.segment_moves {
            *segment.pages.entry(one.from.first().unwrap()).or_default() -= one.pages_max;
            *segment.pages.entry(one.to).or_default() += one.pages_max;
            segment.pages_at_ns = self.snapshot.at_ns + 1;
        }
        plan
    }

    fn reason(&mut self, seconds: u64) -> Reason {
        self.decide(seconds).segments[0].reason
    }
}

/// Two nodes of four CPUs; a process with a busy thread and 1000 pages on each of these nodes.
fn world(nodes: &[usize]) -> World {
    let mut world = World::new(&[(4, 1 << 20), (4, 1 << 20)]);
    for &node in nodes {
        let mut pages = [0, 0];
        pages[node] = 1000;
        world.start(CPU, &[node], &pages);
    }
    world
}

/// Goal: a segment goes to the home that all its users have, after 5 s, and for what all of them
/// save. Two users that run all the time wait 30 % of it for memory. Each has 1000 pages of its
/// own, and 4500 are its part of the segment; with these at distance 16 it waits 0.3 * 4500 / 5500
/// * 0.6 = 14.7 % longer, 1.4727 s of 10 s. 9000 pages cost 0.1 + 18 ms.
#[test]
fn a_segment_goes_where_all_who_use_it_are_at_home() {
    let mut rounds = Rounds::new(&world(&[1, 1]), segment(&[9000, 0], [0, 1]));
    // Both would be at home where the segment is, if they were not bound.
    rounds.snapshot.affinities = vec![Affinity([(NodeId(1), 4)].into())];
    assert_eq!(rounds.reason(0), Reason::Waits);
    assert_eq!(rounds.reason(4), Reason::Waits);
    let plan = rounds.round(1);
    let decision = &plan.segments[0];
    assert_eq!((decision.reason, decision.users), (Reason::Pays, 2));
    assert_eq!((decision.gain_ns, decision.cost_ns), (2_945_454_000, 18_100_000));
    assert_eq!(decision.nodes, mask(&[1]));
    let one = &plan.segment_moves[0];
    assert_eq!((&one.from, one.to, one.pages_max), (&mask(&[0]), NodeId(1), 9000));
    assert!(!plan.settled);
    assert_eq!(rounds.reason(1), Reason::AllHome);
}

/// Goal: a segment that saves less than a thousandth of a CPU stays, though that costs 0.1 ms only.
/// Of 4 pages each of two users has 2, beside 1000 of its own: 0.3 * 2 / 1002 * 0.6 of 10 s saved,
/// 7.2 ms for both. Of 6 pages it is 10.8 ms.
#[test]
fn a_segment_that_saves_next_to_nothing_stays() {
    for (pages, expected) in [(4, Reason::DoesNotPay), (6, Reason::Pays)] {
        let mut rounds = Rounds::new(&world(&[1, 1]), segment(&[pages, 0], [0, 1]));
        rounds.snapshot.affinities = vec![Affinity([(NodeId(1), 4)].into())];
        rounds.decide(0);
        assert_eq!(rounds.reason(5), expected, "{pages}");
    }
}

/// Goal: with users that are at home on different nodes a segment stays on these nodes, however it
/// lies, also if one of them would gain; users of next to no load (a sixteenth of all), and those
/// without any, do not count.
#[test]
fn a_segment_stays_between_those_who_use_it() {
    for pages in [[9000, 0], [5000, 4000], [0, 9000]] {
        let mut rounds = Rounds::new(&world(&[0, 1]), segment(&pages, [0, 1]));
        assert_eq!(rounds.reason(0), Reason::UsersApart, "{pages:?}");
        let decision = &rounds.decide(100).segments[0];
        assert_eq!(decision.reason, Reason::UsersApart, "{pages:?}");
        assert!(decision.counts_wanted && decision.rooms.len() == 2, "its ranges may be placed");
    }
    for (ppm, expected) in
        [(CPU / 15, Reason::Pays), (CPU / 14, Reason::UsersApart), (0, Reason::Pays)]
    {
        let mut world = world(&[1, 0]);
        world.processes[1].tasks[0].wants = ppm;
        let mut rounds = Rounds::new(&world, segment(&[9000, 0], [0, 1]));
        rounds.snapshot.affinities =
            vec![Affinity([(NodeId(0), 4)].into()), Affinity([(NodeId(1), 4)].into())];
        rounds.snapshot.entities[0].threads[0].affinity = 1;
        rounds.decide(0);
        assert_eq!(rounds.reason(5), expected, "{ppm}"); // 1/15 of a CPU is 1/16 of all
    }
}

/// Goal: a process goes to the segment that it uses, and takes its own memory along: it has 1000
/// pages on node 1, and the segment has 9000 on node 0.
#[test]
fn who_uses_a_segment_alone_goes_to_it() {
    let mut rounds = Rounds::new(&world(&[1]), segment(&[9000, 0], [0]));
    let plan = rounds.decide(0);
    assert_eq!(plan.homes[&EntityId(0)], Home::Node(NodeId(0)));
    assert_eq!(plan.moves[0].pages_max, 1000);
    assert_eq!(plan.segments[0].reason, Reason::AllHome);
}

/// Goal: beside the kernel's NUMA balancing a segment goes to the home that all its users have, if
/// the kernel wants no thread of them elsewhere; what is used on several nodes is the kernel's. So
/// is a process that uses more of a segment than memory of its own, with all its threads: each of
/// these has 1000 pages of its own and half of the segment.
#[test]
fn beside_the_kernel_a_segment_moves_only_where_the_kernel_agrees() {
    let prefers = |node| KernelPreference::Node(NodeId(node));
    let cases = [
        (2000, [1, 1], KernelPreference::Anywhere, Reason::Pays),
        (2000, [1, 1], prefers(1), Reason::Pays),
        (2000, [1, 1], prefers(0), Reason::KernelPrefers),
        (2000, [1, 1], KernelPreference::Undecided, Reason::KernelPrefers),
        (2000, [0, 1], KernelPreference::Anywhere, Reason::ByKernel),
        (2002, [1, 1], KernelPreference::Anywhere, Reason::ByKernel),
    ];
    for (pages, nodes, kernel_prefers, expected) in cases {
        let mut rounds = Rounds::new(&world(&nodes), segment(&[pages, 0], [0, 1]));
        let bound = |node| Affinity([(NodeId(node), 4)].into());
        rounds.snapshot.affinities = vec![bound(0), bound(1)];
        for (entity, node) in rounds.snapshot.entities.iter_mut().zip(nodes) {
            entity.threads[0].affinity = node;
        }
        rounds.snapshot.kernel_balances = true;
        rounds.snapshot.entities[1].threads[0].kernel_prefers = kernel_prefers;
        rounds.decide(0);
        let plan = rounds.decide(5);
        assert_eq!(plan.segments[0].reason, expected, "{pages} {nodes:?} {kernel_prefers:?}");
        assert_eq!(plan.segment_moves.is_empty(), expected != Reason::Pays);
    }
}

/// Goal: beside the kernel's NUMA balancing a thread that is away is brought home, in a round and
/// in a fast one, unless its process uses more of a segment than memory of its own.
#[test]
fn beside_the_kernel_users_of_segments_stay() {
    for (pages, nudges) in [(500, 1), (4000, 0)] {
        let mut rounds = Rounds::new(&world(&[1]), segment(&[0, pages], [0]));
        rounds.snapshot.kernel_balances = true;
        rounds.decide(0);
        rounds.snapshot.entities[0].threads[0].node = NodeId(0);
        let fast = rounds.homes.thread_moves(&rounds.snapshot, &rounds.rules);
        let plan = rounds.decide(1);
        assert_eq!(plan.homes[&EntityId(0)], Home::Node(NodeId(1)));
        assert_eq!((fast.nudges.len(), plan.nudges.len()), (nudges, nudges), "{pages}");
        let by_kernel = (nudges == 0).then_some(Reason::ByKernel);
        assert_eq!(plan.decisions[0].threads, by_kernel);
    }
}

/// Goal: each obstacle has its reason, and nothing moves.
#[test]
fn a_segment_is_left_alone_for_a_reason() {
    let told = |change: &dyn Fn(&mut Snapshot, &mut Rules)| {
        let mut rounds = Rounds::new(&world(&[1, 1]), segment(&[9000, 0], [0, 1]));
        rounds.snapshot.affinities = vec![Affinity([(NodeId(1), 4)].into())];
        change(&mut rounds.snapshot, &mut rounds.rules);
        rounds.decide(0);
        let plan = rounds.decide(5);
        assert!(plan.segment_moves.is_empty());
        plan.segments[0].reason
    };
    use SegmentExclusion::{Denied, Excluded, ExplicitPolicy, NoRight};
    let excluded = [
        (NoRight, Reason::SharedMemory),
        (ExplicitPolicy, Reason::ExplicitPolicy),
        (Denied, Reason::Denied),
        (Excluded, Reason::Excluded),
    ];
    for (exclusion, expected) in excluded {
        let reason = told(&|seen, _| seen.segments[0].exclusion = Some(exclusion));
        assert_eq!(reason, expected);
    }
    assert_eq!(told(&|seen, _| seen.segments[0].users.clear()), Reason::Unused);
    // A third process, of which it is too early to decide, has a third of the load.
    let young = SegmentUser { entity: EntityId(9), load_ppm: CPU };
    assert_eq!(told(&|seen, _| seen.segments[0].users.push(young)), Reason::UsersUnsettled);
    let frozen = |seen: &mut Snapshot| seen.entities[0].exclusion = Some(Exclusion::Frozen);
    assert_eq!(told(&|seen, _| frozen(seen)), Reason::UsersUnsettled);
    assert_eq!(told(&|seen, _| seen.segments[0].may_hold = mask(&[0])), Reason::NoNodeAllowed);
    assert_eq!(told(&|_, rules| rules.move_memory = false), Reason::ThreadsOnly);
    assert_eq!(told(&|_, rules| rules.page_ns = 400_000), Reason::DoesNotPay); // 3.6 s for 2.95 s
    assert_eq!(told(&|seen, _| seen.stalled_ppm = Some(100_001)), Reason::Stalled);
    let pinned =
        |seen: &mut Snapshot| seen.segments[0].fixed_pages = seen.segments[0].pages.clone();
    assert_eq!(told(&|seen, _| pinned(seen)), Reason::AllHome);
    let full = |seen: &mut Snapshot, room_pages| {
        seen.nodes.entry(NodeId(1)).and_modify(|node| node.room_pages = room_pages);
    };
    // The margin is 2 % of 2^20 pages: 20,971; a sixteenth of 9000 pages is 563.
    assert_eq!(told(&|seen, _| full(seen, 20_971 + 562)), Reason::NoRoom);
    assert_eq!(told(&|seen, _| full(seen, 0)), Reason::Pressed);
}

/// Goal: what lies where nobody who uses it is at home goes evenly to the nodes of its users: of
/// 9000 pages on node 2, 4500 to either.
#[test]
fn a_segment_away_from_all_users_is_spread_over_their_nodes() {
    let mut world = World::new(&[(4, 1 << 20); 3]);
    world.start(CPU, &[0], &[1000, 0, 0]);
    world.start(CPU, &[1], &[0, 1000, 0]);
    let mut rounds = Rounds::new(&world, segment(&[0, 0, 9000], [0, 1]));
    rounds.snapshot.affinities = vec![Affinity([(NodeId(0), 4), (NodeId(1), 4)].into())];
    rounds.decide(0);
    let plan = rounds.round(5);
    let moved: Vec<_> = plan.segment_moves.iter().map(|one| (one.to.0, one.pages_max)).collect();
    assert_eq!(moved, [(0, 4500), (1, 4500)]);
    assert_eq!(rounds.reason(1), Reason::UsersApart);
}

/// Goal: a segment on one node of two of its users is evened out when the controller of that node
/// has been saturated for 5 s and the other has time, and only if its users make most of the load:
/// three others want three CPUs, its users two. Of 9000 pages 8 huge pages of 512 go: the most that
/// half of them are.
#[test]
fn a_segment_that_saturates_a_controller_is_spread() {
    for (others, expected) in [(0, Reason::Bottleneck), (3, Reason::UsersApart)] {
        let mut world = world(&[0, 1]);
        (0..others).for_each(|_| _ = world.start(CPU, &[1], &[0, 1000]));
        let mut rounds = Rounds::new(&world, segment(&[9000, 0], [0, 1]));
        // The first user may run on node 0 only, all others on node 1.
        rounds.snapshot.affinities = [0, 1].map(|node| Affinity([(NodeId(node), 4)].into())).into();
        for entity in &mut rounds.snapshot.entities[1..] {
            entity.threads[0].affinity = 1;
        }
        for (node, traffic_ppm) in [(0, 900_000), (1, 100_000)] {
            rounds.snapshot.nodes.entry(NodeId(node)).and_modify(|state| {
                state.traffic_ppm = Some(traffic_ppm);
            });
        }
        assert_eq!(rounds.reason(0), Reason::UsersApart, "not for long enough");
        let plan = rounds.round(5);
        assert_eq!(plan.segments[0].reason, expected);
        let pages: u64 = plan.segment_moves.iter().map(|one| one.pages_max).sum();
        assert_eq!(pages, if others == 0 { 4096 } else { 0 });
    }
}

proptest! {
    /// Goal: however users change sides, no move begins within a minute of the sample that followed
    /// the one before, and none before the target has stood for 5 s.
    #[test]
    fn no_segment_moves_twice_in_a_minute(sides in proptest::collection::vec(0_u32..3, 1..60)) {
        let mut rounds = Rounds::new(&world(&[0, 0]), segment(&[9000, 0], [0, 1]));
        let mut last_ns = None;
        for side in sides {
            // Both on node 0, both on node 1, or one on each; for 3 s.
            let sides = [side / 2, side.div_ceil(2)];
            rounds.snapshot.affinities =
                sides.map(|node| Affinity([(NodeId(node), 4)].into())).into();
            for (at, entity) in rounds.snapshot.entities.iter_mut().enumerate() {
                entity.threads[0].affinity = at;
            }
            for _ in 0..3 {
                let plan = rounds.round(1);
                if !plan.segment_moves.is_empty() {
                    let now_ns = rounds.snapshot.at_ns;
                    prop_assert!(last_ns.is_none_or(|last| now_ns - last >= 60 * SECOND));
                    last_ns = Some(now_ns);
                }
            }
        }
    }
}
