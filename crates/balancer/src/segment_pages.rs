//! Ranges of segments: where the users of a segment are at home on several nodes, each range that
//! one node uses goes to that node.
//!
//! A segment has other addresses in each process that maps it. Its accesses are counted, and its
//! ranges chosen, by the addresses of one of them, the *leader*; what moves is told by offsets in
//! the segment. With another leader the counts begin anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{Access, AccessSample, NodeId, Pid, Range, SegmentId};
use nodeward_mover::MemoryUsers;
use nodeward_policy::placement::{EntityId, Home, Plan, Reason, SegmentDecision, SegmentMove};

use super::Balancer;
use super::access_counts::Counted;
use super::cpu_budget::Activity;
use super::mapped_segments::MappedSegment;
use super::pending_segment::PendingSegment;
use super::process_key::ProcessKey;
use super::range_order::PageMove;
use super::segment_process::SegmentProcess;

/// Users of a segment that are observed, at most: those that use CPUs most.
const OBSERVED_MAX: usize = 64;

impl Balancer {
    /// Returns the users of a segment that are observed.
    pub(super) fn observed_users(&self, id: SegmentId) -> impl Iterator<Item = Pid> {
        let least = u64::from(self.settings.rules.nudge_ppm_min);
        let mappers = self.segments.get(id).into_iter().flat_map(|state| &state.mappers);
        let users = mappers.filter(move |mapper| mapper.wanted_ppm >= least);
        users.take(OBSERVED_MAX).map(|mapper| mapper.key.0)
    }

    /// Counts the accesses to these segments, each for the node where its process is at home.
    /// Returns which samples were accesses to them.
    pub(super) fn count_in_segments(
        &mut self,
        samples: &[AccessSample],
        wanting: &BTreeMap<SegmentId, &SegmentDecision>,
        plan: &Plan,
    ) -> Vec<bool> {
        let users = self.users(wanting);
        let mut is_counted = Vec::with_capacity(samples.len());
        for sample in samples {
            let user = users.get(&sample.pid);
            let place = user.and_then(|&user| self.place_in_segment(user, sample, wanting));
            is_counted.push(place.is_some());
            if let (Some(&(_, entity)), Some((id, Some(address)))) = (user, place)
                && let Some(node) = self.node_of_user(entity, sample, plan)
            {
                let access = Access { address, ..sample.access };
                self.counts.add(Counted::Segment(id), access, node);
            }
        }
        is_counted
    }

    /// Returns the processes that map wanted segments.
    fn users(
        &self,
        wanting: &BTreeMap<SegmentId, &SegmentDecision>,
    ) -> BTreeMap<Pid, (ProcessKey, EntityId)> {
        let states = wanting.keys().filter_map(|&id| self.segments.get(id));
        let mappers = states.flat_map(|state| &state.mappers);
        mappers.map(|mapper| (mapper.key.0, (mapper.key, mapper.entity))).collect()
    }

    /// Returns the segment that was accessed, and the leader's address of the access if it has one.
    fn place_in_segment(
        &self,
        (user, _): (ProcessKey, EntityId),
        sample: &AccessSample,
        wanting: &BTreeMap<SegmentId, &SegmentDecision>,
    ) -> Option<(SegmentId, Option<u64>)> {
        let mapped = self.processes.get(user)?.mapped.iter().flatten();
        let place = |one: &MappedSegment| Some((one.id, one.offset_of(sample.access.address)?));
        let (id, offset) = mapped.filter(|one| wanting.contains_key(&one.id)).find_map(place)?;
        let address = self.mapped_by_leader(id).and_then(|leader| leader.address_of(offset));
        Some((id, address))
    }

    /// Returns the node for which an access counts.
    fn node_of_user(&self, entity: EntityId, sample: &AccessSample, plan: &Plan) -> Option<NodeId> {
        let process = self.processes.key(entity).and_then(|key| self.processes.get(key));
        let with_group =
            process.zip(sample.tid).and_then(|(it, tid)| self.home_with_group(it, tid));
        match plan.homes.get(&entity) {
            _ if with_group.is_some() => with_group,
            Some(Home::Node(node)) => Some(*node),
            _ => self.home_of_thread(entity, sample).or_else(|| self.node_of_cpu(sample)),
        }
    }

    /// Returns how the leader maps a segment.
    fn mapped_by_leader(&self, id: SegmentId) -> Option<&MappedSegment> {
        let leader = self.segments.get(id)?.counted_by?;
        self.processes.get(leader)?.mapped.iter().flatten().find(|one| one.id == id)
    }

