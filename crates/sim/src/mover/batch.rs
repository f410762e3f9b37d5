//! Executes the steps of batches as operations of a kernel thread.

use std::collections::VecDeque;

use nodeward_migrate::{Batch, BatchShape, BatchStep, CopySlice, FolioRun, RefusedFolio};
use nodeward_model::SkipReason;
use nodeward_scenario::Bug;

use super::copy::{Part, cut_bytes, parts};
use super::folios::{Seat, Way};
use super::{Folio, Moved, Outcome};
use crate::space::SpaceId;
use crate::task::{Op, Spent, TaskId};
use crate::world::World;

/// Progress of a job, batch by batch.
pub struct Drive {
    space: SpaceId,
    to: usize,
    attempts: u32,
    /// Folios that still have to move, each with its index in the job.
    queue: VecDeque<(usize, Folio)>,
    seats: Vec<Seat>,
    batch: Batch,
    refused: Vec<RefusedFolio>,
    stage: Stage,
    /// Start time and kind of the present step.
    step: Option<(u64, Spent)>,
    moved: Moved,
}

/// Action to take before the batch is asked for its next step.
enum Stage {
    /// Begin the next batch.
    Load,
    /// Nothing.
    Ask,
    /// The mover copies this part.
    Copy(Part),
    /// Parts that still go to helpers, and whether the time to hand over the next one has passed.
    Dispatch(VecDeque<Part>, bool),
    /// Wait for helpers.
    Await,
    /// Parts that go to the copy engine once it is set up.
    Engine(VecDeque<Part>),
    /// The copies of these folios become visible.
    Land(Vec<FolioRun>),
    /// The originals of these folios become visible again.
    PutBack(Vec<FolioRun>),
}

/// Result of a step of the batch: time to spend, or the end.
enum Todo {
    Busy(Spent, u64, Stage),
    End,
}

impl Drive {
    /// Creates a drive to a node, without folios.
    pub fn new(space: SpaceId, to: usize, attempts: u32) -> Self {
        let shape = shape(0, 1, 1, attempts);
        Self {
            space,
            to,
            attempts,
            queue: VecDeque::new(),
            seats: Vec::new(),
            batch: Batch::new(shape),
            refused: Vec::new(),
            stage: Stage::Load,
            step: None,
            moved: Moved::default(),
        }
    }

    /// Adds folios.
    pub fn add(&mut self, folios: Vec<Folio>) {
        let first = self.moved.outcomes.len();
        let moved = (0..folios.len()).map(|_| Outcome::Moved); // until one of its pages is not
        self.moved.outcomes.extend(moved);
        self.queue.extend((first..).zip(folios));
    }

    /// Returns the results of all folios since the last call.
    pub fn take(&mut self) -> Moved {
        std::mem::take(&mut self.moved)
    }

    /// Returns the next operation, or `None` when no folio is left.
    pub fn next(&mut self, world: &mut World, task: TaskId) -> Option<Op> {
        if let Some((began_ns, spent)) = self.step.take() {
            self.moved.step_ns[spent as usize] += world.now_ns - began_ns;
        }
        let op = loop {
            if let Some(op) = self.go_on(world, task) {
                break op;
            }
            if self.queue.is_empty() && matches!(self.stage, Stage::Load) {
                return None;
            }
        };
        let spent = match op {
            Op::Busy(spent, _) => spent,
            _ => Spent::Copy,
        };
        self.step = Some((world.now_ns, spent));
        Some(op)
    }

