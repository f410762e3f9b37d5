//! The pager of a process.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nodeward_linux::own_process::{self, OwnPagemap};
use nodeward_linux::{Linux, nodes};
use nodeward_machine::{Machine, Process};
use nodeward_model::{NodeId, Nodemask, Pid, Topology};
use nodeward_policy::break_even::BreakEven;
use nodeward_policy::workers::WORKERS_MAX;
use rustix::process::getpid;

use super::fork_handlers;
use super::options::PagerOptions;
use super::region::Region;
use crate::backend::{Backend, KernelBackend, probe};
use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::context::{ContextParts, PagerContext};
use crate::copier::{self, CopyTarget};
use crate::error::{Error, Result, system};
use crate::fault::{FaultHandler, RegionTable};
use crate::migration::{BusyCpus, ChunkTask, JobKind, JobSpec, LaneJob, Lanes, MoveOptions};
use crate::page_bits::PageBits;
use crate::pool::{PagePool, Pool, PoolOptions};
use crate::region::{Placement, RegionOptions, RegionShared};
use crate::sys::{AnonMapping, TransferMethod, Uffd};

/// Manages memory of this process: regions whose pages move between nodes while they are in use. A
/// clone is another handle of the same pager. The pager ends with its last handle and region.
#[derive(Clone)]
pub struct Pager(Arc<PagerShared>);

/// The state that the handles of a pager share.
pub struct PagerShared {
    pub machine: Linux,
    pub topology: Topology,
    /// This process, to query the place of its pages.
    pub myself: Arc<dyn Process>,
    backend: Backend,
    why_not_faster: Option<String>,
    lanes_max: u32,
    usable_nodes: Nodemask,
    pid: i32,
    /// The pool that owns all free pages.
    pool: PagePool,
    /// Present unless only the kernel moves pages.
    pub uffd_backend: Option<UffdBackend>,
}

/// The threads of a pager and what they share.
pub struct UffdBackend {
    pub context: Arc<PagerContext>,
    pub regions: Arc<RegionTable>,
    pub lanes: Lanes,
    fault_handler: FaultHandler,
    pub busy_cpus: BusyCpus,
    break_even: Option<BreakEven>,
}

impl Pager {
    /// Probes which methods work here and starts the threads.
    ///
    /// # Errors
    /// If threads or memory cannot be obtained, or an option is invalid. A kernel that supports
    /// only a slow method is no error: see [`Pager::backend`].
    pub fn open(options: &PagerOptions) -> Result<Self> {
        let machine = Linux::open();
        let topology = machine.topology()?;
        let myself = machine.open_process(Pid::of_this_process())?;
        let lanes_max = lane_count(options, &machine, &topology)?;
        let usable_nodes = nodes::nodestring_context(Path::new("/"), &topology)?.allowed;
        let usable_nodes = usable_nodes.and(&topology.nodes_with_memory());
        let found = probe::probe(options.assume_no_syscalls, options.kernel_only)?;
        let uffd = found.uffd.map(Arc::new);
        let pool = PoolOptions {
            keep_bytes: options.pool_bytes.unwrap_or(PagerOptions::POOL_BYTES),
            ..options.pool.clone()
        };
        let sizes = [PageSize::Base, PageSize::Huge];
        let pool =
            PagePool::with_sizes(&pool, &sizes, topology.clone(), &usable_nodes, uffd.clone())?;
        let engine = match uffd {
            Some(uffd) => {
                let transfer_method = match found.backend {
                    Backend::Remap => TransferMethod::Remap,
                    _ => TransferMethod::Move,
                };
                let tools = (uffd, transfer_method, pool.shared());
                Some(UffdBackend::start(tools, options, &topology, &myself, lanes_max)?)
            }
            None => None,
        };
        let inner = Arc::new(PagerShared {
            machine,
            topology,
            myself,
            backend: found.backend,
            why_not_faster: found.why_not_faster,
            lanes_max,
            usable_nodes,
            pid: getpid().as_raw_pid(),
            pool,
            uffd_backend: engine,
        });
        if inner.uffd_backend.is_some() {
            fork_handlers::register(&inner)?;
        }
        Ok(Self(inner))
    }

    /// Returns the method by which pages move here.
    pub fn backend(&self) -> Backend {
        self.0.backend
    }

    /// Returns why no faster method is used; `None` if it is the fastest.
    pub fn why_not_faster(&self) -> Option<&str> {
        self.0.why_not_faster.as_deref()
    }

