//! The segments that several processes map: each once, with those who map it and where its memory
//! was. What one process maps alone is its own memory, and no segment here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use nodeward_model::{Name, NodeId, Nodemask, SegmentId};
use nodeward_policy::placement::{EntityId, Reason, SegmentDecision};

use super::mapped_segments::MappedSegment;
use super::process_key::ProcessKey;
use super::process_table::{ProcessState, ProcessTable};
use super::residency_sample::Sampling;
use super::stuck_pages::StuckPages;
use super::token_bucket::TokenBucket;

/// The record of a segment.
#[derive(Default)]
pub struct SegmentState {
    pub name: Name,
    /// Bytes of the segment that the process maps that maps most of it.
    pub bytes: u64,
    /// True if a memory policy binds any of the segment.
    pub is_bound: bool,
    /// The processes that map the segment, those first that use it most.
    pub mappers: Vec<Mapper>,
    /// Time of the last sample, by the machine's clock, and base pages by node.
    pub sample: Option<(u64, BTreeMap<NodeId, u64>)>,
    /// The time at which the segment's memory is to be sampled again.
    pub sampling: Sampling,
    /// The segment is being moved. It is sampled when the move has ended.
    pub is_moving: bool,
    /// Pages that refused to move.
    pub stuck: StuckPages,
    /// The rest of the segment's budget in this interval.
    pub bucket: TokenBucket,
    /// The process by whose addresses the accesses are counted.
    pub counted_by: Option<ProcessKey>,
    /// What was told of it last.
    told: Option<Reason>,
}

/// A process that maps a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapper {
    pub key: ProcessKey,
    pub entity: EntityId,
    /// CPU time that the process's threads had or waited for, in millionths of a CPU.
    pub wanted_ppm: u64,
    /// Number of bytes of the segment that the process maps.
    pub bytes: u64,
}

/// The segments by their ids.
#[derive(Default)]
pub struct SegmentTable {
    segments: BTreeMap<SegmentId, SegmentState>,
    /// True if any process maps a segment, alone or with others.
    is_any_known: bool,
    /// True if we may move pages that several processes map.
    pub moves_shared: bool,
    /// True if a segment was to be sampled in the last round and had to wait.
    pub is_sample_owed: bool,
}

impl SegmentTable {
    /// No segments yet, on a machine that lets us move pages of all or not.
    pub fn new(moves_shared: bool) -> Self {
        Self { moves_shared, ..Self::default() }
    }

    /// Takes in who maps what now. Returns the segments that are new: of a process that maps one
    /// alone it is own memory, until another maps it, too. Once it is a segment it stays one for as
    /// long as anybody maps it.
    pub fn see(&mut self, processes: &ProcessTable, elapsed_ns: u64) -> Vec<SegmentId> {
        let mut mapped: BTreeMap<SegmentId, Vec<(&MappedSegment, Mapper)>> = BTreeMap::new();
        for (key, process) in processes.iter() {
            for one in process.mapped.iter().flatten() {
                mapped.entry(one.id).or_default().push((one, mapper(key, process, one)));
            }
        }
        let mut earlier = std::mem::take(&mut self.segments);
        self.is_any_known = !mapped.is_empty();
        let mut new = Vec::new();
        for (id, by) in mapped {
            let known = earlier.remove(&id);
            if known.is_none() && by.len() < 2 {
                continue;
            }
            new.extend(known.is_none().then_some(id));
            let mut state = known.unwrap_or_default();
            state.see(by, elapsed_ns);
            self.segments.insert(id, state);
        }
        new
    }

    /// Returns whether any process is known to map a segment, alone or with others.
    pub fn is_any_known(&self) -> bool {
        self.is_any_known
    }

    /// The ids of all segments.
    pub fn ids(&self) -> BTreeSet<SegmentId> {
        self.segments.keys().copied().collect()
    }

    /// Returns all segments, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentId, &SegmentState)> {
        self.segments.iter().map(|(&id, state)| (id, state))
    }

    /// All segments, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (SegmentId, &mut SegmentState)> {
        self.segments.iter_mut().map(|(&id, state)| (id, state))
    }

    /// Returns the segment with this id.
    pub fn get(&self, id: SegmentId) -> Option<&SegmentState> {
        self.segments.get(&id)
    }

    /// Returns the segment with this id, to be changed.
    pub fn get_mut(&mut self, id: SegmentId) -> Option<&mut SegmentState> {
        self.segments.get_mut(&id)
    }

    /// The segments that a process maps.
    pub fn of<'a>(
        &'a self,
        process: &'a ProcessState,
    ) -> impl Iterator<Item = (SegmentId, &'a SegmentState)> {
        let mapped = process.mapped.iter().flatten();
        mapped.filter_map(|one| Some((one.id, self.segments.get(&one.id)?)))
    }
}

impl SegmentState {
    /// Returns the CPU time that all processes want that map the segment, in millionths of a CPU.
    pub fn wanted_ppm(&self) -> u64 {
        self.mappers.iter().map(|mapper| mapper.wanted_ppm).sum()
    }

    /// Returns the process that maps most of the segment, the oldest of several: it is likely to go
    /// on.
    pub fn leader(&self) -> Option<ProcessKey> {
        let leader = self.mappers.iter().max_by_key(|it| (it.bytes, Reverse(it.key)));
        leader.map(|mapper| mapper.key)
    }

    /// Returns the segment's base pages that cannot be moved, by node: those that stayed behind so
    /// far.
    pub fn fixed_pages(&self) -> BTreeMap<NodeId, u64> {
        let Some((_, pages)) = &self.sample else { return BTreeMap::new() };
        let stuck = |node: &NodeId| self.stuck.by_node.get(node).copied().unwrap_or(0);
        let fixed = pages.iter().map(|(node, &pages)| (*node, pages.min(stuck(node))));
        fixed.filter(|&(_, pages)| pages > 0).collect()
    }

    /// Notes the number of pages that a move off some nodes left behind, on all of its way so far.
    pub fn note_stuck(&mut self, from: &Nodemask, pages: u64) {
        self.stuck.note(from, pages, self.sample.as_ref().map(|(_, pages)| pages));
    }

    /// Notes what is told of it; whether that is new.
    pub fn tell(&mut self, decision: &SegmentDecision) -> bool {
        self.told.replace(decision.reason) != Some(decision.reason)
    }

    fn see(&mut self, by: Vec<(&MappedSegment, Mapper)>, elapsed_ns: u64) {
        let most = by.iter().max_by_key(|(one, _)| one.bytes);
        if let Some((one, _)) = most {
            (self.name, self.bytes) = (one.name.clone(), one.bytes);
        }
        self.is_bound = by.iter().any(|(one, _)| one.is_bound);
        self.mappers = by.into_iter().map(|(_, mapper)| mapper).collect();
        self.mappers.sort_by_key(|mapper| (Reverse(mapper.wanted_ppm), mapper.key));
        self.stuck.pass(elapsed_ns);
    }
}

fn mapper(key: ProcessKey, process: &ProcessState, one: &MappedSegment) -> Mapper {
    let wanted_ppm = process.wanted_ppm();
    Mapper { key, entity: process.entity, wanted_ppm, bytes: one.bytes }
}