    /// Executes the present stage. Returns `None` if that takes no time.
    fn go_on(&mut self, world: &mut World, task: TaskId) -> Option<Op> {
        let way = Way { cpu: world.tasks[task as usize].cpu, space: self.space, to: self.to };
        match std::mem::replace(&mut self.stage, Stage::Ask) {
            Stage::Load => self.load(world),
            Stage::Ask => self.ask(world, &way),
            Stage::Copy(mut part) => {
                let copying = part.pop()?;
                self.stage = Stage::Copy(part);
                Some(Op::Copy(copying))
            }
            Stage::Dispatch(parts, ready) => self.dispatch(world, task, parts, ready),
            Stage::Await if world.helpers_of(task) > 0 => {
                self.stage = Stage::Await;
                Some(Op::Wait)
            }
            Stage::Await => match world.machine.params.dma_channels {
                0 => busy(Spent::Copy, world.machine.params.join_ns),
                _ => None,
            },
            Stage::Engine(parts) => {
                parts.into_iter().for_each(|part| world.give_to_engine(task, part));
                self.stage = Stage::Await;
                None
            }
            Stage::Land(runs) => {
                let ns = world.land(&way, &mut self.seats, &runs, &mut self.refused);
                busy(Spent::Map, ns)
            }
            Stage::PutBack(runs) => {
                let ns = world.put_back_folios(&way, &mut self.seats, &runs, &mut self.refused);
                busy(Spent::Map, ns)
            }
        }
    }

    /// Fills the next batch with as many folios of one size as may go together.
    fn load(&mut self, world: &mut World) -> Option<Op> {
        self.stage = Stage::Load;
        let ns = self.split_first(world);
        if ns > 0 {
            return busy(Spent::Unmap, ns);
        }
        self.seats.clear();
        let most = world.machine.params.batch_pages.max(1);
        let mut pages = 0;
        while let Some((_, folio)) = self.queue.front() {
            let size = folio.len();
            let alike = self.seats.first().is_none_or(|first| first.folio.len() == size);
            let is_split = pages > 0 && self.splits(world, folio);
            let is_full = pages + size > most || self.seats.len() == Batch::PAGES_MAX as usize;
            if pages > 0 && is_full || !alike || is_split {
                break;
            }
            let Some((index, folio)) = self.queue.pop_front() else { break };
            let byte = world.folio_byte(self.space, &folio);
            if byte.node() == Some(self.to) && !byte.is_in_flight() {
                self.note(index, folio.len(), Outcome::AlreadyThere);
                continue;
            }
            pages += size;
            let huge = world.is_huge_folio(self.space, &folio);
            let why = SkipReason::Interrupted;
            let (from, flight) = (self.to, 0);
            self.seats.push(Seat { index, folio, huge, from, flight, why, there: false });
        }
        let (first, params) = (self.seats.first()?, &world.machine.params);
        let cut_bytes = cut_bytes(params, &self.seats);
        let cuts = first.folio.len() * params.page_bytes / cut_bytes;
        let mut shape = shape(self.seats.len(), cuts, 1, self.attempts);
        shape.page_bytes = cut_bytes;
        shape.copiers = world.copiers(self.to) as u32;
        self.batch.reset(shape);
        self.refused.clear();
        self.stage = Stage::Ask;
        None
    }

    /// Returns whether a folio has to be split before it moves, or was split already.
    fn splits(&self, world: &World, folio: &Folio) -> bool {
        let whole = world.machine.params.huge_migration != 0;
        folio.len() > 1 && !(whole && world.is_whole_folio(self.space, folio))
    }

    /// Splits the first folio if this kernel does not move huge pages. The cost is assumed to be
    /// that of moving a huge page elsewhere, which is a guess.
    fn split_first(&mut self, world: &mut World) -> u64 {
        let Some((_, folio)) = self.queue.front() else { return 0 };
        if !self.splits(world, folio) {
            return 0;
        }
        let Some((index, folio)) = self.queue.pop_front() else { return 0 };
        let single = |page| (index, Folio { region: folio.region, pages: page..page + 1 });
        folio.pages.clone().rev().for_each(|page| self.queue.push_front(single(page)));
        if !world.is_huge_folio(self.space, &folio) {
            return 0;
        }
        let byte = world.folio_byte(self.space, &folio);
        let region = &mut world.spaces[self.space].regions[folio.region];
        region.set(folio.pages.start..folio.pages.start + 1, byte);
        world.machine.params.huge_move_ns
    }

