//! Moves the page cache of files.
//!
//! Cached pages belong to no process. This process maps them, a batch at a time, moves them like
//! memory of any process, and unmaps them.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use nodeward_linux::Linux;
use nodeward_linux::file_cache::{CacheScan, MappedBatch, MappedBatches};
use nodeward_machine::{Error, Machine, Process};
use nodeward_model::{NodePairs, Pid, Range, SkipReason, Topology};
use nodeward_mover::{
    CacheMove, MoveControl, MoveOrder, MoveReport, MoveRequest, PlanReport, ProcessPlan, Selection,
    may_fit_elsewhere, migrate, plan,
};
use nodeward_policy::cache_headroom::CacheHeadroom;

use crate::settings::MoveSettings;

/// Returns a handle on this process.
pub fn this_process(machine: &dyn Machine) -> Result<Arc<dyn Process>> {
    Ok(machine.open_process(Pid::new(std::process::id())?)?)
}

/// Files, and the destinations of their pages.
pub struct PageCacheMove<'a> {
    machine: Linux,
    topology: Topology,
    pairs: NodePairs,
    settings: &'a MoveSettings,
    processes: [Arc<dyn Process>; 1],
    paths: &'a [PathBuf],
}

impl<'a> PageCacheMove<'a> {
    /// Creates a job; `us` is the process that maps the files meanwhile.
    pub fn new(
        us: Arc<dyn Process>,
        topology: Topology,
        pairs: NodePairs,
        settings: &'a MoveSettings,
        paths: &'a [PathBuf],
    ) -> Self {
        Self { machine: Linux::open(), topology, pairs, settings, processes: [us], paths }
    }

    /// Moves batch after batch. Returns an error only if nothing was done before it.
    pub fn migrate(
        &self,
        live: &MoveControl,
        count_first: bool,
    ) -> Result<(CacheScan, MoveReport), Error> {
        if count_first {
            live.announce(self.batches().cached_bytes(|| live.is_stopped()));
        }
        let mut batches = self.batches();
        let mut headroom = self.headroom()?;
        let mut total = MoveReport::default();
        while let Some(batch) = batches.next_batch(|| live.is_stopped()) {
            match self.migrate_batch(&batch, live, &mut headroom) {
                Ok(report) => total.join(report),
                Err(error) if total.processes.is_empty() => return Err(error),
                Err(error) => total.error = Some(error),
            }
            if total.error.is_some() {
                break;
            }
        }
        total.stopped = live.stop_reason().filter(|_| total.error.is_none());
        Ok((batches.into_scan(), total))
    }

    /// Moves to the destinations of one pass after another: what has no room on the first goes on
    /// to the next. Returns an error only if nothing was done before it.
    pub fn migrate_in_passes(
        mut self,
        passes: &[NodePairs],
        live: &MoveControl,
    ) -> Result<(CacheScan, MoveReport), Error> {
        let mut done: Option<(CacheScan, MoveReport)> = None;
        for pairs in passes {
            self.pairs.clone_from(pairs);
            let Some((_, report)) = &mut done else {
                done = Some(self.migrate(live, false)?);
                continue;
            };
            if report.stopped.is_some()
                || report.error.is_some()
                || !may_fit_elsewhere(&report.account())
            {
                break;
            }
            match self.migrate(live, false) {
                Ok((_, later)) => report.join_pass(later),
                Err(error) => report.error = Some(error),
            }
        }
        Ok(done.unwrap_or_default())
    }

    fn migrate_batch(
        &self,
        batch: &MappedBatch,
        live: &MoveControl,
        headroom: &mut CacheHeadroom,
    ) -> Result<MoveReport, Error> {
        let request = self.request(batch)?;
        let mut report = match batch.is_huge() {
            // These never evict other pages.
            true => migrate(&self.machine, &self.processes, &request, live, None)?,
            false => {
                let map_again = |ranges: &[Range]| batch.remap_cached(ranges);
                self.fitting(batch, live, &map_again).migrate(&request, headroom)?
            }
        };
        // Mapped, but evicted when the move came to them; or the move ended before.
        let unseen = match report.error {
            None => SkipReason::NotPresent,
            Some(_) => SkipReason::Refused,
        };
        for process in &mut report.processes {
            let pages = self.mapped_pages(batch).saturating_sub(process.seen());
            process.account.skip(unseen, pages);
        }
        Ok(report)
    }

    /// Reports what would be done.
    pub fn plan(&self, live: &MoveControl) -> Result<(CacheScan, ProcessPlan), Error> {
        let mut batches = self.batches();
        let mut headroom = self.headroom()?;
        let mut total = PlanReport::default();
        while let Some(batch) = batches.next_batch(|| live.is_stopped()) {
            let request = self.request(&batch)?;
            let map_again = |ranges: &[Range]| batch.remap_cached(ranges);
            let mut report = match batch.is_huge() {
                true => plan(&self.machine, &self.processes, &request, live)?,
                false => self.fitting(&batch, live, &map_again).plan(&request, &mut headroom)?,
            };
            for (_, plan) in &mut report.processes {
                let unseen = self.mapped_pages(&batch).saturating_sub(plan.seen());
                plan.account.skip(SkipReason::NotPresent, unseen);
            }
            total.join(report);
        }
        let plan = total.processes.into_iter().next().map(|(_, plan)| plan);
        Ok((batches.into_scan(), plan.unwrap_or_default()))
    }

    fn batches(&self) -> MappedBatches {
        MappedBatches::new(self.paths.to_vec())
    }

    fn headroom(&self) -> Result<CacheHeadroom, Error> {
        Ok(CacheHeadroom::new(self.machine.headroom()?))
    }

    fn mapped_pages(&self, batch: &MappedBatch) -> u64 {
        batch.mapped_bytes() / self.machine.page_bytes()
    }

    fn fitting<'b>(
        &'b self,
        batch: &MappedBatch,
        live: &'b MoveControl,
        map_again: &'b dyn Fn(&[Range]),
    ) -> CacheMove<'b> {
        let mapped_pages = self.mapped_pages(batch);
        let (machine, processes) = (&self.machine, &self.processes);
        CacheMove { machine, processes, mapped_pages, control: live, map_again }
    }

    fn request(&self, batch: &MappedBatch) -> Result<MoveRequest, Error> {
        let selection = Selection { ranges: batch.ranges(), ..Selection::default() };
        let order = MoveOrder { pairs: self.pairs.clone(), pages: None };
        self.settings.request(&self.machine, &self.topology, vec![[order].into()], selection)
    }
}
