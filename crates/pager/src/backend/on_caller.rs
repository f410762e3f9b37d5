//! Work that the calling thread does itself, as far as that needs no waiting; and the rest, which
//! goes to lanes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use nodeward_model::NodeId;

use super::uffd::UffdBackend;
use crate::error::Result;
use crate::migration::{
    Callers, ChunkTask, JobKind, JobSpec, LaneJob, MigrationReport, MoveOptions, PageSkips,
    elapsed_ns,
};
use crate::page_bits::PageBits;
use crate::region::RegionShared;

/// Base pages that a thread moves or commits itself: 256 KiB of 4 KiB pages take about as long as
/// the hand-over to a lane.
const SMALL_PAGES_MAX: usize = 64;

impl UffdBackend {
    /// Returns whether moving or committing all pages of some tasks is small work.
    pub fn is_small(&self, tasks: &[ChunkTask]) -> bool {
        let pages: usize = tasks.iter().take(SMALL_PAGES_MAX).map(|task| task.pages.len()).sum();
        tasks.len() <= SMALL_PAGES_MAX && pages <= SMALL_PAGES_MAX
    }

    /// Does tasks one after the other on the calling thread, up to the first that it would have to
    /// wait for. Returns the outcome, and how many are done.
    pub fn run_here(
        &self,
        region: &RegionShared,
        work: (&JobKind, &MoveOptions),
        tasks: &[ChunkTask],
    ) -> (MigrationReport, usize) {
        let began = Instant::now();
        let mut report = MigrationReport { lanes: 1, ..MigrationReport::default() };
        let is_left =
            |task: &ChunkTask| !self.run_task_here(region, work, task, (&mut report, &mut |_| ()));
        let done = tasks.iter().position(is_left).unwrap_or(tasks.len());
        report.took_ns = elapsed_ns(began);
        if self.context.takes_wanted_look() {
            self.fault_handler.request_look();
        }
        (report, done)
    }

    fn run_task_here(
        &self,
        region: &RegionShared,
        work: (&JobKind, &MoveOptions),
        task: &ChunkTask,
        outcome: (&mut MigrationReport, &mut dyn FnMut(&PageSkips)),
    ) -> bool {
        let is_ready = match work.0 {
            JobKind::Migrate => {
                region.register_part(task.chunk, &task.pages)
                    && self.context.reserve_few(task.to, task.pages.len())
            }
            _ => true,
        };
        is_ready && self.callers.run_task(region, work, task, outcome)
    }

    /// Moves the pages of one task, on the calling thread or else on a lane. Adds the outcome to
    /// `report`, and returns why single pages stayed.
    ///
    /// # Errors
    /// If no part of the region can be registered.
    pub fn move_task(
        &self,
        region: &Arc<RegionShared>,
        options: &MoveOptions,
        task: ChunkTask,
        report: &mut MigrationReport,
    ) -> Result<PageSkips> {
        let mut skips = PageSkips::default();
        let work = (&JobKind::Migrate, options);
        if !self.run_task_here(region, work, &task, (report, &mut |found| skips = *found)) {
            region.register()?;
            let order = JobSpec::on_one_lane(region, JobKind::Migrate, *options, vec![task]);
            let (by_lane, found) = self.lanes.run_one_task(LaneJob::new(order, None));
            report.add(&by_lane);
            skips = found;
        }
        if self.context.takes_wanted_look() {
            self.fault_handler.request_look();
        }
        Ok(skips)
    }

    /// Does tasks that bring pages into sight: on the calling thread, or else on the lane for them.
    pub fn run_or_hand_over(
        &self,
        region: &Arc<RegionShared>,
        kind: JobKind,
        mut tasks: Vec<ChunkTask>,
    ) {
        let options = MoveOptions::default();
        let (_, done) = self.run_here(region, (&kind, &options), &tasks);
        tasks.drain(..done);
        if !tasks.is_empty() {
            let order = JobSpec::on_one_lane(region, kind, options, tasks);
            self.lanes.run(LaneJob::new(order, None), None);
        }
    }

    /// Waits until no page of these chunks is out of sight or about to be taken out by work that
    /// began earlier. Brings pages back that were left out.
    pub fn settle(&self, region: &Arc<RegionShared>, chunks: Range<usize>) {
        let unsettled = chunks.filter(|&chunk| !Callers::is_settled(region, chunk));
        let task = |chunk| ChunkTask { chunk, pages: PageBits::default(), to: NodeId(0) };
        self.run_or_hand_over(region, JobKind::ReturnLazy, unsettled.map(task).collect());
    }
}
