//! Moves segments: each page once for all who map it, through one of them (MPOL_MF_MOVE_ALL).

use std::collections::BTreeSet;
use std::sync::Arc;

use nodeward_machine::{Process, Result};
use nodeward_model::SegmentId;
use nodeward_policy::placement::{Plan, SegmentMove};

use super::access_counts::Counted;
use super::act::Actor;
use super::journals::JournalOrder;
use super::memory_mover::{MemoryMover, Moved, Portion};
use super::pending::{joined, stuck};
use super::pending_segment::PendingSegment;
use super::report::{Done, Notice, Short};
use super::segment_process::SegmentProcess;
use super::segment_table::SegmentState;
use super::totals::MoveSubject;

impl Actor<'_> {
    /// Moves segments as planned, and goes on with those that are on their way. Returns the
    /// segments that came to the end of it, wherever that is.
    pub fn move_segments(&mut self, plan: &Plan) -> BTreeSet<SegmentId> {
        if !self.acts {
            let by_page = std::mem::take(self.segment_moves).into_iter().map(|one| one.order);
            for order in plan.segment_moves.iter().cloned().chain(by_page) {
                self.done_of_segment(order.segment).pages_planned += order.pages_max;
            }
            return BTreeSet::new();
        }
        let segments = |pending: &[PendingSegment]| -> BTreeSet<_> {
            pending.iter().map(|one| one.order.segment).collect()
        };
        let before = segments(self.segment_moves);
        self.enqueue_segments(plan);
        let began = segments(self.segment_moves);
        let wanted = |id: &SegmentId| self.segments.get(*id).map(SegmentState::wanted_ppm);
        let workers = self.nodes.workers(began.iter().filter_map(wanted).sum());
        for one in std::mem::take(self.segment_moves) {
            self.go_on_with_segment(one, workers);
        }
        let left = segments(self.segment_moves);
        (&before | &began).difference(&left).copied().collect()
    }

    /// Puts planned moves behind pending ones, and drops moves to places where the segment no
    /// longer belongs.
    fn enqueue_segments(&mut self, plan: &Plan) {
        let new: BTreeSet<_> = plan.segment_moves.iter().map(|order| order.segment).collect();
        let is_over =
            |one: &mut PendingSegment| new.contains(&one.order.segment) || !one.is_wanted(plan);
        for one in self.segment_moves.extract_if(.., is_over).collect::<Vec<_>>() {
            self.done_of_segment(one.order.segment).short = Some(Short::NotWanted);
            self.end_segment(&one);
        }
        let pending = |order: &SegmentMove| PendingSegment::new(order.clone(), None);
        self.segment_moves.extend(plan.segment_moves.iter().map(pending));
    }

    /// Moves some more of a segment; it stays pending, or comes to its end.
    fn go_on_with_segment(&mut self, mut one: PendingSegment, workers: u32) {
        let id = one.order.segment;
        self.done_of_segment(id).pages_planned += one.left_pages;
        let goes_on = self.bring_segment(&mut one, workers).unwrap_or_else(|error| {
            self.done_of_segment(id).short = Some(Short::of(&error));
            false
        });
        if goes_on {
            self.done_of_segment(id).pages_pending += one.left_pages;
            self.segment_moves.push(one);
        } else {
            self.end_segment(&one);
        }
    }

    fn end_segment(&mut self, one: &PendingSegment) {
        let subject = JournalOrder::subject_of(&one.order);
        self.journals.end(subject, self.live.is_stopped());
        self.unvisited.push((Counted::Segment(one.order.segment), one.unvisited()));
        let done = self.done_of_segment(one.order.segment);
        let outcome = done.outcome.get_or_insert_default();
        outcome.add(one.order.pages_max, &one.account, done.short);
        let short = done.short;
        self.totals.end_move(MoveSubject::Segment, short.map(Short::name));
    }

    /// Moves some more of a segment; whether there is more to move.
    fn bring_segment(&mut self, one: &mut PendingSegment, workers: u32) -> Result<bool> {
        let id = one.order.segment;
        let Some(state) = self.segments.get(id) else {
            self.done_of_segment(id).short = Some(Short::Gone);
            return Ok(false);
        };
        if !one.pays(self.rules) {
            self.done_of_segment(id).short = Some(Short::TooDear);
            return Ok(false);
        }
        let bytes = self.bucket.bytes().min(state.bucket.bytes());
        let may_pages = bytes / self.machine.page_bytes();
        if let Some(short) = self.must_wait(may_pages) {
            self.done_of_segment(id).short = Some(short);
            return Ok(!self.live.is_stopped());
        }
        let Some(segment) = self.hold_segment(id) else {
            self.done_of_segment(id).short = Some(Short::Gone);
            return Ok(false);
        };
        let moved = self.move_some_of(&segment, one, may_pages, workers)?;
        one.left_pages -= moved.account.moved.min(one.left_pages);
        if moved.cursor > 0 {
            one.cursor = segment.offset_of(moved.cursor);
        }
        one.account.add(&moved.account);
        Ok(self.note_segment_moved(one, moved))
    }

    /// Holds a segment through those of its mappers on which we may act.
    fn hold_segment(&mut self, id: SegmentId) -> Option<Arc<SegmentProcess>> {
        let mappers = self.segments.get(id)?.mappers.iter().map(|mapper| mapper.key);
        let (held, errors) = SegmentProcess::open(self.machine, mappers, id);
        for (key, error) in errors {
            let process = self.processes.get_mut(key);
            self.notices.extend(process.and_then(|process| process.went_wrong(key, error)));
        }
        held.map(Arc::new)
    }

    fn move_some_of(
        &mut self,
        segment: &Arc<SegmentProcess>,
        one: &PendingSegment,
        may_pages: u64,
        workers: u32,
    ) -> Result<Moved> {
        let state = self.segments.get(one.order.segment);
        let known = state.and_then(|state| state.sample.as_ref());
        let on = |from| known.and_then(|(_, pages)| pages.get(&from));
        let on_way: u64 = one.order.from.iter().filter_map(on).sum();
        let ranges = segment.ranges_at(&one.parts(segment.end()));
        let (ranges, pages) = joined(&ranges, self.machine.page_bytes());
        let is_all = one.order.pages_max >= on_way && one.order.target.len() == 1;
        let name = state.map(|state| state.name.clone()).unwrap_or_default();
        let order = JournalOrder::of_segment(&one.order, &name);
        let journal = self.journals.journal(self.machine, &**segment, &order, self.round)?;
        let process: Arc<dyn Process> = Arc::<SegmentProcess>::clone(segment);
        let portion = Portion {
            process: &process,
            ranges: &ranges,
            pages,
            from: &one.order.from,
            to: one.order.to,
            expected_pages: one.left_pages,
            pages_max: if is_all { may_pages } else { may_pages.min(one.left_pages) },
            is_all,
            move_shared: true,
        };
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
        Ok(mover.run(0))
    }

    /// Notes what was moved; whether there is more.
    fn note_segment_moved(&mut self, one: &PendingSegment, moved: Moved) -> bool {
        let Moved { account, totals, short, error, .. } = moved;
        self.totals.add_moved(MoveSubject::Segment, &totals);
        let bytes = account.moved * self.machine.page_bytes();
        self.bucket.spend(bytes);
        self.journals.add(JournalOrder::subject_of(&one.order), &account);
        let stuck = stuck(&one.account.skipped);
        if let Some(state) = self.segments.get_mut(one.order.segment) {
            state.bucket.spend(bytes);
            state.note_stuck(&one.order.from, stuck);
        }
        if let Some(error) = error {
            let notice = self.segment_failed(one.order.segment, error);
            self.notices.extend(notice);
        }
        let done = self.done_of_segment(one.order.segment);
        done.pages_moved += account.moved;
        for (&reason, &pages) in &account.skipped {
            *done.pages_skipped.entry(reason).or_default() += pages;
        }
        done.short = done.short.or(short);
        short == Some(Short::Budget)
    }

    /// Notes an error about a segment at the process that uses the segment most. Returns the notice
    /// about it the first time.
    fn segment_failed(&mut self, id: SegmentId, error: String) -> Option<Notice> {
        let key = self.segments.get(id)?.mappers.first()?.key;
        self.processes.get_mut(key)?.failed_at(key, error)
    }

    fn done_of_segment(&mut self, segment: SegmentId) -> &mut Done {
        self.segments_done.entry(segment).or_default()
    }
}
