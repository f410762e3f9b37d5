//! The input of a decision, made from the tables of processes and nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nodeward_model::{Cpumask, Nodemask, Pid, ProcessSnapshot, SegmentId, ThreadSnapshot};
use nodeward_policy::kernel_moves::DECIDES_NS;
use nodeward_policy::placement::{
    Affinity, Entity, EntityId, Exclusion, KernelPreference, Segment, SegmentExclusion,
    SegmentUser, Snapshot, Target, Thread,
};

use super::group_part::GroupPart;
use super::group_table::{GroupState, GroupTable};
use super::nodes::Nodes;
use super::process_table::{ProcessState, ProcessTable};
use super::segment_table::{SegmentState, SegmentTable};
use super::thread_load::ThreadLoad;

/// The tables from which a snapshot is made.
pub struct Tables<'a> {
    pub nodes: &'a Nodes,
    pub processes: &'a ProcessTable,
    pub excluded: &'a Excluded,
    pub segments: &'a SegmentTable,
    pub groups: &'a GroupTable,
    /// True if decisions of the kernel's NUMA balancing stand.
    pub kernel_balances: bool,
    /// The nodes that are kept empty.
    pub keep_empty: &'a Nodemask,
    /// Whether what is in no group is left alone.
    pub groups_only: bool,
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
        let mut of_groups = BTreeMap::new();
        for (_, process) in self.processes.iter() {
            let Some(seen) = &process.seen else { continue };
            let exclusion = self.excluded.of(process);
            if exclusion.is_some() || !is_too_early(process) {
                for part in &process.parts {
                    let entity = self.part(process, part, seen, &mut affinities);
                    let group = of_groups.entry(part.group).or_insert_with(Vec::new);
                    group.push(Entity { exclusion, ..entity });
                }
                let exclusion = exclusion.or_else(|| self.in_groups_only(process));
                entities.push(Entity { exclusion, ..self.entity(process, seen, &mut affinities) });
            } else {
                others_ppm += process.wanted_ppm();
            }
        }
        entities.extend(of_groups.into_iter().map(|(group, parts)| self.group(group, parts)));
        Snapshot {
            at_ns,
            page_bytes,
            nodes: self.nodes.states_with(self.keep_empty),
            stalled_ppm: self.nodes.stalled_ppm(),
            distances: self.nodes.distances().cloned(),
            affinities: affinities.all,
            kernel_balances: self.kernel_balances,
            entities,
            segments: self.segments.iter().filter_map(|one| self.segment(one)).collect(),
            others_ppm,
        }
    }

    /// Returns the entity of a process, without the threads and memory that belong to groups.
    fn entity(
        &self,
        process: &ProcessState,
        seen: &ProcessSnapshot,
        affinities: &mut Affinities<'_>,
    ) -> Entity {
        let is_own = |thread: &ThreadSnapshot| process.part_of_thread(thread.tid).is_none();
        let touching = process.parts.iter().filter(|part| part.has_touched());
        let touching: Vec<_> = touching.map(|part| part.group).collect();
        let target = match touching.is_empty() {
            true => Target::Anywhere,
            false => Target::WithGroups(touching),
        };
        Entity {
            run_ns: seen.cpu_time_ns,
            children_ns: seen.children_cpu_time_ns,
            threads: self.threads(process, &is_own, affinities),
            target,
            ..self.memory(process, process.entity, seen)
        }
    }

    /// Returns the entity of the part of a process that belongs to a group.
    fn part(
        &self,
        process: &ProcessState,
        part: &GroupPart,
        seen: &ProcessSnapshot,
        affinities: &mut Affinities<'_>,
    ) -> Entity {
        let is_its = |thread: &ThreadSnapshot| part.has_thread(thread);
        let own = seen.threads.iter().filter(|thread| is_its(thread));
        Entity {
            run_ns: own.map(|thread| thread.cpu_time_ns).sum(),
            threads: self.threads(process, &is_its, affinities),
            ..self.memory(process, part.entity, seen)
        }
    }

    /// A group of these parts. Those that must be left alone are no parts of it, unless all are.
    fn group(&self, group: EntityId, parts: Vec<Entity>) -> Entity {
        let target = self.groups.get(group).map(GroupState::target).unwrap_or_default();
        let (left, free): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part.exclusion.is_some());
        let all = if free.is_empty() { left } else { free };
        let mut whole = all.into_iter().reduce(join).unwrap_or_default();
        (whole.id, whole.target) = (group, target);
        whole
    }

    /// Returns an exclusion for what of a process is in no group.
    fn in_groups_only(&self, process: &ProcessState) -> Option<Exclusion> {
        let left_out = self.groups_only.then_some(Exclusion::Excluded);
        left_out.or_else(|| Self::is_grouped(process))
    }

    /// Returns an exclusion for a process all of whose threads belong to groups; `None` if some
    /// threads do not, or if its memory goes to the groups that use it.
    fn is_grouped(process: &ProcessState) -> Option<Exclusion> {
        let mut threads = process.threads().map(|(thread, _)| thread.tid);
        let is_grouped = !process.parts.is_empty()
            && !process.parts.iter().any(GroupPart::has_touched)
            && threads.all(|tid| process.part_of_thread(tid).is_some());
        is_grouped.then_some(Exclusion::Grouped)
    }

    /// The threads of a process that are meant.
    fn threads(
        &self,
        process: &ProcessState,
        is_meant: &dyn Fn(&ThreadSnapshot) -> bool,
        affinities: &mut Affinities<'_>,
    ) -> Vec<Thread> {
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
        process.threads().filter(|(it, _)| is_meant(it)).filter_map(thread).collect()
    }

    /// Returns an entity with the memory of a process, or of a part of it.
    fn memory(&self, process: &ProcessState, entity: EntityId, seen: &ProcessSnapshot) -> Entity {
        let sample = process.sample.as_ref();
        Entity {
            id: entity,
            pages: sample.map(|sample| sample.pages_of(entity).clone()).unwrap_or_default(),
            pages_at_ns: sample.map_or(0, |sample| sample.at_ns),
            fixed_pages: process.fixed_pages(entity),
            may_hold: seen.memory_nodes.clone(),
            ..Entity::default()
        }
    }
}

