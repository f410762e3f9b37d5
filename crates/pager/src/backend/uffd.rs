//! The backend by userfaultfd: the lanes that move pages, the thread that serves faults, and the
//! regions that both work on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use nodeward_linux::own_process;
use nodeward_model::{CpuId, NodeId};
use nodeward_policy::break_even::BreakEven;
use nodeward_policy::workers;

use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::context::PagerContext;
use crate::error::{Result, system};
use crate::fault::FaultHandler;
use crate::migration::{
    BusyCpus, Callers, ChunkTask, JobKind, JobSpec, LaneJob, Lanes, MoveOptions,
};
use crate::page_bits::PageBits;
use crate::region::{Mode, Placement, RegionOptions, RegionShared, RegionTable};
use crate::sections;
use crate::sys::{Advice, AnonMapping};

/// Minimum size of a section.
const SECTION_BYTES_MIN: usize = 32 << 20;

/// What a lane costs where it was not measured yet: a wake-up of some 10 us, a page of 4 KiB at
/// 20 GB/s.
const UNMEASURED: BreakEven = BreakEven { hand_over_ns: 10_000, page_ps: 200_000 };
/// Jobs of fewer base pages are not worth a measurement: 32 MiB take some 10 ms.
const MEASURED_FROM_PAGES: u64 = 8192;

/// The threads of a pager and what they share.
pub struct UffdBackend {
    pub context: Arc<PagerContext>,
    pub lanes: Lanes,
    pub busy_cpus: &'static BusyCpus,
    /// What threads of the program work with.
    pub callers: Callers,
    regions: Arc<RegionTable>,
    pub fault_handler: FaultHandler,
    break_even: OnceLock<BreakEven>,
}

impl UffdBackend {
    /// Starts the threads.
    pub fn start(context: PagerContext, lanes_max: u32) -> Result<Self> {
        let context = Arc::new(context);
        let regions = Arc::new(RegionTable::default());
        let lanes = Lanes::start(&context, lanes_max)?;
        let handler = FaultHandler::start(&context, &regions, lanes_max as usize + 1)?;
        let callers = Callers::new(&context, &regions, lanes_max as usize + 2);
        Ok(Self {
            context,
            lanes,
            callers,
            busy_cpus: BusyCpus::of_this_process(),
            regions,
            fault_handler: handler,
            break_even: OnceLock::new(),
        })
    }

    /// Ends the threads. All jobs are done, and no region is left.
    pub fn stop(&self) {
        self.lanes.stop();
        self.fault_handler.stop();
    }

    /// Returns whether the pager can move the pages of such a region without harm. With mremap(2)
    /// no device may use the pages, and huge pages would come back as base pages.
    pub fn can_manage(&self, options: &RegionOptions) -> bool {
        let harmless = options.free_of_dma && options.page == PageSize::Base;
        self.context.transfer_method.can_map_slot_pages() || harmless
    }

    /// Makes a region of a mapping that nothing has touched, and serves its faults.
    pub fn add_region(
        &self,
        mapping: AnonMapping,
        options: &RegionOptions,
    ) -> Result<Arc<RegionShared>> {
        let bytes = mapping.bytes();
        sections::split(&mapping, (bytes / SECTION_BYTES_MIN).clamp(1, sections::MAX));
        mapping.advise(0..bytes, Advice::Discard).map_err(system("madvise"))?;
        let region = Arc::new(RegionShared {
            size: options.page,
            placement: options.placement.clone(),
            arrive: options.arrive,
            kernel_moves: AtomicBool::new(options.mode == Mode::Kernel),
            ..RegionShared::new(&self.context, mapping)
        });
        self.manage(&region)?;
        Ok(region)
    }

    /// Returns the CPUs for lanes that bring pages to a node.
    pub fn lane_cpus(&self, node: NodeId) -> Vec<CpuId> {
        let (usable, busy) = self.busy_cpus.usable_and_busy(&self.context.machine);
        workers::lane_cpus(self.context.topology(), node, &usable, &busy)
    }

