//! Acts on the decisions of a round: threads first, because that is cheap, then memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodeward_machine::{Error, Machine, Process, Result};
use nodeward_model::{AffinityOutcome, Range, SegmentId};
use nodeward_mover::MoveControl;
use nodeward_policy::placement::{EntityId, MemoryMove, Nudge, Plan, Rules};

use super::Balancer;
use super::access_counts::Counted;
use super::cpu_budget::Activity;
use super::group_part;
use super::journals::{JournalOrder, Journals, Subject};
use super::memory_mover::{MemoryMover, Moved, Portion};
use super::niceness;
use super::nodes::Nodes;
use super::pending::{PendingMove, stuck};
use super::pending_segment::PendingSegment;
use super::process_key::ProcessKey;
use super::process_table::{ProcessState, ProcessTable};
use super::report::{Done, Notice, Short};
use super::round_state::RoundState;
use super::sampling::own_memory;
use super::segment_table::SegmentTable;
use super::settings::BalanceSettings;
use super::token_bucket::TokenBucket;
use super::totals::{MoveSubject, Totals};
use super::user_buckets::UserBuckets;

/// The state of the balancer and the machine that the stage uses.
pub struct Actor<'a> {
    pub machine: &'a dyn Machine,
    pub nodes: &'a Nodes,
    pub settings: &'a BalanceSettings,
    /// True if the round acts; otherwise it only reports what it would do.
    pub acts: bool,
    /// True if a scheduler places threads.
    pub is_scheduled: bool,
    pub live: &'a MoveControl,
    pub processes: &'a mut ProcessTable,
    pub journals: &'a mut Journals,
    pub totals: &'a mut Totals,
    /// The budget of all processes together.
    pub bucket: &'a mut TokenBucket,
    pub user_buckets: &'a mut UserBuckets,
    /// Pending moves, the oldest first.
    pub pending: &'a mut Vec<PendingMove>,
    pub segments: &'a mut SegmentTable,
    /// Pending moves of segments, the oldest first.
    pub segment_moves: &'a mut Vec<PendingSegment>,
    pub round: u64,
    /// The rules, with the measured cost of moves.
    pub rules: &'a Rules,
    /// Time by the machine's clock at which the rest is left to the next round.
    pub until_ns: u64,
    pub held: BTreeMap<EntityId, Arc<dyn Process>>,
    pub done: BTreeMap<EntityId, Done>,
    pub segments_done: BTreeMap<SegmentId, Done>,
    pub notices: Vec<Notice>,
    /// Ranges that ended moves did not visit, by address for a process and by offset for a segment.
    pub unvisited: Vec<(Counted, Vec<Range>)>,
}

