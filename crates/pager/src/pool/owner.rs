//! The owner of a pool: it opens the pool and its housekeeper, and ends both.

use std::sync::Arc;
use std::time::Duration;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::{NodeId, Nodemask, Topology};
use nodeward_policy::pcp::ListLimits;

use super::arena::Arena;
use super::fork_detection;
use super::headroom::Headroom;
use super::housekeeper::Housekeeper;
use super::options::PoolOptions;
use super::pool::{Pool, PoolParts, ZoneBounds, ZoneParts};
use crate::chunk::PageSize;
use crate::error::{Error, Result};
use crate::sys::Uffd;

/// The lists of a node hold at most an eighth of its zone, as in the kernel. At most another eighth
/// may be free in the zone.
const NODE_SHARE: usize = 8;

/// A pool and its housekeeper. When the owner is dropped, the housekeeper ends, and all free pages
/// go back to the kernel.
pub struct PoolOwner {
    /// `None` only while this is dropped.
    pool: Option<Arc<Pool>>,
    housekeeper: Option<Housekeeper>,
}

impl PoolOwner {
    /// Opens a pool with pages of these sizes on these nodes. It can take memory of regions only if
    /// `uffd` is the userfaultfd that the regions are registered with.
    ///
    /// # Errors
    /// If the machine's state cannot be read, a thread cannot be started, or an option is invalid.
    pub fn open(
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
            zones.extend(sizes.iter().map(|&size| ZoneParts { node, size, bounds, limits }));
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
            headroom: Arc::new(Headroom::new(machine, usable)),
            tuning: options.tuning,
            period,
        }));
        let keeper = options.housekeeper.then(|| Housekeeper::start(&pool, period)).transpose()?;
        Ok(Self { pool: Some(pool), housekeeper: keeper })
    }

    /// Returns the pool.
    pub fn pool(&self) -> &Arc<Pool> {
        self.pool.as_ref().expect("it is there until the owner is gone")
    }
}

impl Drop for PoolOwner {
    fn drop(&mut self) {
        let (Some(pool), housekeeper) = (self.pool.take(), self.housekeeper.take()) else { return };
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