    /// Measures the cost of a job: moves a chunk of its own, with recycled
    /// destination pages. Returns `None` if that does not work now. Cost: two milliseconds.
    fn measure_break_even(&self) -> Option<BreakEven> {
        let region =
            RegionShared::new(&self.context, AnonMapping::reserve(CHUNK_BYTES, CHUNK_BYTES).ok()?);
        let region = Arc::new(region);
        self.manage(&region).ok()?;
        let pages = PageBits::of(0..self.context.chunk_pages());
        let node = self.context.topology().node_of_cpu(own_process::current_cpu())?;
        let options = MoveOptions {
            even_if_there: true,
            batch_pages: self.context.chunk_pages(),
            ..MoveOptions::default()
        };
        let run = |kind, pages| {
            let tasks = vec![ChunkTask { chunk: 0, pages, to: node }];
            let order = JobSpec::on_one_lane(&region, kind, options, tasks);
            self.lanes.run(LaneJob::new(order, None), None)
        };
        run(JobKind::Commit(Placement::Node(node)), pages);
        // Write to each page: with the shared zero page there would be less to do.
        let words =
            region.mapping.words().iter().step_by(self.context.page_bytes / size_of::<u64>());
        words.for_each(|word| word.store(1, Ordering::Relaxed));
        let moved = (0..3).map(|_| run(JobKind::Migrate, pages));
        let best = moved.filter(|report| report.account.skipped_total() == 0);
        let best = best.map(|report| report.took_ns).min();
        let idle = (0..3).map(|_| run(JobKind::ReturnLazy, PageBits::default()).took_ns).min()?;
        self.unmanage(&region);
        self.context.free_recycled();
        let work_ns = best?.saturating_sub(idle);
        let measured = BreakEven::measured(idle, pages.len() as u64, work_ns);
        tracing::debug!(?measured, "break-even of lanes");
        Some(measured)
    }

    /// Registers a region and serves its faults.
    fn manage(&self, region: &Arc<RegionShared>) -> Result<()> {
        self.regions.add(region);
        region.register().inspect_err(|_| self.regions.remove(region))
    }

    /// Undoes [`Self::manage`], once no chunk of the region is claimed any more.
    pub fn unmanage(&self, region: &RegionShared) {
        for state in region.claims.close() {
            state.lazy.into_iter().for_each(|left| region.return_slot(left));
        }
        self.regions.remove(region);
        // Wakes any thread that still waits there; none should. Fails only where memory was
        // unmapped.
        let bytes = region.mapping.bytes() as u64;
        self.context.uffd.unregister(region.mapping.start(), bytes).ok();
    }

    /// Returns the number of lanes that `pages` base pages are worth, at most `lanes_max`. Measures
    /// what a lane costs for the first job that takes longer than that.
    pub fn lanes_for(&self, pages: u64, lanes_max: u32) -> u32 {
        let lanes_max = lanes_max.clamp(1, self.lanes.count());
        if lanes_max > 1 && pages >= MEASURED_FROM_PAGES && self.break_even.get().is_none() {
            // If two threads measure, one result is as good as the other.
            self.measure_break_even().map(|measured| self.break_even.set(measured).ok());
        }
        self.break_even.get().unwrap_or(&UNMEASURED).lanes_for(pages, lanes_max)
    }

    /// Returns whether the cost of a lane was measured.
    #[cfg(test)]
    pub fn has_measured(&self) -> bool {
        self.break_even.get().is_some()
    }

    /// Brings back the pages of some chunks of a region that are left out.
    pub fn return_lazy_pages(&self, region: &Arc<RegionShared>, chunks: Vec<usize>) {
        let task = |chunk| ChunkTask { chunk, pages: PageBits::default(), to: NodeId(0) };
        let options = MoveOptions::default();
        let tasks = chunks.into_iter().map(task).collect();
        let order = JobSpec::on_one_lane(region, JobKind::ReturnLazy, options, tasks);
        self.lanes.run(LaneJob::new(order, None), None);
    }

    /// Stops taking pages out of sight, and brings back those that are out.
    pub fn pause(&self) {
        for region in self.regions.pause() {
            let left_out = region.claims.find_chunks(|state| state.lazy.is_some());
            self.return_lazy_pages(&region, left_out);
        }
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.regions.resume();
    }
}