    /// Returns the name of the copier; `None` if the kernel copies.
    pub fn copier(&self) -> Option<&'static str> {
        self.0.uffd_backend.as_ref().map(|engine| engine.context.copier.name())
    }

    /// Returns the maximum number of lanes of a migration.
    pub fn lanes(&self) -> u32 {
        self.0.lanes_max
    }

    /// Reserves address space for a region of `bytes` bytes, rounded up to 2 MiB. No page is in
    /// memory yet; memory reads as zero at the first touch.
    pub fn reserve(&self, bytes: usize, options: &RegionOptions) -> Result<Region> {
        self.0.check_process()?;
        Region::reserve(&self.0, bytes, options)
    }

    /// Frees the pages that are kept from earlier migrations, and all other free pages of the pool.
    /// Returns the number of bytes freed. In a child of fork(2) there are none.
    pub fn trim(&self) -> usize {
        self.0.pool.give_back()
    }

    /// Returns the pool that receives pages that migrations empty, and supplies destination pages.
    /// The program may allocate from it, too.
    pub fn pool(&self) -> PagePool {
        PagePool::of_pager(self.0.pool.shared(), self.clone())
    }
}

impl fmt::Debug for Pager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pager")
            .field("road", &self.backend())
            .field("lanes", &self.lanes())
            .field("copier", &self.copier())
            .finish_non_exhaustive()
    }
}

fn lane_count(options: &PagerOptions, machine: &Linux, topology: &Topology) -> Result<u32> {
    let usable = machine.usable_cpus()?;
    let nodes = topology.node_ids();
    let cores = nodes.iter().flat_map(|node| topology.cores_of_node(node));
    let cores = cores.filter(|core| !core.and(&usable).is_empty()).count();
    match options.lanes {
        None => Ok(cores.clamp(1, WORKERS_MAX) as u32),
        Some(lanes) if (1..=256).contains(&lanes) => Ok(lanes),
        Some(lanes) => Err(Error::BadOption {
            problem: format!("{lanes} lanes"),
            remedy: "1 to 256 are possible, and more than one for each core never pays".to_owned(),
        }),
    }
}

impl UffdBackend {
    fn start(
        (uffd, transfer_method, pool): (Arc<Uffd>, TransferMethod, &Arc<Pool>),
        options: &PagerOptions,
        topology: &Topology,
        myself: &Arc<dyn Process>,
        lanes_max: u32,
    ) -> Result<Self> {
        let copier = |target| options.copier.clone().unwrap_or_else(|| copier::fastest(target));
        let tools = ContextParts {
            uffd,
            transfer_method,
            copier: copier(CopyTarget::Cold),
            fresh_copier: copier(CopyTarget::JustZeroed),
            machine: Linux::open(),
            topology: topology.clone(),
            pages: Arc::new(OwnPagemap::open().map_err(system("opening /proc/self/pagemap"))?),
            myself: Arc::clone(myself),
        };
        let context = Arc::new(PagerContext::new(tools, pool)?);
        let regions = Arc::new(RegionTable::default());
        let lanes = Lanes::start(&context, lanes_max)?;
        let handler = FaultHandler::start(&context, &regions, lanes_max as usize + 1)?;
        let watch = BusyCpus::default();
        let mut engine = Self {
            context,
            regions,
            lanes,
            fault_handler: handler,
            busy_cpus: watch,
            break_even: None,
        };
        engine.break_even = engine.measure_break_even();
        Ok(engine)
    }

    /// Measures the cost of a job: moves a chunk of its own, with destination pages kept from
    /// earlier moves. Returns `None` if that does not work now. Cost: two milliseconds.
    fn measure_break_even(&self) -> Option<BreakEven> {
        let core =
            RegionShared::new(&self.context, AnonMapping::reserve(CHUNK_BYTES, CHUNK_BYTES).ok()?);
        let core = Arc::new(core);
        self.manage(&core).ok()?;
        let pages = PageBits::of(0..self.context.chunk_pages());
        let node = self.context.topology.node_of_cpu(own_process::current_cpu())?;
        let batch_pages = self.context.chunk_pages();
        let how = MoveOptions { even_if_there: true, batch_pages, ..Default::default() };
        let run = |kind, pages| {
            let tasks = vec![ChunkTask { chunk: 0, pages, to: node }];
            self.lanes.run(LaneJob::new(JobSpec::on_one_lane(&core, kind, how, tasks)), None, None)
        };
        run(JobKind::Commit(Placement::Node(node)), pages);
        // Write to each page: with the shared zero page there would be less to do.
        let words = core.mapping.words().iter().step_by(self.context.page_bytes / size_of::<u64>());
        words.for_each(|word| word.store(1, Ordering::Relaxed));
        let moved = (0..3).map(|_| run(JobKind::Migrate, pages));
        let best = moved.filter(|report| report.account.skipped_total() == 0);
        let best = best.map(|report| report.took_ns).min();
        let idle = (0..3).map(|_| run(JobKind::ReturnLazy, PageBits::default()).took_ns).min()?;
        self.unmanage(&core);
        self.context.free_recycled();
        let work_ns = best?.saturating_sub(idle);
        let measured = BreakEven::measured(idle, pages.len() as u64, work_ns);
        tracing::debug!(?measured, "break-even of lanes");
        Some(measured)
    }