    /// Returns where the leader maps parts of a segment that are given by offsets.
    pub(super) fn leaders_ranges(&self, id: SegmentId, parts: &[Range]) -> Vec<Range> {
        let Some(leader) = self.mapped_by_leader(id) else { return Vec::new() };
        let range = |part: &Range| {
            let start = leader.address_of(part.start)?;
            Some(Range::new(start, start.checked_add(part.bytes())?))
        };
        parts.iter().filter_map(range).collect()
    }

    /// Begins the moves of ranges that the counts of segments confirm.
    pub(super) fn place_segment_pages(
        &mut self,
        machine: &dyn Machine,
        wanting: &BTreeMap<SegmentId, &SegmentDecision>,
        plan: &Plan,
    ) {
        for decision in wanting.values() {
            let moves = self.segment_page_moves(machine, decision, plan).unwrap_or_else(|error| {
                tracing::debug!(%error, segment = %decision.segment, "its ranges are not placed");
                Vec::new()
            });
            let took_ns = self.meter.lap(machine, Activity::Looking);
            self.budget.spend(took_ns);
            self.segment_moves.extend(moves);
        }
    }

    fn segment_page_moves(
        &mut self,
        machine: &dyn Machine,
        decision: &SegmentDecision,
        plan: &Plan,
    ) -> Result<Vec<PendingSegment>> {
        let id = decision.segment;
        let (at_ns, page_bytes) = (machine.now_ns(), machine.page_bytes());
        let is_moving = self.is_moving_whole_segment(id, plan);
        let has_new_leader = self.has_new_leader(id);
        let counts = self.counts.of(Counted::Segment(id), at_ns, page_bytes);
        if has_new_leader {
            counts.restart_elsewhere(at_ns, page_bytes);
        } else if is_moving {
            counts.restart(at_ns, page_bytes);
        }
        if !counts.is_due(at_ns) {
            return Ok(Vec::new());
        }
        let Some(segment) = self.hold_through_leader(machine, id) else { return Ok(Vec::new()) };
        let limits = (decision.horizon_ns, decision.rooms.clone());
        let process: Arc<dyn Process> = Arc::<SegmentProcess>::clone(&segment);
        let process = (process, MemoryUsers::All);
        let spread = self.spread_memory(process, decision.nodes.clone(), limits);
        let counts = self.counts.of(Counted::Segment(id), at_ns, page_bytes);
        let moves = counts.place(machine, &spread, at_ns)?;
        Ok(moves.into_iter().map(|one| pending(decision, &segment, one)).collect())
    }

    pub(super) fn is_moving_whole_segment(&self, id: SegmentId, plan: &Plan) -> bool {
        let is_whole = |one: &PendingSegment| one.order.segment == id && one.ranges.is_none();
        let is_planned = || plan.segment_moves.iter().any(|order| order.segment == id);
        self.segment_moves.iter().any(is_whole) || is_planned()
    }

    /// Enters the leader of a segment; returns whether it is another one than before.
    fn has_new_leader(&mut self, id: SegmentId) -> bool {
        let Some(state) = self.segments.get_mut(id) else { return false };
        let leader = state.leader();
        std::mem::replace(&mut state.counted_by, leader) != leader
    }

    /// Holds a segment by the addresses of its leader; `None` if that is gone.
    fn hold_through_leader(
        &self,
        machine: &dyn Machine,
        id: SegmentId,
    ) -> Option<Arc<SegmentProcess>> {
        let state = self.segments.get(id)?;
        let leader = state.counted_by?;
        let others = state.mappers.iter().map(|mapper| mapper.key).filter(|&key| key != leader);
        let (held, _) = SegmentProcess::open(machine, [leader].into_iter().chain(others), id);
        held.filter(|held| held.is_led_by(leader)).map(Arc::new)
    }
}

/// Returns the move of ranges of a segment, which are given by addresses of its leader.
fn pending(decision: &SegmentDecision, segment: &SegmentProcess, one: PageMove) -> PendingSegment {
    let order = SegmentMove {
        segment: decision.segment,
        from: one.from,
        to: one.to,
        target: decision.nodes.clone(),
        pages_max: one.pages_max,
        gain_ns: one.saved_ns,
        cost_ns: one.cost_ns,
        reason: Reason::ByPage,
    };
    PendingSegment::new(order, Some(segment.offsets_of(&one.ranges)))
}
