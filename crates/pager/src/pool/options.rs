//! What a program asks of a page pool, and what it tells.

use std::time::Duration;

use nodeward_model::{CpuId, NodeId};
use nodeward_policy::pcp::Tuning;

use crate::PageSize;

/// How a [`crate::PagePool`] is set up.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// What the length of the per-CPU lists follows.
    pub tuning: Tuning,
    /// What its memory is made of. Runs of all orders come of either; huge pages spare translations
    /// and are taken from the kernel as a whole.
    pub page: PageSize,
    /// Bytes that the pool has on each node at most. The lists of a node hold an eighth of it at
    /// most, and its zone keeps an eighth of it free at most. `None`: all memory of the node.
    pub zone_bytes: Option<u64>,
    /// Base pages that go between a list and its zone at a time, at least; `None`:
    /// [`PoolOptions::BATCH`].
    pub batch: Option<u32>,
    /// Base pages that a list holds unless more are shown to be of use, zero for no lists; `None`:
    /// four batches.
    pub high_default: Option<u32>,
    /// Free bytes that stay on each node when nobody allocates.
    pub keep_bytes: u64,
    /// The period of tuning. The policies know one of a second; with another one they work in
    /// proportion. Zero is none and means a second.
    pub period: Duration,
    /// Whether a thread looks after the pool once in a period: it notices that a CPU is idle, that
    /// one is gone, and that the machine's memory is short. Without it, call
    /// [`crate::PagePool::tick`].
    pub housekeeper: bool,
}

impl PoolOptions {
    /// The kernel's batch for a zone of a gigabyte or more (Linux 6.12, `zone_batchsize`).
    pub const BATCH: u32 = 63;
    /// The period that the policies know.
    pub const PERIOD: Duration = Duration::from_secs(1);
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            tuning: Tuning::default(),
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

/// What run is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// It has 2^order base pages.
    pub order: u32,
    /// All bytes are zero; otherwise they are what somebody left there.
    pub zeroed: bool,
    /// It is of this node; `None`: on the node of the calling thread's CPU, or on the nearest
    /// one that has room.
    pub node: Option<NodeId>,
}

/// What a pool has done and has; each number by itself is right, while others go on allocating.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Base pages in memory.
    pub held_pages: u64,
    /// Those that somebody has.
    pub in_use_pages: u64,
    /// Those in lists of CPUs.
    pub listed_pages: u64,
    /// Those that are free in the zones.
    pub zone_free_pages: u64,
    /// The most that were ever in memory.
    pub peak_held_pages: u64,
    /// How often the lock of a zone was taken to move pages between it and a list.
    pub zone_visits: u64,
    /// Base pages allocated since the pool was opened.
    pub allocated_pages: u64,
    /// Base pages freed since.
    pub freed_pages: u64,
    /// The lists that were used. A CPU has a second one of a zone, for while the scheduler took the
    /// CPU from a thread that has the first.
    pub lists: Vec<ListStats>,
}

/// One list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListStats {
    /// Whose it is.
    pub cpu: CpuId,
    /// Where its pages are.
    pub node: NodeId,
    /// Base pages in it.
    pub pages: u32,
    /// Base pages that it holds at most.
    pub high: u32,
}