/// Joins two parts of a group into one.
fn join(mut a: Entity, b: Entity) -> Entity {
    a.run_ns = a.run_ns.saturating_add(b.run_ns);
    a.threads.extend(b.threads);
    for (all, part) in [(&mut a.pages, b.pages), (&mut a.fixed_pages, b.fixed_pages)] {
        for (node, pages) in part {
            *all.entry(node).or_default() += pages;
        }
    }
    // It differs if that of any part does.
    a.pages_at_ns = a.pages_at_ns.wrapping_add(b.pages_at_ns);
    a.may_hold = a.may_hold.and(&b.may_hold);
    a
}

impl Tables<'_> {
    /// Returns a segment for the decision; `None` if it was not sampled.
    fn segment(&self, (id, state): (SegmentId, &SegmentState)) -> Option<Segment> {
        let (pages_at_ns, pages) = state.sample.clone()?;
        Some(Segment {
            id,
            users: self.users(id, state),
            pages,
            pages_at_ns,
            fixed_pages: state.fixed_pages(),
            may_hold: self.held_by_all(state),
            exclusion: self.segment_exclusion(state),
        })
    }

    /// Returns the processes and groups whose threads may use a segment. If the segment belongs to
    /// groups, only these groups use it.
    fn users(&self, id: SegmentId, state: &SegmentState) -> Vec<SegmentUser> {
        let mut users: BTreeMap<EntityId, (u64, bool)> = BTreeMap::new();
        for process in state.mappers.iter().filter_map(|mapper| self.processes.get(mapper.key)) {
            let one = process.mapped.iter().flatten().find(|one| one.id == id);
            let mut rest_ppm = process.wanted_ppm();
            for part in &process.parts {
                let own = process.threads().filter(|(thread, _)| part.has_thread(thread));
                let load_ppm: u64 = own.map(|(_, load)| load.wanted_ppm()).sum();
                rest_ppm -= load_ppm;
                let (all_ppm, is_owner) = users.entry(part.group).or_default();
                *all_ppm += load_ppm;
                *is_owner |= one.is_some_and(|one| part.has_segment(one));
            }
            users.entry(process.entity).or_default().0 += rest_ppm;
        }
        let has_owner = users.values().any(|(_, is_owner)| *is_owner);
        let counts = |(_, (_, is_owner)): &(EntityId, (u64, bool))| *is_owner || !has_owner;
        let user = |(entity, (load_ppm, _))| SegmentUser { entity, load_ppm };
        users.into_iter().filter(counts).map(user).collect()
    }

    /// Returns the nodes of which every process that maps a segment may have memory.
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
            (self.groups_only, SegmentExclusion::Excluded),
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

    /// Returns the reason for which a process is left alone, if it is.
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
