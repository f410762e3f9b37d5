//! What was seen, as the values that decisions are made from.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nodeward_model::{Cpumask, NodeId, Pid, ProcessGlance};
use nodeward_policy::placement::{Affinity, Entity, Exclusion, Snapshot, Thread};

use super::ground::Ground;
use super::roster::{Load, Member, Roster};

/// What keeps processes from being balanced that is not seen of themselves.
pub struct Bars<'a> {
    /// Those that the settings leave out.
    pub excluded: &'a [Pid],
    /// The balancer itself. Its own memory is none of its business: to move that would cost more
    /// than it gains.
    pub own: Option<Pid>,
}

impl Bars<'_> {
    fn of(&self, member: &Member, now: &ProcessGlance) -> Option<Exclusion> {
        let is_bound = member.sight.as_ref().is_some_and(|sight| sight.bound.whole);
        let bars = [
            (Some(now.pid) == self.own, Exclusion::Ourselves),
            (self.excluded.binary_search(&now.pid).is_ok(), Exclusion::Excluded),
            (member.denied.is_some(), Exclusion::Denied),
            (now.frozen, Exclusion::Frozen),
            (is_bound, Exclusion::ExplicitPolicy),
        ];
        bars.into_iter().find_map(|(is_so, bar)| is_so.then_some(bar))
    }

    /// Whether a process is left out whatever it does: by the settings, or because it is ours.
    pub fn is_left_out(&self, pid: Pid) -> bool {
        Some(pid) == self.own || self.excluded.binary_search(&pid).is_ok()
    }
}

/// The snapshot of a round. Left out is of whom it is too early to decide.
pub fn snapshot(
    (at_ns, page_bytes): (u64, u64),
    ground: &Ground,
    roster: &Roster,
    bars: &Bars<'_>,
    is_too_early: &dyn Fn(&Member) -> bool,
) -> Snapshot {
    let mut affinities = Affinities { ground, known: HashMap::new(), affinities: Vec::new() };
    let (mut entities, mut others_ppm) = (Vec::new(), 0);
    for (_, member) in roster.members() {
        let Some(now) = &member.now else { continue };
        let bar = bars.of(member, now);
        if bar.is_some() || !is_too_early(member) {
            entities.push(entity(member, now, bar, ground, &mut affinities));
        } else {
            others_ppm += member.wanted_ppm();
        }
    }
    Snapshot {
        at_ns,
        page_bytes,
        nodes: ground.states(),
        stalled_ppm: ground.stalled_ppm(),
        distances: ground.distances().cloned(),
        affinities: affinities.affinities,
        entities,
        others_ppm,
    }
}

fn entity(
    member: &Member,
    now: &ProcessGlance,
    bar: Option<Exclusion>,
    ground: &Ground,
    affinities: &mut Affinities<'_>,
) -> Entity {
    let thread = |(thread, load): (&nodeward_model::ThreadGlance, &Load)| {
        Some(Thread {
            tid: thread.tid,
            node: ground.node_of(thread.cpu)?,
            near: member.seats.node_of(thread.tid),
            load_ppm: load.load_ppm,
            wait_ppm: load.wait_ppm,
            affinity: affinities.index(member.pins.cpus_of(thread)),
        })
    };
    let sight = member.sight.as_ref();
    Entity {
        id: member.entity,
        run_ns: now.cpu_time_ns,
        children_ns: now.children_time_ns,
        threads: now.threads.iter().zip(&member.loads).filter_map(thread).collect(),
        pages: sight.map(|sight| sight.pages.clone()).unwrap_or_default(),
        pages_at_ns: sight.map_or(0, |sight| sight.at_ns),
        fixed_pages: sight.map(|sight| sight.fixed_pages(&member.stuck)).unwrap_or_default(),
        may_hold: now.memory_nodes.clone(),
        exclusion: bar,
    }
}

/// The affinities that threads have, each once.
struct Affinities<'a> {
    ground: &'a Ground,
    known: HashMap<Arc<Cpumask>, usize>,
    affinities: Vec<Affinity>,
}

impl Affinities<'_> {
    fn index(&mut self, cpus: Arc<Cpumask>) -> usize {
        if let Some(&index) = self.known.get(&cpus) {
            return index;
        }
        let index = self.affinities.len();
        self.affinities.push(self.ground.affinity(&cpus));
        self.known.insert(cpus, index);
        index
    }
}

/// The node that has more than half of a process's load.
pub fn busiest(member: &Member, ground: &Ground) -> Option<NodeId> {
    let now = member.now.as_ref()?;
    let mut loads: BTreeMap<NodeId, u64> = BTreeMap::new();
    for (thread, load) in now.threads.iter().zip(&member.loads) {
        if let Some(node) = ground.node_of(thread.cpu) {
            *loads.entry(node).or_default() += u64::from(load.load_ppm);
        }
    }
    let whole: u64 = loads.values().sum();
    loads.into_iter().find(|&(_, load)| load * 2 > whole).map(|(node, _)| node)
}

/// Threads of a process by the node on which they ran last.
pub fn threads_by_node(now: &ProcessGlance, ground: &Ground) -> BTreeMap<NodeId, u32> {
    let mut counts = BTreeMap::new();
    for node in now.threads.iter().filter_map(|thread| ground.node_of(thread.cpu)) {
        *counts.entry(node).or_default() += 1;
    }
    counts
}
