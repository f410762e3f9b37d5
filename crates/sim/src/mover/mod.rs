//! Kernel threads that move pages: each executes the steps of a [`nodeward_migrate::Batch`].
//!
//! `batch` runs the steps as a program, `folios` applies a step to pages, and `copy` and `dma` do
//! the copying. A mover preempts the task that runs on its CPU, and so do its helper threads.

mod batch;
mod copy;
mod dma;
mod folios;

use std::collections::BTreeMap;
use std::ops::Range;

use nodeward_model::{Account, SkipReason};
use nodeward_scenario::Machine;

use crate::layout::Layout;
use crate::memory::PageKey;
use crate::space::SpaceId;
use crate::task::{CpuSet, Program, Spent, Task, TaskId};
use crate::tlb::Answers;
use crate::world::World;

pub use batch::Drive;
pub use folios::{Seat, Way, folios_of};

/// Maximum number of attempts per folio in the kernel (`NR_MAX_MIGRATE_PAGES_RETRY`).
pub const ATTEMPTS: u32 = 10;

/// Base pages that move as a whole or not at all: one base page, or a larger folio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folio {
    /// The index of its region.
    pub region: usize,
    /// Its pages in the region.
    pub pages: Range<u64>,
}

impl Folio {
    /// Returns the number of its base pages.
    pub fn len(&self) -> u64 {
        self.pages.end - self.pages.start
    }
}

/// The final place of a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is on its destination.
    Moved,
    /// It was on its destination before.
    AlreadyThere,
    /// It is where it was.
    Skipped(SkipReason),
}

/// The result of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// The outcome of each folio, in order.
    pub outcomes: Vec<Outcome>,
    /// The same in base pages.
    pub account: Account,
    /// The time of each step, in the order of [`Spent::ALL`], including waits for helpers and for a
    /// CPU.
    pub step_ns: [u64; Spent::ALL.len()],
}

impl Moved {
    /// Adds the result of further folios, without their single outcomes.
    pub fn add(&mut self, other: &Self) {
        self.account.add(&other.account);
        self.step_ns.iter_mut().zip(other.step_ns).for_each(|(sum, ns)| *sum += ns);
    }
}

/// State shared by all movers.
#[derive(Debug, Default)]
pub struct Movers {
    /// The interrupts that CPUs still have to answer.
    pub answers: Answers,
    helpers: copy::Helpers,
    engine: dma::Engine,
    /// Number of flights: each time that folios are taken out of sight counts as one.
    flights: u64,
    /// Pages that were freed while they were out of sight, with the last flight before that.
    freed: BTreeMap<PageKey, u64>,
    /// Number of faults that a task has to pay for before it continues, by task.
    pub lazy_due: BTreeMap<TaskId, u64>,
}

impl Movers {
    /// Creates the state for a machine.
    pub fn new(machine: &Machine, layout: &Layout) -> Self {
        Self {
            answers: Answers::new(layout.cpus.len()),
            helpers: copy::Helpers::new(machine, layout),
            engine: dma::Engine::new(machine.params.dma_channels as usize),
            ..Self::default()
        }
    }
}

impl World {
    /// Records that pages are freed. If a move has such a page out of sight, a page that is mapped
    /// there later does not belong to that move.
    pub(crate) fn note_freed(&mut self, space: SpaceId, region: usize, pages: Range<u64>) {
        let Movers { flights, freed, .. } = &mut self.mover;
        freed.extend(pages.map(|page| ((space, region, page), *flights)));
    }

    /// Forgets the freed pages of a process that has ended.
    pub(crate) fn forget_freed(&mut self, space: SpaceId) {
        self.mover.freed.retain(|key, _| key.0 != space);
    }

    /// Starts a kernel thread that may run on some CPUs, or on all.
    pub(crate) fn start_kernel_task(
        &mut self,
        cpus: Option<CpuSet>,
        program: Box<dyn Program>,
    ) -> TaskId {
        let allowed = cpus.unwrap_or_else(|| CpuSet::of(0..self.cpus.len()));
        self.start_task(Task::new(allowed, program))
    }
}

#[cfg(test)]
mod tests;
