//! Page placement: the stage of a round that reads access counts, and begins moves of single pages
//! and ranges to the nodes that use them: of spread processes, and of segments whose users are
//! apart (`segment_pages`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodeward_machine::{AccessBatch, Error, Machine, Process, Result};
use nodeward_model::{AccessSample, NodeId, Nodemask, Pid, Range, SegmentId};
use nodeward_mover::MemoryUsers;
use nodeward_policy::hot::{MissCosts, PageRoom};
use nodeward_policy::placement::{
    Decision, EntityId, Home, MemoryMove, Plan, Reason, SegmentDecision,
};

use super::Balancer;
use super::access_counts::Counted;
use super::cpu_budget::Activity;
use super::pending::PendingMove;
use super::process_table::ProcessState;
use super::range_order::{PageMove, SpreadMemory};
use super::report::Notice;
use super::round_state::RoundState;
use super::settings::AccessChoice;
use super::thread_homes::ThreadHomes;

/// The decisions that want accesses counted in a round.
#[derive(Default)]
pub struct Wanting<'a> {
    pub processes: BTreeMap<EntityId, &'a Decision>,
    pub segments: BTreeMap<SegmentId, &'a SegmentDecision>,
}

impl<'a> Wanting<'a> {
    fn of(plan: &'a Plan) -> Self {
        let processes = plan.decisions.iter().filter(|decision| decision.counts_wanted);
        let segments = plan.segments.iter().filter(|decision| decision.counts_wanted);
        Self {
            processes: processes.map(|decision| (decision.entity, decision)).collect(),
            segments: segments.map(|decision| (decision.segment, decision)).collect(),
        }
    }

    fn has(&self, counted: Counted) -> bool {
        match counted {
            Counted::Process(entity) => self.processes.contains_key(&entity),
            Counted::Segment(id) => self.segments.contains_key(&id),
        }
    }

    /// Returns the load of all processes and segments together, in millionths of a CPU.
    fn load_ppm(&self) -> u64 {
        let processes = self.processes.values().map(|decision| decision.numbers.load_ppm);
        processes.chain(self.segments.values().map(|decision| decision.load_ppm)).sum()
    }
}

impl Balancer {
    /// Enters the accesses to memory whose pages are to be placed, if the machine counts them, and
    /// begins the moves that they confirm.
    pub(super) fn place_pages(
        &mut self,
        machine: &dyn Machine,
        plan: &Plan,
        state: &mut RoundState,
    ) {
        // While the balancer stands back, what it costs to observe is not spent.
        let may_move = self.settings.rules.move_memory && !self.stands_back();
        let mut wanting = if may_move { Wanting::of(plan) } else { Wanting::default() };
        self.forget_others(&wanting);
        let now_ns = machine.now_ns();
        let is_resting = |counted| self.counts.is_resting(counted, now_ns);
        wanting.segments.retain(|&id, _| {
            !is_resting(Counted::Segment(id)) || self.is_moving_whole_segment(id, plan)
        });
        wanting.processes.retain(|&entity, _| {
            !is_resting(Counted::Process(entity))
                || self.is_moving_whole(entity, plan)
                || self.write_rounds.is_asked(entity)
        });
        let batch = self.observer.take();
        self.observe(machine, &wanting);
        if self.observer.kind().or(self.write_rounds.kind()).is_none() {
            self.counts.keep(|counted| !wanting.has(counted));
            state.notices.extend(self.miss_source(&wanting.processes));
            return;
        }
        let by_unknown_threads =
            batch.map(|batch| self.count(&batch, &wanting, plan)).unwrap_or_default();
        self.meter.lap(machine, Activity::Observing);
        for (&entity, decision) in &wanting.processes {
            let are_astray = self.see_thread_homes(entity);
            let is_blurred = are_astray && by_unknown_threads.contains(&entity);
            let moves = self.page_moves(machine, decision, plan, is_blurred);
            let took_ns = self.meter.lap(machine, Activity::Looking);
            self.budget.spend(took_ns);
            match moves {
                Ok(moves) => self.begin_page_moves(entity, moves),
                Err(error) => state.notices.extend(self.went_wrong(entity, error)),
            }
        }
        self.place_segment_pages(machine, &wanting.segments, plan);
        self.place_written_pages(machine, plan, &wanting.processes, state);
    }

    /// Forgets the counts of all memory that wants none any more.
    fn forget_others(&mut self, wanting: &Wanting) {
        self.counts.keep(|counted| wanting.has(counted));
        let is_wanting = |entity| wanting.processes.contains_key(&entity);
        self.processes
            .iter_mut()
            .filter(|(_, process)| !is_wanting(process.entity))
            .for_each(|(_, process)| process.thread_homes = ThreadHomes::default());
        self.write_rounds.keep(is_wanting);
    }

