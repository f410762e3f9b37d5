//! The input of a decision, made from the tables of processes and nodes.

use std::collections::HashMap;
use std::sync::Arc;

use nodeward_model::{Cpumask, Nodemask, Pid, ProcessSnapshot, SegmentId, ThreadSnapshot};
use nodeward_policy::kernel_moves::DECIDES_NS;
use nodeward_policy::placement::{
    Affinity, Entity, Exclusion, KernelPreference, Segment, SegmentExclusion, SegmentUser,
    Snapshot, Thread,
};

use super::nodes::Nodes;
use super::process_table::{ProcessState, ProcessTable};
use super::segment_table::{Mapper, SegmentState, SegmentTable};
use super::thread_load::ThreadLoad;

/// The tables from which a snapshot is made.
pub struct Tables<'a> {
    pub nodes: &'a Nodes,
    pub processes: &'a ProcessTable,
    pub excluded: &'a Excluded,
    pub segments: &'a SegmentTable,
    /// Whether what the kernel's NUMA balancing decided stands.
    pub kernel_balances: bool,
}

/// Processes that are not balanced for a reason outside of themselves.
#[derive(Default)]
pub struct Excluded {
    /// Processes that the settings leave out, in ascending order.
    pub by_settings: Vec<Pid>,
    /// The balancer itself: moving its own memory would cost more than it gains.
    pub own: Option<Pid>,
}

impl Tables<'_> {
    /// Returns the snapshot of a round. It has no processes for which it is too early to decide.
    pub fn snapshot(
        &self,
        (at_ns, page_bytes): (u64, u64),
        is_too_early: &dyn Fn(&ProcessState) -> bool,
    ) -> Snapshot {
        let mut affinities = Affinities { nodes: self.nodes, known: HashMap::new(), all: vec![] };
        let (mut entities, mut others_ppm) = (Vec::new(), 0);
        for (_, process) in self.processes.iter() {
            let Some(seen) = &process.seen else { continue };
            let exclusion = self.excluded.of(process);
            if exclusion.is_some() || !is_too_early(process) {
                entities.push(Entity { exclusion, ..self.entity(process, seen, &mut affinities) });
            } else {
                others_ppm += process.wanted_ppm();
            }
        }
        Snapshot {
            at_ns,
            page_bytes,
            nodes: self.nodes.states().clone(),
            stalled_ppm: self.nodes.stalled_ppm(),
            distances: self.nodes.distances().cloned(),
            affinities: affinities.all,
            kernel_balances: self.kernel_balances,
            entities,
            segments: self.segments.iter().filter_map(|one| self.segment(one)).collect(),
            others_ppm,
        }
    }

    fn entity(
        &self,
        process: &ProcessState,
        seen: &ProcessSnapshot,
        affinities: &mut Affinities<'_>,
    ) -> Entity {
        let thread = |(thread, load): (&ThreadSnapshot, &ThreadLoad)| {
            Some(Thread {
                tid: thread.tid,
                node: self.nodes.node_of(thread.cpu)?,
                near: process.thread_homes.node_of(thread.tid),
                kernel_prefers: self.kernel_prefers(process, thread),
                load_ppm: load.load_ppm,
                wait_ppm: load.wait_ppm,
                affinity: affinities.index(process.pins.cpus_of(thread)),
            })
        };
        let sample = process.sample.as_ref();
        Entity {
            id: process.entity,
            run_ns: seen.cpu_time_ns,
            children_ns: seen.children_cpu_time_ns,
            threads: process.threads().filter_map(thread).collect(),
            pages: sample.map(|sample| sample.pages.clone()).unwrap_or_default(),
            pages_at_ns: sample.map_or(0, |sample| sample.at_ns),
            fixed_pages: process.fixed_pages(),
            may_hold: seen.memory_nodes.clone(),
            exclusion: None,
        }
    }
}

