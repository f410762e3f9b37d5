//! The public handle of a page pool.

use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use nodeward_linux::{Linux, nodes};
use nodeward_machine::Machine;
use nodeward_model::{NodeId, Nodemask, Topology};
use nodeward_policy::pcp::ListLimits;

use super::arena::Arena;
use super::error::PoolError;
use super::fork_detection;
use super::headroom::Headroom;
use super::housekeeper::Housekeeper;
use super::options::{PoolOptions, PoolStats, RunRequest};
use super::page_run::PageRun;
use super::pool::{Pool, PoolParts, ZoneBounds};
use crate::chunk::PageSize;
use crate::error::{Error, Result};
use crate::handles::Pager;
use crate::sys::Uffd;

/// The lists of a node hold at most an eighth of its zone, as in the kernel. At most another eighth
/// may be free in the zone.
const NODE_SHARE: usize = 8;

/// An allocator of runs of 2^n pages for buffer pools, packet rings and caches. Memory comes from
/// the node of the calling thread. A clone is another handle; the pool ends with the last one.
///
/// Any thread may use and free an allocated run. Children of fork(2) do not inherit the memory of a
/// pool (`MADV_DONTFORK`); there all calls fail with [`PoolError::Forked`]. Signal handlers must
/// neither allocate nor free.
#[derive(Clone)]
pub struct PagePool(Arc<PoolHandle>);

struct PoolHandle {
    /// `None` only while this is dropped.
    pool: Option<Arc<Pool>>,
    housekeeper: Option<Housekeeper>,
    /// The pager that the pool belongs to, if any; it is dropped after the pool's handle.
    pager: Option<Pager>,
}

impl PagePool {
    /// Opens a pool without memory.
    ///
    /// # Errors
    /// If the machine's state cannot be read, a thread cannot be started, or an option is invalid.
    pub fn open(options: &PoolOptions) -> Result<Self> {
        let topology = Linux::open().topology()?;
        let allowed = nodes::nodestring_context(Path::new("/"), &topology)?.allowed;
        let usable = allowed.and(&topology.nodes_with_memory());
        Self::with_sizes(options, &[options.page], topology, &usable, None)
    }

    /// Opens a pool with pages of these sizes on these nodes. It can take memory of regions only if
    /// `uffd` is the userfaultfd that the regions are registered with.
    pub(crate) fn with_sizes(
        options: &PoolOptions,
        sizes: &[PageSize],
        topology: Topology,
        usable: &Nodemask,
        uffd: Option<Arc<Uffd>>,
    ) -> Result<Self> {
        fork_detection::watch_forks()?;
        let machine = Linux::open();
        let page_bytes = machine.page_bytes() as usize;
        let mut zones = Vec::new();
        for node in usable.iter() {
            let (bounds, limits) = zone_bounds(options, &topology, node, page_bytes)?;
            zones.extend(sizes.iter().map(|&size| (node, size, bounds, limits)));
        }
        let period = match options.period {
            Duration::ZERO => PoolOptions::PERIOD,
            period => period,
        };
        let pool = Arc::new(Pool::new(PoolParts {
            arena: Arena::new(page_bytes, uffd),
            zones,
            size: options.page,
            topology,
            headroom: Arc::new(Headroom::new(machine)),
            tuning: options.tuning,
            period,
        }));
        let keeper = options.housekeeper.then(|| Housekeeper::start(&pool, period)).transpose()?;
        Ok(Self(Arc::new(PoolHandle { pool: Some(pool), housekeeper: keeper, pager: None })))
    }

    /// Returns another handle of a pager's pool. The handle keeps the pager alive.
    pub(crate) fn of_pager(pool: &Arc<Pool>, pager: Pager) -> Self {
        let pool = Some(Arc::clone(pool));
        Self(Arc::new(PoolHandle { pool, housekeeper: None, pager: Some(pager) }))
    }

    pub(crate) fn shared(&self) -> &Arc<Pool> {
        self.0.pool.as_ref().expect("it is there until the last handle is gone")
    }

    /// Allocates a run of 2^order pages, which begins at a multiple of its length.
    ///
    /// # Errors
    /// [`PoolError::NoMemory`] if no allowed node has room, [`PoolError::UnknownNode`],
    /// [`PoolError::Order`], [`PoolError::Closed`], [`PoolError::Forked`].
    pub fn allocate(&self, wanted: &RunRequest) -> std::result::Result<NonNull<u8>, PoolError> {
        self.pool().allocate(wanted)
    }

