//! Threads of the kernel that move pages: each carries out what [`nodeward_migrate::Batch`] says.
//!
//! `batch` is the step machine as a program, `folios` what a step does to pages, `copy` and `dma`
//! who copies. A mover takes its CPU from whoever runs there, and so do the threads that help it.

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

/// How often the kernel tries a folio (`NR_MAX_MIGRATE_PAGES_RETRY`).
pub const ATTEMPTS: u32 = 10;

/// Base pages that move whole or not at all: one, or a huge page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folio {
    /// In which region.
    pub region: usize,
    /// Which pages of it.
    pub pages: Range<u64>,
}

impl Folio {
    /// Its base pages.
    pub fn len(&self) -> u64 {
        self.pages.end - self.pages.start
    }
}

/// Where a folio ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// On its destination.
    Moved,
    /// It was there already.
    AlreadyThere,
    /// Where it was.
    Skipped(SkipReason),
}

/// What became of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Where each folio ended, in their order.
    pub outcomes: Vec<Outcome>,
    /// The same in base pages.
    pub account: Account,
    /// How long each step took, in the order of [`Spent::ALL`], with its waits for helpers and
    /// for a CPU.
    pub step_ns: [u64; Spent::ALL.len()],
}

impl Moved {
    /// Adds what became of further folios, without where each ended.
    pub fn add(&mut self, other: &Self) {
        self.account.add(&other.account);
        self.step_ns.iter_mut().zip(other.step_ns).for_each(|(sum, ns)| *sum += ns);
    }
}

/// What all movers have in common.
#[derive(Debug, Default)]
pub struct Movers {
    /// Who is about to answer interrupts.
    pub answers: Answers,
    helpers: copy::Helpers,
    engine: dma::Engine,
    /// How often folios were taken out of sight: each time is one flight.
    flights: u64,
    /// Pages that were freed while they were out of sight, with the last flight before that.
    freed: BTreeMap<PageKey, u64>,
    /// For how many faults a task has still to pay before it goes on, by task.
    pub lazy_due: BTreeMap<TaskId, u64>,
}

impl Movers {
    /// Of a machine.
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
    /// A page is freed. If a move has it out of sight, what comes there later is not that move's.
    pub(crate) fn note_freed(&mut self, space: SpaceId, region: usize, pages: Range<u64>) {
        let Movers { flights, freed, .. } = &mut self.mover;
        freed.extend(pages.map(|page| ((space, region, page), *flights)));
    }

    /// A process is over: nothing comes to where its pages were.
    pub(crate) fn forget_freed(&mut self, space: SpaceId) {
        self.mover.freed.retain(|key, _| key.0 != space);
    }

    /// Starts a thread of the kernel that may run on some CPUs, or on all.
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