impl Tables<'_> {
    /// A segment, if it was sampled.
    fn segment(&self, (id, state): (SegmentId, &SegmentState)) -> Option<Segment> {
        let (pages_at_ns, pages) = state.sample.clone()?;
        let user =
            |mapper: &Mapper| SegmentUser { entity: mapper.entity, load_ppm: mapper.wanted_ppm };
        Some(Segment {
            id,
            users: state.mappers.iter().map(user).collect(),
            pages,
            pages_at_ns,
            fixed_pages: state.fixed_pages(),
            may_hold: self.held_by_all(state),
            exclusion: self.segment_exclusion(state),
        })
    }

    /// The nodes that all who map a segment may have memory of.
    fn held_by_all(&self, state: &SegmentState) -> Nodemask {
        let all: Nodemask = self.nodes.states().keys().copied().collect();
        let seen = self.mappers_of(state).filter_map(|process| process.seen.as_ref());
        seen.fold(all, |nodes, seen| nodes.and(&seen.memory_nodes))
    }

    fn segment_exclusion(&self, state: &SegmentState) -> Option<SegmentExclusion> {
        let mut excluded = state.mappers.iter().map(|mapper| self.excluded.contains(mapper.key.0));
        let mut denied = self.mappers_of(state).map(|process| process.denied.is_some());
        let exclusions = [
            (!self.segments.moves_shared, SegmentExclusion::NoRight),
            (excluded.any(|is_so| is_so), SegmentExclusion::Excluded),
            (denied.any(|is_so| is_so), SegmentExclusion::Denied),
            (state.is_bound, SegmentExclusion::ExplicitPolicy),
        ];
        exclusions.into_iter().find_map(|(is_so, exclusion)| is_so.then_some(exclusion))
    }

    fn mappers_of(&self, state: &SegmentState) -> impl Iterator<Item = &ProcessState> {
        state.mappers.iter().filter_map(|mapper| self.processes.get(mapper.key))
    }

    fn kernel_prefers(&self, process: &ProcessState, thread: &ThreadSnapshot) -> KernelPreference {
        match process.kernel.preferred_node(thread.tid) {
            Some(node) => KernelPreference::Node(node),
            None if self.kernel_balances && thread.cpu_time_ns < DECIDES_NS => {
                KernelPreference::Undecided
            }
            None => KernelPreference::Anywhere,
        }
    }
}

impl Excluded {
    /// Returns whether a process is left out by the settings, or is the balancer itself.
    pub fn contains(&self, pid: Pid) -> bool {
        Some(pid) == self.own || self.by_settings.binary_search(&pid).is_ok()
    }

    /// Why a process is left alone, if it is.
    pub fn of(&self, process: &ProcessState) -> Option<Exclusion> {
        let seen = process.seen.as_ref()?;
        let is_bound = process.sample.as_ref().is_some_and(|sample| sample.bound.has_task_policy);
        let exclusions = [
            (Some(seen.pid) == self.own, Exclusion::Ourselves),
            (self.by_settings.binary_search(&seen.pid).is_ok(), Exclusion::Excluded),
            (process.denied.is_some(), Exclusion::Denied),
            (seen.frozen, Exclusion::Frozen),
            (is_bound, Exclusion::ExplicitPolicy),
            (process.kernel.is_hands_off(), Exclusion::KernelMoves),
        ];
        exclusions.into_iter().find_map(|(is_so, exclusion)| is_so.then_some(exclusion))
    }
}

/// The affinities of threads, each stored once.
struct Affinities<'a> {
    nodes: &'a Nodes,
    known: HashMap<Arc<Cpumask>, usize>,
    all: Vec<Affinity>,
}

impl Affinities<'_> {
    fn index(&mut self, cpus: Arc<Cpumask>) -> usize {
        if let Some(&index) = self.known.get(&cpus) {
            return index;
        }
        let index = self.all.len();
        self.all.push(self.nodes.affinity(&cpus));
        self.known.insert(cpus, index);
        index
    }
}