impl Actor<'_> {
    /// Carries out a plan. Returns the entities whose memory move ended, whether or not all of it
    /// came home.
    pub fn carry_out(&mut self, plan: &Plan) -> BTreeSet<EntityId> {
        if !self.acts {
            self.only_tell(plan);
            return BTreeSet::new();
        }
        let before: BTreeSet<_> = self.pending.iter().map(PendingMove::entity).collect();
        self.enqueue(plan);
        let nudges = if self.is_scheduled { &[] } else { &plan.nudges[..] };
        for nudge in nudges {
            self.attempt(nudge.entity, |actor, key| actor.nudge(key, nudge));
        }
        if !self.pending.is_empty() {
            self.machine.yield_to_waking_threads();
        }
        let began: BTreeSet<_> = self.pending.iter().map(PendingMove::entity).collect();
        let workers = self.workers_for(&began);
        for one in std::mem::take(self.pending) {
            self.go_on(one, workers);
        }
        let mut ended = &before | &began;
        self.pending.iter().for_each(|one| _ = ended.remove(&one.entity()));
        ended
    }

    /// Returns whether there is memory to move: of this plan, or of moves that go on.
    fn has_moves(&self, plan: &Plan) -> bool {
        let of_plan = !plan.moves.is_empty() || !plan.segment_moves.is_empty();
        of_plan || !self.pending.is_empty() || !self.segment_moves.is_empty()
    }

    fn only_tell(&mut self, plan: &Plan) {
        let by_page = std::mem::take(self.pending).into_iter().map(|one| one.order);
        for order in plan.moves.iter().cloned().chain(by_page) {
            self.done.entry(order.entity).or_default().pages_planned += order.pages_max;
        }
    }

    /// Appends the planned moves to the pending ones, and drops pending moves whose destination is
    /// no longer the home.
    fn enqueue(&mut self, plan: &Plan) {
        let new: BTreeSet<_> = plan.moves.iter().map(|order| order.entity).collect();
        let is_over = |one: &mut PendingMove| new.contains(&one.entity()) || !one.is_wanted(plan);
        for one in self.pending.extract_if(.., is_over).collect::<Vec<_>>() {
            self.done_of(one.entity()).short = Some(Short::NotWanted);
            self.end(&one);
        }
        let pending = |order: &MemoryMove| PendingMove::new(order.clone(), None);
        self.pending.extend(plan.moves.iter().map(pending));
    }

    /// Returns the number of workers that move memory of these entities, one entity after the
    /// other.
    fn workers_for(&mut self, entities: &BTreeSet<EntityId>) -> u32 {
        let wanted_ppm = |&entity: &EntityId| Some(self.processes.by_number(entity)?.wanted_ppm());
        self.nodes.workers(entities.iter().filter_map(wanted_ppm).sum())
    }

    /// Continues a pending move. The move stays pending or ends.
    fn go_on(&mut self, mut one: PendingMove, workers: u32) {
        let entity = one.entity();
        self.done_of(entity).pages_planned += one.left_pages;
        let goes_on = self.attempt(entity, |actor, key| actor.bring(key, &mut one, workers));
        if goes_on == Some(true) {
            self.done_of(entity).pages_pending += one.left_pages;
            self.pending.push(one);
        } else {
            self.end(&one);
        }
    }

    /// Enters the result of a move that ended.
    fn end(&mut self, one: &PendingMove) {
        self.journals.end(Subject::Process(one.entity()), self.live.is_stopped());
        self.unvisited.push((Counted::Process(one.entity()), one.unvisited()));
        let done = self.done_of(one.entity());
        let outcome = done.outcome.get_or_insert_default();
        outcome.add(one.order.pages_max, &one.account, done.short);
        let (subject, short) = (self.subject_of(one), self.done_of(one.entity()).short);
        self.totals.end_move(subject, short.map(Short::name));
    }

    /// Runs an operation on a process. An error concerns no other process: it becomes a notice.
    fn attempt<T>(
        &mut self,
        entity: EntityId,
        act: impl FnOnce(&mut Self, ProcessKey) -> Result<T>,
    ) -> Option<T> {
        let key = self.processes.key(entity)?;
        let process = self.processes.get_mut(key)?;
        if self.live.is_stopped() || process.denied.is_some() {
            return None;
        }
        let error = match act(self, key) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let done = self.done_of(entity);
        let is_short = done.pages_planned > done.pages_moved;
        done.short = done.short.or(is_short.then_some(Short::of(&error)));
        let process = self.processes.get_mut(key)?;
        self.notices.extend(process.went_wrong(key, error));
        None
    }

    /// Opens a handle on a process, if it is still the one that the decision is about.
    fn hold(
        &mut self,
        entity: EntityId,
        (pid, started_ticks): ProcessKey,
    ) -> Result<Arc<dyn Process>> {
        if let Some(process) = self.held.get(&entity) {
            return Ok(Arc::clone(process));
        }
        let process = self.machine.open_process(pid)?;
        if process.identity()?.started_ticks != started_ticks {
            return Err(Error::Gone(pid));
        }
        self.held.insert(entity, Arc::clone(&process));
        Ok(process)
    }

    fn nudge(&mut self, key: ProcessKey, nudge: &Nudge) -> Result<()> {
        let process = self.hold(nudge.entity, key)?;
        let cpus = self.nodes.cpus_of(&nudge.to);
        let placed = match self.settings.pin {
            true => process.pin(nudge.tid, &cpus)?,
            false => process.nudge(nudge.tid, &cpus)?,
        };
        self.totals.count_nudge(placed);
        let done = self.done_of(nudge.entity);
        *match placed {
            AffinityOutcome::Done => &mut done.threads_placed,
            AffinityOutcome::NotAllowed => &mut done.threads_not_allowed,
            AffinityOutcome::Changed => &mut done.threads_changed,
            AffinityOutcome::Asleep => &mut done.threads_asleep,
            AffinityOutcome::Gone => &mut done.threads_gone,
        } += 1;
        if self.settings.pin
            && placed == AffinityOutcome::Done
            && let Some(process) = self.processes.get_mut(key)
            && let Some(seen) = &process.seen
            && let Some(thread) = seen.threads.iter().find(|thread| thread.tid == nudge.tid)
        {
            process.pins.enter(thread, &cpus);
        }
        Ok(())
    }

    /// Moves some memory home; returns whether there is more to move.
    fn bring(&mut self, key: ProcessKey, one: &mut PendingMove, workers: u32) -> Result<bool> {
        let entity = one.entity();
        if !one.pays(self.rules) {
            self.done_of(entity).short = Some(Short::TooDear);
            return Ok(false);
        }
        let Some(process) = self.processes.get_mut(key) else { return Ok(false) };
        let of_user = self.user_buckets.bytes(process.user_of(entity));
        let bytes = self.bucket.bytes().min(process.bucket.bytes()).min(of_user);
        let may_pages = bytes / self.machine.page_bytes();
        if let Some(short) = self.must_wait(may_pages) {
            self.done_of(entity).short = Some(short);
            return Ok(true);
        }
        let moved = self.move_some(key, one, may_pages, workers)?;
        one.left_pages -= moved.account.moved.min(one.left_pages);
        one.cursor = moved.cursor;
        one.account.add(&moved.account);
        Ok(self.note_moved(key, one, moved))
    }

    /// Returns why no memory may be moved now, if so.
    pub fn must_wait(&self, may_pages: u64) -> Option<Short> {
        let is_late = || self.machine.now_ns() >= self.until_ns;
        if self.rules.forbid_moves(self.nodes.stalled_ppm()) {
            Some(Short::Stalled)
        } else if may_pages == 0 || is_late() {
            Some(Short::Budget)
        } else {
            None
        }
    }

    fn move_some(
        &mut self,
        key: ProcessKey,
        one: &PendingMove,
        may_pages: u64,
        workers: u32,
    ) -> Result<Moved> {
        let state = self.processes.get(key);
        let sample = state.and_then(|process| process.sample.as_ref());
        let tied = state.zip(sample).map(|(process, sample)| process.tied_ranges(&sample.bound));
        let known = sample.map(|sample| sample.pages_of(one.entity()));
        let on_way: u64 = one.order.from.iter().filter_map(|from| known?.get(&from)).sum();
        let process = self.hold(one.entity(), key)?;
        let tied = tied.unwrap_or_default();
        let (free, _) = own_memory(process.mappings()?, &tied, &self.segments.ids());
        let parts = self.processes.get(key).map_or(&[][..], |process| &process.parts);
        let (of_parts, own) = group_part::divide(free, parts);
        let of_part = of_parts.into_iter().find(|(part, _)| *part == one.entity());
        let free = of_part.map_or(own, |(_, mappings)| mappings);
        let free = free.into_iter().map(|mapping| mapping.range).collect();
        let (ranges, pages) = one.memory_within(free, self.machine.page_bytes());
        // If all memory that is away is to move, samples gave the number of pages. If there is room
        // for a part only, the move must stop at that part.
        let is_all = one.order.pages_max >= on_way;
        let portion = Portion {
            process: &process,
            ranges: &ranges,
            pages,
            from: &one.order.from,
            to: one.order.to,
            expected_pages: one.left_pages,
            pages_max: if is_all { may_pages } else { may_pages.min(one.left_pages) },
            is_all,
            move_shared: false,
        };
        let order = JournalOrder::of_process(&one.order);
        let journal = self.journals.journal(self.machine, &*process, &order, self.round)?;
        let Self { machine, nodes, rules, live, until_ns, .. } = *self;
        let stall_ns = self.settings.stall_ns;
        let mover = MemoryMover {
            machine,
            nodes,
            rules,
            live,
            journal,
            until_ns,
            stall_ns,
            workers,
            portion,
        };
        Ok(mover.run(one.cursor))
    }

    /// Enters what was moved; returns whether there is more to move.
    fn note_moved(&mut self, key: ProcessKey, one: &PendingMove, moved: Moved) -> bool {
        let Moved { account, totals, short, error, .. } = moved;
        let bytes = account.moved * self.machine.page_bytes();
        self.bucket.spend(bytes);
        self.journals.add(Subject::Process(one.entity()), &account);
        self.totals.add_moved(self.subject_of(one), &totals);
        if let Some(process) = self.processes.get_mut(key) {
            process.bucket.spend(bytes);
            self.user_buckets.spend(process.user_of(one.entity()), bytes);
            let sample = process.sample.as_ref();
            let pages = sample.map(|sample| sample.pages_of(one.entity()).clone());
            let stuck_pages = process.stuck_mut(one.entity());
            stuck_pages.note(&one.order.from, stuck(&one.account.skipped), pages.as_ref());
            if let Some(error) = error {
                self.notices.extend(process.failed_at(key, error));
            }
        }
        let done = self.done_of(one.entity());
        done.pages_moved += account.moved;
        for (&reason, &pages) in &account.skipped {
            *done.pages_skipped.entry(reason).or_default() += pages;
        }
        done.short = done.short.or(short);
        short == Some(Short::Budget)
    }

    fn subject_of(&self, one: &PendingMove) -> MoveSubject {
        let is_part = |(key, entity)| self.processes.get(key).is_some_and(|it| it.entity != entity);
        match self.processes.key(one.entity()).map(|key| (key, one.entity())) {
            _ if one.is_of_pages() => MoveSubject::Pages,
            Some(part) if is_part(part) => MoveSubject::Group,
            _ => MoveSubject::Process,
        }
    }

    fn done_of(&mut self, entity: EntityId) -> &mut Done {
        self.done.entry(entity).or_default()
    }
}

