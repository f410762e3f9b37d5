//! The nodes of a snapshot by position, so that everything about them is a list.

use nodeward_model::NodeId;

use super::books::CPU_PPM;
use super::snapshot::{NodeState, Reach, Snapshot, Thread};
use crate::rank::DISTANCE_UNKNOWN;

/// The distance of a node to itself in the firmware's units.
const DISTANCE_LOCAL: u32 = 10;
/// Farther than any firmware says (it has 8 bits), so that sums stay small.
const DISTANCE_MAX: u32 = u16::MAX as u32;
/// A huge page, as a move of any page of it moves all.
const HUGE_BYTES: u64 = 2 << 20;

/// A node's position among those that are online, in ascending order of their ids.
pub(super) type Place = usize;

/// The nodes, and the ways between them.
pub(super) struct Ground {
    ids: Vec<NodeId>,
    states: Vec<NodeState>,
    far: Vec<Vec<u64>>,
    stores: Vec<Option<Place>>,
    stalled_ppm: Option<u32>,
    reach_cpus: Vec<Vec<u32>>,
    /// What part of all that threads want the CPUs can give.
    share_ppm: u64,
    huge_pages: u64,
}

impl Ground {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let ids: Vec<NodeId> = snapshot.nodes.keys().copied().collect();
        let states: Vec<NodeState> = snapshot.nodes.values().copied().collect();
        let distance = |from: NodeId, to: NodeId| {
            let unknown = if from == to { DISTANCE_LOCAL } else { DISTANCE_UNKNOWN };
            let known = snapshot.distances.as_ref().and_then(|table| table.get(from, to));
            u64::from(known.unwrap_or(unknown).min(DISTANCE_MAX))
        };
        let row = |&from: &NodeId| ids.iter().map(|&to| distance(from, to)).collect();
        let far = ids.iter().map(row).collect();
        let cpus = |reach: &Reach| ids.iter().map(|&id| reach.cpus(id)).collect();
        let reach_cpus = snapshot.reaches.iter().map(cpus).collect();
        let stalled_ppm = snapshot.stalled_ppm;
        let share_ppm = share_ppm(snapshot);
        let stores = Vec::new();
        let huge_pages = (HUGE_BYTES / snapshot.page_bytes.max(1)).max(1);
        let mut ground =
            Self { ids, states, far, stores, stalled_ppm, reach_cpus, share_ppm, huge_pages };
        ground.stores = ground.places().map(|place| ground.nearest_memory(place)).collect();
        ground
    }

    /// How much of a CPU a thread is to have, in millionths: what it had and waited for, if there
    /// are CPUs for all that is wanted, otherwise a fair share of that. So a process counts as
    /// larger than a node if it would be with all others around it, not if it was alone.
    pub(super) fn demand_ppm(&self, thread: &Thread) -> u64 {
        (wanted_ppm(thread) * self.share_ppm / CPU_PPM).max(had_ppm(thread))
    }

    /// Where memory of threads on a node goes if they say nothing: to the nearest that has any. A
    /// node without CPUs holds what is seldom used, and is nobody's.
    fn nearest_memory(&self, place: Place) -> Option<Place> {
        if self.states[place].cpus == 0 {
            return None;
        }
        let holds = |&other: &Place| self.states[other].pages > 0;
        let key = |&other: &Place| (other != place, self.is_tier(other), self.far[place][other]);
        self.places().filter(holds).min_by_key(key)
    }

    pub(super) fn places(&self) -> std::ops::Range<Place> {
        0..self.ids.len()
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn id(&self, place: Place) -> NodeId {
        self.ids[place]
    }

    pub(super) fn place(&self, id: NodeId) -> Option<Place> {
        self.ids.binary_search(&id).ok()
    }

    pub(super) fn state(&self, place: Place) -> &NodeState {
        &self.states[place]
    }

    /// What part of what a node's memory controller can deliver was asked of it, if that is known.
    pub(super) fn traffic(&self, place: Place) -> Option<u32> {
        self.states[place].traffic_ppm
    }

    /// In what part of the time some task stood still for want of memory.
    pub(super) fn stalled_ppm(&self) -> Option<u32> {
        self.stalled_ppm
    }

    /// All that a node's CPUs can do, in millionths of a CPU.
    pub(super) fn cpus_ppm(&self, place: Place) -> u64 {
        u64::from(self.states[place].cpus) * CPU_PPM
    }

    /// Where memory of a node's threads belongs; `None` if it has no CPUs, or no node has memory.
    pub(super) fn store(&self, place: Place) -> Option<Place> {
        self.stores[place]
    }

    /// Whether it has memory and no CPUs.
    pub(super) fn is_tier(&self, place: Place) -> bool {
        self.states[place].cpus == 0
    }

    /// How many CPUs of a node an affinity leaves; none if there is no such affinity.
    pub(super) fn reach_cpus(&self, reach: usize, place: Place) -> u32 {
        self.reach_cpus.get(reach).map_or(0, |cpus| cpus[place])
    }

    /// How many affinities there are.
    pub(super) fn reaches(&self) -> usize {
        self.reach_cpus.len()
    }

    /// The distance of memory on `to` for a CPU of `from`.
    pub(super) fn far(&self, from: Place, to: Place) -> u64 {
        self.far[from][to]
    }

    /// What may come along with a base page that is moved.
    pub(super) fn huge_pages(&self) -> u64 {
        self.huge_pages
    }

    /// How many nodes have CPUs.
    pub(super) fn nodes_with_cpus(&self) -> usize {
        self.states.iter().filter(|state| state.cpus > 0).count()
    }
}

/// What a thread had of a CPU.
pub(super) fn had_ppm(thread: &Thread) -> u64 {
    u64::from(thread.load_ppm).min(CPU_PPM)
}

/// What a thread had of a CPU and waited for.
pub(super) fn wanted_ppm(thread: &Thread) -> u64 {
    super::snapshot::wanted_ppm(thread.load_ppm, thread.wait_ppm)
}

fn share_ppm(snapshot: &Snapshot) -> u64 {
    let cpus: u64 = snapshot.nodes.values().map(|node| u64::from(node.cpus)).sum();
    let threads = snapshot.entities.iter().flat_map(|entity| &entity.threads);
    let wanted = threads.map(wanted_ppm).sum::<u64>().saturating_add(snapshot.others_ppm);
    (cpus * CPU_PPM).saturating_mul(CPU_PPM).checked_div(wanted).unwrap_or(CPU_PPM).min(CPU_PPM)
}
