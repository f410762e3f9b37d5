//! Memory of regions that goes where its group goes, with an agent that is started here. This
//! machine may have one node, so homes are the node where the memory is, and one that is none.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use nodeward::{
    Error, FollowFailure, FollowOptions, FollowedRange, Group, GroupAgent, GroupFailure, GroupHome,
    HomeFollower, MoveTime, NodeId, Nodemask, Pager, PagerOptions, Placement, Region,
    RegionOptions,
};
use nodeward_balancer::{CalledPart, GroupRow, RoundReport};
use nodeward_linux::test_wait::wait_until;
use nodeward_policy::placement::{Decision, EntityId, Home, Reason, Verdict};

use crate::stage::Stage;

#[allow(dead_code, reason = "the tests of the agent use the rest")]
#[path = "../../agent/tests/socket/stage.rs"]
mod stage;

const MIB: usize = 1 << 20;
/// A node that no machine has here.
const NOWHERE: u32 = 999;

/// An agent with a group, a follower, and a region of 4 MiB.
struct Scene {
    stage: Stage,
    group: Group,
    follower: HomeFollower,
    region: Arc<Region>,
    /// The node on which the scene puts its memory.
    node: NodeId,
}

fn scene() -> Scene {
    let stage = Stage::new();
    let group = GroupAgent::at(&stage.path()).make("a", &GroupHome::Auto).unwrap();
    let options = FollowOptions { interval: Duration::from_millis(10), ..FollowOptions::default() };
    let follower = HomeFollower::start(options).unwrap();
    let pager = Pager::open(&PagerOptions::default()).unwrap();
    let region = pager.reserve(4 * MIB, &RegionOptions::default()).unwrap();
    let node = nodeward::nodes().unwrap().first().unwrap();
    region.commit(0..4 * MIB, &Placement::Node(node)).unwrap();
    Scene { stage, group, follower, region: Arc::new(region), node }
}

impl Scene {
    fn add(&self, range: Range<usize>, time: MoveTime) -> Result<(), FollowFailure> {
        self.follower.add(&self.group, &self.region, range, time)
    }

    /// Lets the agent say that a round gave the group a home.
    fn give_home(&self, home: Home) {
        let decision = Decision::new(EntityId(1), Verdict::Stays, Reason::RunsThere);
        let row = GroupRow {
            name: "a".parse().unwrap(),
            called: Some(self.group.id()),
            home: Some(home),
            decision,
            changed: true,
            processes: Vec::new(),
            threads: Default::default(),
            residency: Default::default(),
            done: Default::default(),
        };
        self.stage.agent.publish(&RoundReport { groups: vec![row], ..Default::default() });
    }

    /// Waits until the first range is as wanted.
    fn wait_for(&self, what: &str, is_so: impl Fn(&FollowedRange) -> bool) -> FollowedRange {
        wait_until(what, || self.follower.ranges().first().is_some_and(&is_so));
        self.follower.ranges().remove(0)
    }

    fn part(&self) -> CalledPart {
        let groups = self.stage.groups.lock();
        groups.get(self.group.id()).unwrap().parts.values().next().unwrap().clone()
    }

    fn addresses(&self, range: Range<usize>) -> nodeward_model::Range {
        let start = self.region.as_ptr().addr() as u64;
        nodeward_model::Range::new(start + range.start as u64, start + range.end as u64)
    }
}

fn mask(nodes: &[u32]) -> Nodemask {
    nodes.iter().map(|&node| NodeId(node)).collect()
}

/// Goal: a range is brought to each new home, of one node or of several; what failed is told with
/// its cause, and no more when it succeeds; before there is a home nothing happens. The agent is
/// told that the process moves it.
#[test]
fn homes_are_followed() {
    let scene = scene();
    scene.add(MIB..4 * MIB, MoveTime::AtOnce).unwrap();
    assert_eq!(scene.part().self_moved, [scene.addresses(MIB..4 * MIB)]);
    assert_eq!((&scene.follower.ranges()[0].home, scene.follower.ranges().len()), (&None, 1));

    scene.give_home(Home::Node(scene.node));
    let told = scene.wait_for("it is at home", |told| told.home.is_some());
    assert_eq!(told.home, Some(mask(&[scene.node.0])));
    assert_eq!((told.moved_pages, told.stayed_pages, told.failure), (0, 0, None));

    scene.give_home(Home::Node(NodeId(NOWHERE)));
    let told = scene.wait_for("it failed", |told| told.failure.is_some());
    assert_eq!(told.home, Some(mask(&[NOWHERE])));
    assert!(told.failure.unwrap().contains("999"));

    let memory = mask(&[scene.node.0]);
    scene.give_home(Home::Interleave { threads: NodeId(NOWHERE), memory: memory.clone() });
    let told = scene.wait_for("it is back", |told| told.failure.is_none());
    assert_eq!(told.home, Some(memory), "memory goes where memory belongs");
    let whole = scene.region.residency(0..4 * MIB).unwrap();
    assert_eq!(whole, [(scene.node, 4 * MIB as u64 / scene.region.page_bytes() as u64)].into());
}

