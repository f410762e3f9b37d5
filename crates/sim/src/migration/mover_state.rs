//! State that all movers share.

use std::collections::BTreeMap;
use std::ops::Range;

use nodeward_model::{Account, SkipReason};
use nodeward_scenario::MachineSpec;

use super::copy_threads::CopyHelpers;
use super::dma_engine::DmaEngine;
use crate::cpu::{CpuIndexSet, CpuTimeKind, Task, TaskId};
use crate::hardware::MachineLayout;
use crate::memory::{PageKey, SpaceId};
use crate::turns::PendingIpis;
use crate::world::{TaskProgram, World};

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
pub enum FolioOutcome {
    /// It is on its destination.
    Moved,
    /// It was on its destination before.
    AlreadyThere,
    /// It is where it was.
    Skipped(SkipReason),
}

/// The result of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationResult {
    /// The outcome of each folio, in order.
    pub outcomes: Vec<FolioOutcome>,
    /// The same in base pages.
    pub account: Account,
    /// The time of each step, in the order of [`CpuTimeKind::ALL`], including waits for helpers and
    /// for a CPU.
    pub step_ns: [u64; CpuTimeKind::ALL.len()],
}

impl MigrationResult {
    /// Adds the result of further folios, without their single outcomes.
    pub fn add(&mut self, other: &Self) {
        self.account.add(&other.account);
        self.step_ns.iter_mut().zip(other.step_ns).for_each(|(sum, ns)| *sum += ns);
    }
}

/// State shared by all movers.
#[derive(Debug, Default)]
pub struct MoverState {
    /// The interrupts that CPUs still have to answer.
    pub pending_ipis: PendingIpis,
    pub helpers: CopyHelpers,
    pub dma: DmaEngine,
    /// Number of flights: each time that folios are taken out of sight counts as one.
    pub unmap_count: u64,
    /// Pages that were freed while they were out of sight, with the last flight before that.
    pub freed_in_flight: BTreeMap<PageKey, u64>,
    /// Number of faults that a task has to pay for before it continues, by task.
    pub lazy_faults_due: BTreeMap<TaskId, u64>,
}

impl MoverState {
    /// Creates the state for a machine.
    pub fn new(machine: &MachineSpec, layout: &MachineLayout) -> Self {
        Self {
            pending_ipis: PendingIpis::new(layout.cpus.len()),
            helpers: CopyHelpers::new(machine, layout),
            dma: DmaEngine::new(machine.params.dma_channels as usize),
            ..Self::default()
        }
    }
}

impl World {
    /// Records that pages are freed. If a move has such a page out of sight, a page that is mapped
    /// there later does not belong to that move.
    pub(crate) fn record_freed_in_flight(
        &mut self,
        space: SpaceId,
        region: usize,
        pages: Range<u64>,
    ) {
        let MoverState { unmap_count: flights, freed_in_flight: freed, .. } = &mut self.movers;
        freed.extend(pages.map(|page| ((space, region, page), *flights)));
    }

    /// Forgets the freed pages of a process that has ended.
    pub(crate) fn forget_freed_in_flight(&mut self, space: SpaceId) {
        self.movers.freed_in_flight.retain(|key, _| key.0 != space);
    }

    /// Starts a kernel thread that may run on some CPUs, or on all.
    pub(crate) fn start_kernel_task(
        &mut self,
        cpus: Option<CpuIndexSet>,
        program: Box<dyn TaskProgram>,
    ) -> TaskId {
        let allowed = cpus.unwrap_or_else(|| CpuIndexSet::of(0..self.cpus.len()));
        self.start_task(Task::new(allowed), program)
    }
}