    /// Observes the processes whose pages are to be placed, those who use such segments, and no
    /// others, at the rate that the shortest of their periods needs. A process that is asked for
    /// its writers has samples enough.
    fn observe(&mut self, machine: &dyn Machine, wanting: &Wanting) {
        let pid = |entity: &EntityId| Some(self.processes.key(*entity)?.0);
        let observed =
            wanting.processes.keys().filter(|&&entity| !self.write_rounds.is_asked(entity));
        let mut pids: Vec<Pid> = observed.filter_map(pid).collect();
        pids.extend(wanting.segments.keys().flat_map(|&id| self.observed_users(id)));
        pids.sort_unstable();
        pids.dedup();
        let in_groups = wanting.processes.keys().map(|&entity| self.load_in_groups_ppm(entity));
        let cpus = (wanting.load_ppm() + in_groups.sum::<u64>()).div_ceil(1_000_000);
        let period = (self.counts.period_ns_min(machine.now_ns()), cpus);
        self.observer.observe(machine, self.settings.access, pids, period);
    }

    /// The load of those threads of a process that belong to groups, in millionths of a CPU.
    fn load_in_groups_ppm(&self, entity: EntityId) -> u64 {
        let process = self.processes.key(entity).and_then(|key| self.processes.get(key));
        let threads = process.into_iter().flat_map(|process| {
            process.threads().filter(|(thread, _)| process.part_of_thread(thread.tid).is_some())
        });
        threads.map(|(_, load)| load.wanted_ppm()).sum()
    }

    /// Returns the notice about processes that no source observes, of those of which it was not
    /// given before.
    fn miss_source(&mut self, wanting: &BTreeMap<EntityId, &Decision>) -> Option<Notice> {
        if self.settings.access == AccessChoice::Off {
            return None; // as the user wants it
        }
        let obstacle = self.observer.failure()?.to_owned();
        let mut pids = Vec::new();
        for ((pid, _), process) in self.processes.iter_mut() {
            if wanting.contains_key(&process.entity) && !process.told_no_source {
                process.told_no_source = true;
                pids.push(pid);
            }
        }
        (!pids.is_empty()).then_some(Notice::NoAccessSource { pids, obstacle })
    }

    /// Adds accesses to the counts of the processes and segments that own the pages. An access
    /// counts for the node where its thread belongs, or for that of its CPU if the thread is
    /// unknown. What was accessed before the counts began is dropped, because its time is unknown.
    /// Returns the processes with accesses by unknown threads.
    fn count(&mut self, batch: &AccessBatch, wanting: &Wanting, plan: &Plan) -> BTreeSet<EntityId> {
        let pid = |entity: &EntityId| Some((self.processes.key(*entity)?.0, *entity));
        let entities: BTreeMap<Pid, EntityId> = wanting.processes.keys().filter_map(pid).collect();
        self.counts.set_tick(batch.sample_ns);
        let in_segments = self.count_in_segments(&batch.samples, &wanting.segments, plan);
        let mut by_unknown_threads = BTreeSet::new();
        let others = batch.samples.iter().zip(in_segments).filter(|(_, is_counted)| !is_counted);
        for (sample, _) in others {
            let Some(&entity) = entities.get(&sample.pid) else { continue };
            let home = self.home_of_thread(entity, sample);
            if home.is_none() {
                by_unknown_threads.insert(entity);
            }
            if let Some(node) = home.or_else(|| self.node_of_cpu(sample)) {
                self.counts.add(Counted::Process(entity), sample.access, node);
            }
        }
        by_unknown_threads
    }

    /// Returns the moves of single pages of a process, by its counts. `is_blurred` says that these
    /// tell little about future accesses.
    fn page_moves(
        &mut self,
        machine: &dyn Machine,
        decision: &Decision,
        plan: &Plan,
        is_blurred: bool,
    ) -> Result<Vec<PageMove>> {
        let entity = decision.entity;
        let counted = Counted::Process(entity);
        let (at_ns, page_bytes) = (machine.now_ns(), machine.page_bytes());
        let is_moving = self.is_moving_whole(entity, plan);
        let counts = self.counts.of(counted, at_ns, page_bytes);
        if is_moving || is_blurred {
            counts.restart(at_ns, page_bytes);
        }
        if !counts.is_due(at_ns) || self.write_rounds.is_asked(entity) {
            return Ok(Vec::new());
        }
        let Some(spread) = self.spread_process(machine, decision, plan)? else {
            return Ok(Vec::new());
        };
        let moves = self.counts.of(counted, at_ns, page_bytes).place(machine, &spread, at_ns)?;
        self.ask_for_writers(machine, &spread, decision);
        Ok(moves)
    }