    /// Frees a run that [`PagePool::allocate`] returned, with its order. The memory must not be
    /// used any more.
    ///
    /// # Errors
    /// If no run of this order was allocated there, or it was freed before. Then nothing happens.
    pub fn free(&self, start: NonNull<u8>, order: u32) -> std::result::Result<(), PoolError> {
        self.pool().free(start, order)
    }

    /// Allocates a run that is freed when it is dropped.
    ///
    /// # Errors
    /// As for [`PagePool::allocate`].
    pub fn run(&self, wanted: &RunRequest) -> std::result::Result<PageRun<'_>, PoolError> {
        PageRun::new(self.pool(), wanted)
    }

    /// Returns the size of a base page in bytes.
    pub fn page_bytes(&self) -> usize {
        self.pool().arena.page_bytes()
    }

    /// Returns the largest order; such a run has 2 MiB.
    pub fn order_max(&self) -> u32 {
        self.pool().arena.chunk_pages().ilog2()
    }

    /// Returns the counters of the pool; all zero in children of fork(2). Visits the lists of all
    /// CPUs, which takes some time on a large machine.
    pub fn stats(&self) -> PoolStats {
        let is_ours = self.pool().check_process().is_ok();
        // In a child, locks may be held for ever.
        if is_ours { self.pool().stats() } else { PoolStats::default() }
    }

    /// Frees all free memory to the kernel and returns the number of bytes. In a child of fork(2)
    /// there are none.
    pub fn give_back(&self) -> usize {
        let is_ours = self.pool().check_process().is_ok();
        if is_ours { self.pool().give_back() * self.page_bytes() } else { 0 }
    }

    /// Does the periodic work. To be called once in a period for pools without housekeeper.
    pub fn tick(&self) {
        if self.pool().check_process().is_ok() {
            self.pool().tick();
        }
    }

    /// Ends allocation for good. Allocated runs stay valid and can be freed.
    pub fn close(&self) {
        self.pool().close();
    }

    fn pool(&self) -> &Pool {
        self.shared()
    }
}

impl fmt::Debug for PagePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagePool").field("zones", &self.pool().zones.len()).finish_non_exhaustive()
    }
}

impl Drop for PoolHandle {
    fn drop(&mut self) {
        let (pool, housekeeper) = (self.pool.take(), self.housekeeper.take());
        let Some(pool) = pool.filter(|_| self.pager.is_none()) else { return };
        if pool.check_process().is_err() {
            // Its memory and thread are in the parent, and its locks may be held for ever.
            std::mem::forget((pool, housekeeper));
            return;
        }
        housekeeper.into_iter().for_each(Housekeeper::stop);
        pool.give_back();
    }
}

fn zone_bounds(
    options: &PoolOptions,
    topology: &Topology,
    node: NodeId,
    page_bytes: usize,
) -> Result<(ZoneBounds, ListLimits)> {
    let of_node = topology.nodes.get(&node);
    let memory = of_node.and_then(|node| node.memory_bytes).unwrap_or(u64::MAX);
    let pages = options.zone_bytes.unwrap_or(memory).min(memory) as usize / page_bytes;
    if pages == 0 {
        return Err(Error::BadOption {
            problem: format!(
                "a zone of {} bytes has no page",
                options.zone_bytes.unwrap_or(memory)
            ),
            remedy: format!("give it {page_bytes} bytes at least"),
        });
    }
    let cpus = of_node.map_or(0, |node| node.cpus.len());
    let cpus = if cpus > 0 { cpus } else { topology.cpus.len().max(1) };
    let batch = options.batch.unwrap_or(PoolOptions::BATCH);
    let high_default = options.high_default.unwrap_or(batch.saturating_mul(4));
    let high_max = u32::try_from(pages / NODE_SHARE / cpus).unwrap_or(u32::MAX);
    let keep = options.keep_bytes as usize / page_bytes;
    let bounds = ZoneBounds {
        held_pages_max: pages,
        free_pages_max: (pages / NODE_SHARE).max(keep),
        keep_pages: keep,
    };
    Ok((bounds, ListLimits { batch, high_default, high_max: high_max.max(high_default) }))
}
