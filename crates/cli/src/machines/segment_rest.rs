//! Segments of shared memory, mapped by this process, so that also pages that no process maps can
//! be seen and moved.

use std::sync::Arc;

use anyhow::Result;
use nodeward_linux::Linux;
use nodeward_linux::file_cache::{CacheScan, MappedBatch, MappedBatches, check_kernel};
use nodeward_linux::segments::SharedSegments;
use nodeward_machine::{Error, Process};
use nodeward_model::{MappingKind, Topology};
use nodeward_mover::{
    MemoryView, MoveControl, MoveOrder, MoveReport, MoveRequest, ProcessPlan, Selection, migrate,
    plan,
};

use super::SelectedMachine;
use super::page_cache_move::this_process;
use crate::settings::MoveSettings;

/// Segments that processes map, mapped by this process as long as the value lives. The page tables
/// take 1/512 of their size.
pub struct SegmentRest {
    machine: Linux,
    /// This process.
    process: Arc<dyn Process>,
    /// The addresses at which it maps them.
    selection: Selection,
    found: usize,
    scan: CacheScan,
    _batches: Vec<MappedBatch>,
    _segments: SharedSegments,
}

impl SegmentRest {
    /// Maps the segments that processes map now, if shared memory is selected. `None` if there are
    /// none, if this machine cannot do that, or if stopped meanwhile.
    pub fn map_selected(
        chosen: &SelectedMachine,
        processes: &[Arc<dyn Process>],
        selection: &Selection,
        live: &MoveControl,
    ) -> Result<Option<Self>> {
        let is_wanted = selection.kinds.contains(&MappingKind::Shared);
        match chosen {
            SelectedMachine::Local(_) if is_wanted => Self::map(processes, live),
            SelectedMachine::Local(_) | SelectedMachine::Simulated(_) => Ok(None),
        }
    }

    fn map(processes: &[Arc<dyn Process>], live: &MoveControl) -> Result<Option<Self>> {
        if check_kernel().is_err() {
            return Ok(None);
        }
        let processes = processes.iter().take_while(|_| !live.is_stopped());
        let segments = SharedSegments::mapped_by(processes.map(|process| &**process));
        if segments.denied > 0 {
            say!(
                "nodeward: of shared segments only what these processes map is seen; to see them \
                 whole needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE"
            );
        }
        let paths = segments.paths();
        let found = paths.len();
        let mut walk = MappedBatches::new(paths);
        let mut batches = Vec::new();
        while let Some(batch) = walk.next_batch(|| live.is_stopped()) {
            batches.push(batch);
        }
        if batches.is_empty() || live.is_stopped() {
            return Ok(None);
        }
        let ranges = batches.iter().flat_map(MappedBatch::ranges).collect();
        let kinds = [MappingKind::Shared].into();
        let selection = Selection { kinds, ranges, ..Selection::default() };
        let machine = Linux::open();
        let process = this_process(&machine)?;
        let scan = walk.into_scan();
        let (_batches, _segments) = (batches, segments);
        Ok(Some(Self { machine, process, selection, found, scan, _batches, _segments }))
    }

    /// Returns what this process sees of the segments.
    pub fn view(&self) -> MemoryView<'_> {
        MemoryView { process: &self.process, selection: &self.selection }
    }
}

/// A move of pages of segments that no process maps.
pub struct SegmentRestMove {
    /// The segments.
    pub rest: SegmentRest,
    /// The orders for this process.
    pub orders: Arc<[MoveOrder]>,
    /// The machine's shape.
    pub topology: Topology,
}

impl SegmentRestMove {
    /// Returns the move of what is mapped and has orders.
    pub fn new(
        rest: Option<SegmentRest>,
        orders: Option<Arc<[MoveOrder]>>,
        topology: &Topology,
    ) -> Option<Self> {
        let orders = orders.filter(|orders| !orders.is_empty());
        let topology = topology.clone();
        rest.zip(orders).map(|(rest, orders)| Self { rest, orders, topology })
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> usize {
        self.rest.found
    }

    /// Moves the pages. Returns an error only if nothing was done.
    pub fn migrate(
        &self,
        settings: &MoveSettings,
        live: &MoveControl,
    ) -> Result<(CacheScan, MoveReport), Error> {
        let (machine, process) = (&self.rest.machine, Arc::clone(&self.rest.process));
        let report = migrate(machine, &[process], &self.request(settings)?, live, None)?;
        Ok((self.scan(), report))
    }

    /// Reports what would be done.
    pub fn plan(&self, settings: &MoveSettings, live: &MoveControl) -> Result<ProcessPlan, Error> {
        let (machine, process) = (&self.rest.machine, Arc::clone(&self.rest.process));
        let report = plan(machine, &[process], &self.request(settings)?, live)?;
        Ok(report.total())
    }

    fn request(&self, settings: &MoveSettings) -> Result<MoveRequest, Error> {
        let orders = vec![Arc::clone(&self.orders)];
        settings.request(&self.rest.machine, &self.topology, orders, Selection::default())
    }

    fn scan(&self) -> CacheScan {
        let CacheScan { cached_bytes, problems, .. } = self.rest.scan;
        CacheScan { cached_bytes, problems, ..CacheScan::default() }
    }
}
