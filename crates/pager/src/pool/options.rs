//! Options and statistics of a page pool.

use std::time::Duration;

use nodeward_model::{CpuId, NodeId};
use nodeward_policy::pcp::TunerKind;

use crate::chunk::PageSize;

/// Options of a [`crate::PagePool`].
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Policy that sets the length of the per-CPU lists.
    pub tuning: TunerKind,
    /// Page size of the pool's memory. Either size supplies runs of all orders. Huge pages reduce
    /// TLB misses and are taken from the kernel as a whole.
    pub page: PageSize,
    /// Maximum bytes of the pool on each node. The lists of a node hold at most an eighth of it,
    /// and at most an eighth is free in its zone. `None`: all memory of the node.
    pub zone_bytes: Option<u64>,
    /// Minimum number of base pages that move between a list and its zone at a time; `None`:
    /// [`PoolOptions::BATCH`].
    pub batch: Option<u32>,
    /// Base pages that a list holds unless the policy finds more useful; zero for no lists; `None`:
    /// four batches.
    pub high_default: Option<u32>,
    /// Free bytes that stay on each node while nothing is allocated.
    pub keep_bytes: u64,
    /// The period of tuning. The policies are made for one second; with another period they scale
    /// in proportion. Zero means one second.
    pub period: Duration,
    /// Run a thread that does the periodic work: it notices that a CPU is idle or offline, and that
    /// the machine's memory is short. Without it, call [`crate::PagePool::tick`].
    pub housekeeper: bool,
}

impl PoolOptions {
    /// The kernel's batch for a zone of a gigabyte or more (Linux 6.12, `zone_batchsize`).
    pub const BATCH: u32 = 63;
    /// The period that the policies are made for.
    pub const PERIOD: Duration = Duration::from_secs(1);
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            tuning: TunerKind::default(),
            page: PageSize::Base,
            zone_bytes: None,
            batch: None,
            high_default: None,
            keep_bytes: 0,
            period: Self::PERIOD,
            housekeeper: true,
        }
    }
}

/// An allocation request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunRequest {
    /// Size of the run: 2^order base pages, with an order from 0 to
    /// [`crate::PagePool::order_max`].
    pub order: u32,
    /// All bytes are zero; otherwise the content of an earlier use remains.
    pub zeroed: bool,
    /// The node; `None`: the node of the calling thread's CPU, or the nearest one that has room.
    pub node: Option<NodeId>,
}

/// Counters of a pool. Each is exact by itself, but other threads go on allocating between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Base pages in memory.
    pub held_pages: u64,
    /// Base pages that callers have.
    pub in_use_pages: u64,
    /// Base pages in the lists of CPUs.
    pub listed_pages: u64,
    /// Base pages that are free in the zones.
    pub zone_free_pages: u64,
    /// The maximum of `held_pages` so far.
    pub peak_held_pages: u64,
    /// Number of times that the lock of a zone was taken to move pages to or from a list.
    pub zone_visits: u64,
    /// Base pages allocated since the pool was opened.
    pub allocated_pages: u64,
    /// Base pages freed since the pool was opened.
    pub freed_pages: u64,
    /// The lists that were used. A CPU has a second one per zone, for when the scheduler preempts a
    /// thread that holds the first.
    pub lists: Vec<ListStats>,
}

/// Counters of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListStats {
    /// The CPU that uses the list.
    pub cpu: CpuId,
    /// The node of the pages.
    pub node: NodeId,
    /// Number of base pages in the list.
    pub pages: u32,
    /// Maximum number of base pages that the list holds.
    pub high: u32,
}
