//! Regions of this process by their addresses, for callers that name memory and no region, as C and
//! Python do.
//!
//! They are those of the first process that had any. A child of fork(2) may find the lock taken for
//! ever, so it does not ask for it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::process;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::Region;

/// Regions by their first address. What has ended is dropped when another region is entered.
static REGIONS: Mutex<BTreeMap<usize, Weak<Region>>> = Mutex::new(BTreeMap::new());

/// The process that has the regions; 0 before there is one.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Enters a new region.
pub fn enter(region: &Arc<Region>) {
    // The first process keeps them.
    OWNER.compare_exchange(0, process::id(), Relaxed, Relaxed).ok();
    let Some(mut regions) = lock() else { return };
    regions.retain(|_, known| known.strong_count() > 0);
    regions.insert(region.as_ptr().addr(), Arc::downgrade(region));
}

/// Returns the region that has all of this memory, and the whole pages of it in which the memory
/// lies, in bytes from its start.
pub fn holding(address: usize, bytes: usize) -> Option<(Arc<Region>, Range<usize>)> {
    let regions = lock()?;
    let (&start, region) = regions.range(..=address).next_back()?;
    let region = region.upgrade()?;
    let (from, page_bytes) = (address - start, region.page_bytes());
    let end = from.checked_add(bytes)?.checked_next_multiple_of(page_bytes)?;
    (end <= region.bytes()).then_some((region, from / page_bytes * page_bytes..end))
}

/// Locks the regions; `None` in a child of the process that has them.
fn lock() -> Option<MutexGuard<'static, BTreeMap<usize, Weak<Region>>>> {
    let is_own = OWNER.load(Relaxed) == process::id();
    is_own.then(|| REGIONS.lock().unwrap_or_else(PoisonError::into_inner))
}
