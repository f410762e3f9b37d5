//! The free pages of a node, and the lock that protects them.

use nodeward_policy::pcp::ListLimits;
use nodeward_scenario::MachineSpec;

use super::region::CHUNK_BYTES;
use crate::events::QueuedLock;

/// Returns the number of base pages (of `page_bytes` each) in a huge page.
pub fn huge_pages(page_bytes: u64) -> u64 {
    (CHUNK_BYTES / page_bytes).max(1)
}

/// The free pages of a node.
///
/// They have no addresses: a zone has a huge page as long as it has that many free pages.
#[derive(Debug)]
pub struct Zone {
    /// Free pages that are in no list.
    pub free_pages: u64,
    /// Pages in lists of CPUs.
    pub listed_pages: u64,
    /// All pages of the zone.
    pub managed_pages: u64,
    /// Whether allocation is disabled because the memory is offline or about to go offline.
    pub is_offline: bool,
    /// Pages that went offline.
    pub offline_pages: u64,
    /// Pages that were requested from this zone and came from elsewhere.
    pub foreign_pages: u64,
    /// Memory is short with fewer free pages than this (the kernel's high watermark).
    pub high_watermark: u64,
    /// Its lock.
    pub lock: QueuedLock,
    /// The limits of the lists of CPUs.
    pub limits: ListLimits,
}

impl Zone {
    /// Creates the zone of a node, all of it free; `cpus` is the number of CPUs with lists.
    pub fn new(machine: &MachineSpec, node: usize, cpus: u64) -> Self {
        let pages = machine.nodes[node].memory_bytes / machine.params.page_bytes.max(1);
        let low = low_watermark(machine, pages);
        Self {
            free_pages: pages,
            listed_pages: 0,
            managed_pages: pages,
            is_offline: false,
            offline_pages: 0,
            foreign_pages: 0,
            // Watermarks are a quarter of the lowest one apart: 4/4, 5/4, 6/4.
            high_watermark: (low * 6 / 5).min(pages),
            lock: QueuedLock::default(),
            limits: list_limits(machine, pages, low, cpus.max(1)),
        }
    }
}

/// Returns the low watermark of a zone of `pages` pages, as Linux computes it: the zone's share of
/// the machine's `4 * sqrt(16 * KiB)` KiB, plus a quarter.
fn low_watermark(machine: &MachineSpec, pages: u64) -> u64 {
    let kib = machine.memory_bytes() / 1024;
    let min_kib = kib.saturating_mul(16).isqrt().min(262_144);
    let all_pages = (machine.memory_bytes() / machine.params.page_bytes.max(1)).max(1);
    let min_pages = u128::from(min_kib) * 1024 / u128::from(machine.params.page_bytes.max(1));
    let share = min_pages * u128::from(pages) / u128::from(all_pages) * 5 / 4;
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Returns the limits of the lists of `cpus` CPUs, as in Linux (`zone_highsize`).
fn list_limits(machine: &MachineSpec, pages: u64, low: u64, cpus: u64) -> ListLimits {
    let params = &machine.params;
    let or = |told: u64, usual: u64| if told > 0 { told } else { usual };
    let batch = params.pcp_batch.max(1);
    let high = or(params.pcp_high, (low / cpus).max(batch.saturating_mul(4)));
    let high_max = or(params.pcp_high_max, pages / 8 / cpus).max(high);
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    ListLimits { batch: number(batch), high_default: number(high), high_max: number(high_max) }
}

impl Zone {
    /// Returns the number of pages in lists of CPUs, from the maintained sum.
    pub fn listed_pages(&self) -> u64 {
        self.listed_pages
    }
}

/// The purpose of taking a zone's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneTransfer {
    /// Pages go to a list or to a process.
    Refill,
    /// Pages come back.
    Free,
}