/// Goal: on touch works where pages can be left out of sight, and is refused at once elsewhere;
/// pages that are at home stay in sight.
#[test]
fn pages_may_move_on_touch() {
    let scene = scene();
    match scene.add(0..2 * MIB, MoveTime::OnTouch) {
        Err(FollowFailure::Region(Error::NeedsUserfaultfd { .. })) => {
            println!("skipped: there is no lazy migration here");
            assert_eq!(scene.follower.ranges(), []);
        }
        added => {
            added.unwrap();
            scene.give_home(Home::Node(scene.node));
            let told = scene.wait_for("it is at home", |told| told.home.is_some());
            assert_eq!((told.lazy_pages, told.time), (0, MoveTime::OnTouch));
        }
    }
}

/// Goal: a range that is added anew cuts those that have some of it, in the follower as at the
/// agent; invalid ranges are refused, and empty ones are none.
#[test]
fn the_last_call_wins() {
    let scene = scene();
    scene.add(0..4 * MIB, MoveTime::AtOnce).unwrap();
    scene.add(MIB..2 * MIB, MoveTime::AtOnce).unwrap();
    scene.add(3 * MIB..3 * MIB, MoveTime::AtOnce).unwrap();
    let start = scene.region.as_ptr().addr();
    let told: Vec<_> = scene
        .follower
        .ranges()
        .iter()
        .map(|told| ((told.addresses.start - start) / MIB, (told.addresses.end - start) / MIB))
        .collect();
    assert_eq!(told, [(0, 1), (1, 2), (2, 4)]);
    let mut moved = scene.part().self_moved;
    moved.sort_by_key(|range| range.start);
    assert_eq!(moved, [0..MIB, MIB..2 * MIB, 2 * MIB..4 * MIB].map(|it| scene.addresses(it)));
    for wrong in [1..MIB, 0..5 * MIB] {
        let refused = scene.add(wrong, MoveTime::AtOnce).unwrap_err();
        let is_it = matches!(
            refused,
            FollowFailure::Region(Error::Unaligned { .. } | Error::OutOfRegion { .. })
        );
        assert!(is_it, "{refused}");
    }
    assert_eq!(scene.follower.ranges().len(), 3);
}

/// Goal: a range ends with its region and with its group, and what was followed when the follower
/// ends is the agent's to move.
#[test]
fn ranges_end() {
    let mut scene = scene();
    scene.add(0..2 * MIB, MoveTime::AtOnce).unwrap();
    let other = GroupAgent::at(&scene.stage.path()).make("b", &GroupHome::Auto).unwrap();
    scene.follower.add(&other, &scene.region, 2 * MIB..3 * MIB, MoveTime::AtOnce).unwrap();
    other.delete().unwrap();
    wait_until("its group has ended", || scene.follower.ranges().len() == 1);

    let pager = Pager::open(&PagerOptions::default()).unwrap();
    let brief = Arc::new(pager.reserve(2 * MIB, &RegionOptions::default()).unwrap());
    scene.follower.add(&scene.group, &brief, 0..2 * MIB, MoveTime::AtOnce).unwrap();
    drop(brief);
    wait_until("its region has ended", || scene.follower.ranges().len() == 1);

    let before = scene.part();
    assert!(before.self_moved.contains(&scene.addresses(0..2 * MIB)));
    scene.follower = HomeFollower::start(FollowOptions::default()).unwrap();
    let after = scene.part();
    assert!(!after.self_moved.contains(&scene.addresses(0..2 * MIB)), "{after:?}");
    let range = nodeward_model::MemorySelector::Range(scene.addresses(0..2 * MIB));
    assert!(after.memory.contains(&range), "{after:?}");
}

/// Goal: while no agent answers that is told, with what to do, ranges stay, and none can be added.
#[test]
fn without_an_agent() {
    let scene = scene();
    scene.add(0..2 * MIB, MoveTime::AtOnce).unwrap();
    let Scene { stage, group, follower, region, .. } = scene;
    drop(stage);
    // A question that was under way is told as lost; the next one finds nobody.
    wait_until("it is told what to do", || {
        let failure = follower.ranges()[0].failure.clone();
        failure.is_some_and(|words| words.contains("balance.socket"))
    });
    let refused = follower.add(&group, &region, 0..MIB, MoveTime::AtOnce).unwrap_err();
    assert!(matches!(refused, FollowFailure::Group(GroupFailure::NoAgent { .. })), "{refused}");
    assert_eq!(follower.ranges().len(), 1);
}