    /// Holds a process whose pages are to be placed; returns `None` if it is known no longer.
    pub(super) fn spread_process(
        &self,
        machine: &dyn Machine,
        decision: &Decision,
        plan: &Plan,
    ) -> Result<Option<SpreadMemory>> {
        let entity = decision.entity;
        let (Some(key), Some(home)) = (self.processes.key(entity), plan.homes.get(&entity)) else {
            return Ok(None);
        };
        let process = machine.open_process(key.0)?;
        if process.identity()?.started_ticks != key.1 {
            return Err(Error::Gone(key.0));
        }
        let limits = (decision.numbers.horizon_ns, decision.rooms.clone());
        let process = (process, MemoryUsers::OneProcess);
        Ok(Some(self.spread_memory(process, home.thread_nodes(), limits)))
    }

    /// Returns memory whose pages are to be placed on `nodes`. Moves must pay within `horizon_ns`,
    /// and `rooms` has the room of each node in base pages.
    pub(super) fn spread_memory(
        &self,
        (process, users): (Arc<dyn Process>, MemoryUsers),
        nodes: Nodemask,
        (horizon_ns, rooms): (u64, BTreeMap<NodeId, u64>),
    ) -> SpreadMemory {
        let rules = self.rules();
        SpreadMemory {
            process,
            users,
            nodes,
            horizon_ns,
            room: PageRoom::of_nodes(rooms),
            costs: MissCosts::typical(self.nodes.distances().cloned(), rules.page_ns),
            memory_bound_ppm: rules.memory_bound_ppm,
        }
    }

    pub(super) fn begin_page_moves(&mut self, entity: EntityId, moves: Vec<PageMove>) {
        let pending = |one: PageMove| {
            let order = MemoryMove {
                entity,
                from: one.from,
                to: one.to,
                pages_max: one.pages_max,
                gain_ns: one.saved_ns,
                cost_ns: one.cost_ns,
                reason: Reason::ByPage,
            };
            PendingMove::new(order, Some(one.ranges))
        };
        self.pending.extend(moves.into_iter().map(pending));
    }

    /// Lets memory be chosen again that was chosen and has not been moved.
    pub(super) fn release(&mut self, counted: Counted, ranges: Vec<Range>) {
        let ranges = match counted {
            Counted::Process(_) => ranges,
            Counted::Segment(id) => self.leaders_ranges(id, &ranges),
        };
        self.counts.release(counted, &ranges);
    }

    /// Returns the node where the thread of a sample belongs, if it is known: with its group, if it
    /// is in one.
    pub(super) fn home_of_thread(&self, entity: EntityId, sample: &AccessSample) -> Option<NodeId> {
        let process = self.processes.get(self.processes.key(entity)?)?;
        let tid = sample.tid?;
        self.home_with_group(process, tid).or_else(|| process.thread_homes.node_of(tid))
    }

    /// Returns the node where a thread is at home with its group, if it is in one.
    pub(super) fn home_with_group(&self, process: &ProcessState, tid: u32) -> Option<NodeId> {
        match self.homes.home(process.part_of_thread(tid)?.group)? {
            Home::Node(node) => Some(*node),
            Home::Spread(_) | Home::Interleave { .. } => None,
        }
    }

    /// Returns the node of the CPU of a sample, if it is known.
    pub(super) fn node_of_cpu(&self, sample: &AccessSample) -> Option<NodeId> {
        sample.access.accessor.node(|cpu| self.nodes.node_of(cpu))
    }

    /// Returns whether all misplaced memory of an entity is being moved home.
    fn is_moving_whole(&self, entity: EntityId, plan: &Plan) -> bool {
        let is_whole = |one: &PendingMove| one.entity() == entity && !one.is_of_pages();
        let is_planned = || plan.moves.iter().any(|order| order.entity == entity);
        self.pending.iter().any(is_whole) || is_planned()
    }

    /// Enters the nodes on which the threads of a process are. Returns whether too many threads
    /// were away from theirs, so that present accesses say little about future ones.
    fn see_thread_homes(&mut self, entity: EntityId) -> bool {
        let Some(process) = self.processes.by_number(entity) else { return false };
        let Some(seen) = &process.seen else { return false };
        let nodes = &self.nodes;
        let parts = &process.parts;
        let is_own = |tid: u32| !parts.iter().any(|part| part.threads.contains(&tid));
        let own = seen.threads.iter().filter(|it| is_own(it.tid));
        let on = own.filter_map(|it| Some((it.tid, nodes.node_of(it.cpu)?)));
        process.thread_homes.see(on);
        process.thread_homes.are_astray()
    }

    pub(super) fn went_wrong(&mut self, entity: EntityId, error: Error) -> Option<Notice> {
        let key = self.processes.key(entity)?;
        self.processes.get_mut(key)?.went_wrong(key, error)
    }
}