impl Balancer {
    /// Carries out a plan within the budgets for the time that passed.
    pub(super) fn act(
        &mut self,
        machine: &dyn Machine,
        plan: &Plan,
        live: &MoveControl,
        elapsed_ns: u64,
        state: &mut RoundState,
    ) {
        let (rules, acts) = (self.rules(), self.acts());
        let settings = &self.settings;
        let interval_ns = settings.interval_ns.saturating_mul(self.timing.factor);
        self.bucket.fill(settings.budget_bytes_per_s, elapsed_ns, interval_ns);
        for (_, process) in self.processes.iter_mut() {
            process.bucket.fill(settings.process_budget_bytes_per_s, elapsed_ns, interval_ns);
        }
        let (users, rate) = (self.groups.users(), settings.user_budget_bytes_per_s);
        self.user_buckets.fill(users, rate, elapsed_ns, interval_ns);
        for (_, segment) in self.segments.iter_mut() {
            segment.bucket.fill(settings.process_budget_bytes_per_s, elapsed_ns, interval_ns);
        }
        let mut actor = Actor {
            machine,
            nodes: &self.nodes,
            settings,
            acts,
            is_scheduled: self.schedule.is_used(),
            live,
            processes: &mut self.processes,
            journals: &mut self.journals,
            totals: &mut self.totals,
            bucket: &mut self.bucket,
            user_buckets: &mut self.user_buckets,
            pending: &mut self.pending,
            segments: &mut self.segments,
            segment_moves: &mut self.segment_moves,
            round: self.rounds,
            rules: &rules,
            until_ns: machine.now_ns().saturating_add(interval_ns / 8 * 7),
            held: BTreeMap::new(),
            done: BTreeMap::new(),
            segments_done: BTreeMap::new(),
            notices: Vec::new(),
            unvisited: Vec::new(),
        };
        let nice = settings.nice.filter(|_| acts && actor.has_moves(plan));
        (state.ended, state.segments_ended) = niceness::of_moves(machine, nice, || {
            (actor.carry_out(plan), actor.move_segments(plan))
        });
        state.notices.append(&mut actor.notices);
        let unvisited = std::mem::take(&mut actor.unvisited);
        state.done = actor.done;
        state.segments_done = actor.segments_done;
        for (counted, ranges) in unvisited {
            self.release(counted, ranges);
        }
        self.nodes.count_own_migrations(state.moved_pages());
        let took_ns = self.meter.lap(machine, Activity::Moving);
        self.page_cost.pass(elapsed_ns);
        self.page_cost.learn(state.moved_pages(), took_ns, self.settings.rules.page_ns);
    }
}

impl Short {
    /// Returns the reason for which an error let fewer pages move.
    pub fn of(error: &Error) -> Self {
        if error.is_gone() { Self::Gone } else { Self::Failed }
    }
}

impl ProcessState {
    /// Enters an error of a process; returns the notice about it, which is given once.
    pub fn went_wrong(&mut self, (pid, _): ProcessKey, error: Error) -> Option<Notice> {
        match error {
            Error::Gone(_) => None,
            Error::Denied { remedy: need, .. } => {
                let is_new = self.denied.replace(need.clone()).is_none();
                is_new.then(|| Notice::Denied { pids: vec![pid], need })
            }
            error => self.failed_at((pid, 0), error.to_string()),
        }
    }

    /// Notes that an operation on the process failed. Returns the notice about it the first time.
    pub fn failed_at(&mut self, (pid, _): ProcessKey, error: String) -> Option<Notice> {
        let is_new = !std::mem::replace(&mut self.has_failed, true);
        is_new.then_some(Notice::Failed { pid, error })
    }
}