    /// Registers a region and serves its faults.
    pub fn manage(&self, core: &Arc<RegionShared>) -> Result<()> {
        self.regions.add(core);
        core.register().inspect_err(|_| self.regions.remove(core))
    }

    /// Undoes [`Self::manage`], once no chunk of the region is claimed any more.
    pub fn unmanage(&self, core: &RegionShared) {
        for note in core.claims.close() {
            note.lazy.into_iter().for_each(|left| core.return_slot(left, false));
        }
        self.regions.remove(core);
        // Wakes any thread that still waits there; none should. Fails only where memory was
        // unmapped.
        let bytes = core.mapping.bytes() as u64;
        self.context.uffd.unregister(core.mapping.start(), bytes).ok();
    }

    /// Returns the number of lanes that `pages` base pages are worth, at most `lanes_max`.
    pub fn lanes_for(&self, pages: u64, lanes_max: u32) -> u32 {
        let lanes_max = lanes_max.clamp(1, self.lanes.count());
        self.break_even.map_or(lanes_max, |measured| measured.lanes_for(pages, lanes_max))
    }

    /// Brings back the pages of some chunks of a region that are left out.
    pub fn return_lazy_pages(&self, core: &Arc<RegionShared>, chunks: Vec<usize>) {
        let task = |chunk| ChunkTask { chunk, pages: PageBits::default(), to: NodeId(0) };
        let how = MoveOptions::default();
        let tasks = chunks.into_iter().map(task).collect();
        let order = JobSpec::on_one_lane(core, JobKind::ReturnLazy, how, tasks);
        self.lanes.run(LaneJob::new(order), None, None);
    }
}

impl PagerShared {
    /// Returns the nodes with memory that our cpuset allows.
    pub fn usable_nodes(&self) -> &Nodemask {
        &self.usable_nodes
    }

    /// Returns the migration by move_pages(2), for pages that the pager does not move itself.
    pub fn kernel_backend(&self) -> KernelBackend<'_> {
        KernelBackend { machine: &self.machine, topology: &self.topology, myself: &self.myself }
    }

    /// Returns why no faster method is used.
    pub fn why_not_faster(&self) -> String {
        self.why_not_faster.clone().unwrap_or_default()
    }

    /// Returns whether this is the process that opened the pager, and not a child of it.
    pub fn is_owner_process(&self) -> bool {
        getpid().as_raw_pid() == self.pid
    }

    /// Refuses to work in a child.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child made by fork(2).
    pub fn check_process(&self) -> Result<()> {
        if self.is_owner_process() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Stops taking pages out of sight, and brings back those that are out.
    pub fn pause(&self) {
        let Some(engine) = self.uffd_backend.as_ref().filter(|_| self.is_owner_process()) else {
            return;
        };
        for core in engine.regions.pause() {
            let left_out = core.claims.find_chunks(|note| note.lazy.is_some());
            engine.return_lazy_pages(&core, left_out);
        }
    }

    /// Ends a pause.
    pub fn resume(&self) {
        let Some(engine) = self.uffd_backend.as_ref().filter(|_| self.is_owner_process()) else {
            return;
        };
        engine.regions.resume();
    }
}

impl Drop for PagerShared {
    fn drop(&mut self) {
        if let Some(engine) = self.uffd_backend.take() {
            match self.is_owner_process() {
                true => {
                    engine.lanes.stop();
                    engine.fault_handler.stop();
                }
                // Its threads are in the parent.
                false => std::mem::forget(engine),
            }
        }
    }
}