    /// Asks the batch for its next step and begins it.
    fn ask(&mut self, world: &mut World, way: &Way) -> Option<Op> {
        let Self { batch, seats, refused, .. } = self;
        let step = batch.next(refused);
        refused.clear();
        let todo = match step {
            BatchStep::Unmap(runs) => {
                let ns = world.unmap_folios(way, seats, runs, refused);
                Todo::Busy(Spent::Unmap, ns, Stage::Ask)
            }
            BatchStep::Flush => {
                let entries = u64::from(batch.unmapped_folios());
                Todo::Busy(Spent::Flush, world.flush(way.cpu, way.space, entries), Stage::Ask)
            }
            BatchStep::Copy(slices) => {
                world.refuse_held(way, seats, slices, refused);
                copy(world, way, seats, slices)
            }
            BatchStep::Map(runs) => {
                let ns = world.map_ns(way, seats, runs, true);
                Todo::Busy(Spent::Map, ns, Stage::Land(runs.to_vec()))
            }
            BatchStep::PutBack(runs) => {
                let ns = world.map_ns(way, seats, runs, false);
                Todo::Busy(Spent::Map, ns, Stage::PutBack(runs.to_vec()))
            }
            BatchStep::End(_) => Todo::End,
        };
        match todo {
            Todo::Busy(spent, ns, then) => {
                self.stage = then;
                busy(spent, ns)
            }
            Todo::End => {
                self.end(world);
                self.stage = Stage::Load;
                None
            }
        }
    }

    /// Hands parts to helpers, one after the other.
    fn dispatch(
        &mut self,
        world: &mut World,
        task: TaskId,
        mut parts: VecDeque<Part>,
        ready: bool,
    ) -> Option<Op> {
        if ready && let Some(part) = parts.pop_front() {
            world.give_to_helper(task, self.to, part);
        }
        if parts.is_empty() {
            self.stage = Stage::Await;
            return None;
        }
        self.stage = Stage::Dispatch(parts, true);
        busy(Spent::Copy, world.machine.params.dispatch_ns)
    }

    /// Records the outcome of each folio of the batch.
    fn end(&mut self, world: &World) {
        let mut twice = world.has_bug(Bug::DoubleCount);
        for (seat, number) in std::mem::take(&mut self.seats).into_iter().zip(0..) {
            let outcome = match self.batch.is_moved(number) {
                true => Outcome::Moved,
                false if seat.there => Outcome::AlreadyThere,
                false => Outcome::Skipped(seat.why),
            };
            self.note(seat.index, seat.folio.len(), outcome);
            if outcome == Outcome::Moved && std::mem::take(&mut twice) {
                self.note(seat.index, seat.folio.len(), outcome);
            }
        }
    }

    fn note(&mut self, index: usize, pages: u64, outcome: Outcome) {
        match outcome {
            Outcome::Moved => self.moved.account.moved += pages,
            Outcome::AlreadyThere => self.moved.account.already_there += pages,
            Outcome::Skipped(why) => self.moved.account.skip(why, pages),
        }
        if outcome != Outcome::Moved {
            self.moved.outcomes[index] = outcome;
        }
    }
}

/// Begins a copy.
fn copy(world: &mut World, way: &Way, seats: &[Seat], slices: &[CopySlice]) -> Todo {
    world.note_copies(way.space, seats, slices);
    let params = &world.machine.params;
    let copiers = world.copiers(way.to);
    let mut parts: VecDeque<_> = parts(params, way.to, seats, slices, copiers).into();
    let drained_ns = world.drained_ns();
    if params.dma_channels > 0 {
        let ns = drained_ns.saturating_add(params.dma_setup_ns);
        return Todo::Busy(Spent::Copy, ns, Stage::Engine(parts));
    }
    if copiers > 1 {
        return Todo::Busy(Spent::Copy, drained_ns, Stage::Dispatch(parts, false));
    }
    Todo::Busy(Spent::Copy, drained_ns, Stage::Copy(parts.pop_front().unwrap_or_default()))
}

fn shape(folios: usize, folio_pages: u64, copiers: u32, attempts: u32) -> BatchShape {
    let folio_pages = folio_pages as u32;
    BatchShape { folios: folios as u32, folio_pages, page_bytes: 1, copiers, attempts }
}

/// Returns an operation that takes time, or `None` if it takes none.
fn busy(spent: Spent, ns: u64) -> Option<Op> {
    (ns > 0).then_some(Op::Busy(spent, ns))
}
