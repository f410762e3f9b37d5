//! A pool of page runs.
//!
//! A handle is a few bytes that stay for as long as the process lives, so that whoever still has
//! one after the pool was released is told so. Allocating and freeing read one pointer in it.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use nodeward::{NodeId, PagePool, PoolStats, RunRequest};

use crate::options::{self, NodewardPoolOptions};
use crate::pointers;
use crate::sized::{self, Versioned};
use crate::status::{CallFailure, status_of};

/// For nodeward_pool_allocate(): all bytes are zero. Without it they have any content.
pub const NODEWARD_POOL_ZEROED: u32 = 1;
/// For nodeward_pool_allocate(): the node of the calling thread's CPU, or, if that one has no room,
/// the nearest one that has.
pub const NODEWARD_ANY_NODE: u32 = u32::MAX;

/// Hands out runs of pages and takes them back.
#[derive(Debug)]
pub struct NodewardPool(AtomicPtr<PagePool>);

/// All handles there ever were: programs that look for leaks find who has them.
static HANDLES: Mutex<Vec<&'static NodewardPool>> = Mutex::new(Vec::new());

impl NodewardPool {
    /// Hands a pool over to C, which gives it back to [`nodeward_pool_release`].
    pub fn into_c(pool: PagePool) -> *mut Self {
        let pool = AtomicPtr::new(pointers::into_c(pool));
        let handle: &'static Self = Box::leak(Box::new(Self(pool)));
        HANDLES.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        ptr::from_ref(handle).cast_mut()
    }
}

/// The pool of a handle.
///
/// # Safety
/// The handle is NULL or comes from [`NodewardPool::into_c`], and the pool is not released while
/// the caller uses it.
unsafe fn pool_of<'a>(handle: *const NodewardPool) -> Result<&'a PagePool, CallFailure> {
    // SAFETY: handles stay.
    let handle = unsafe { pointers::deref(handle, "pool") }?;
    let pool = handle.0.load(Ordering::Acquire);
    // SAFETY: it lives until it is released.
    let pool = unsafe { pool.as_ref() };
    // Not by ok_or(): it makes the failure, and drops it again where there is none.
    if let Some(pool) = pool { Ok(pool) } else { Err(CallFailure::PoolReleased) }
}

/// Counts of a pool, in base pages. Set `size` before the call; the call writes all other fields.
/// They agree with each other only while nobody uses the pool, the housekeeper included.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodewardPoolStats {
    /// sizeof(struct nodeward_pool_stats)
    pub size: usize,
    /// In memory.
    pub held_pages: u64,
    /// Allocated, or on their way to the kernel.
    pub in_use_pages: u64,
    /// In lists of CPUs.
    pub listed_pages: u64,
    /// Free in the zones.
    pub zone_free_pages: u64,
    /// The most that were ever in memory.
    pub peak_held_pages: u64,
    /// Number of times that the lock of a zone was taken to move pages between it and a list.
    pub zone_visits: u64,
    /// Allocated since the pool was opened.
    pub allocated_pages: u64,
    /// Freed since the pool was opened.
    pub freed_pages: u64,
}

// SAFETY: numbers only, without padding, size first; zeros are valid.
unsafe impl Versioned for NodewardPoolStats {
    const NAME: &'static str = "nodeward_pool_stats";
    const FIRST_SIZE: usize = offset_of!(Self, freed_pages) + size_of::<u64>();
}

impl From<&PoolStats> for NodewardPoolStats {
    fn from(stats: &PoolStats) -> Self {
        Self {
            size: size_of::<Self>(),
            held_pages: stats.held_pages,
            in_use_pages: stats.in_use_pages,
            listed_pages: stats.listed_pages,
            zone_free_pages: stats.zone_free_pages,
            peak_held_pages: stats.peak_held_pages,
            zone_visits: stats.zone_visits,
            allocated_pages: stats.allocated_pages,
            freed_pages: stats.freed_pages,
        }
    }
}

/// Opens a pool, which has no memory yet, and writes it to `pool`. It ends with
/// nodeward_pool_release(). `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pool_open(
    options: *const NodewardPoolOptions,
    pool: *mut *mut NodewardPool,
) -> c_int {
    status_of(|| {
        // SAFETY: C has a place for the handle.
        unsafe { pointers::write(pool, "pool", ptr::null_mut()) }?;
        // SAFETY: C hands over a struct of the size that it says.
        let options = unsafe { options::pool(options) }?;
        let opened = NodewardPool::into_c(PagePool::open(&options)?);
        // SAFETY: C has a place for the handle.
        unsafe { pointers::write(pool, "pool", opened) }
    })
}

/// Refuses further allocations with NODEWARD_STATUS_POOL_CLOSED. Allocated runs stay valid and can
/// be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pool_close(pool: *const NodewardPool) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        unsafe { pool_of(pool) }?.close();
        Ok(())
    })
}

/// Ends a pool: its free memory goes back to the kernel, that of a pager's pool when the pager
/// ends. Runs that were not freed stay valid for as long as the process lives. No other call with
/// the pool may be under way; those that begin later are refused with
/// NODEWARD_STATUS_POOL_RELEASED. Does nothing for NULL and for a pool that was released before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pool_release(pool: *mut NodewardPool) {
    // SAFETY: handles stay.
    let Some(handle) = (unsafe { pool.as_ref() }) else { return };
    let pool = handle.0.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: whoever swaps it out has it alone.
    unsafe { pointers::free_box(pool) };
}

/// Allocates a run of 2^order base pages and writes the address of its first byte, a multiple of
/// its length, to `run`. Any thread may use and free the run. `flags`: NODEWARD_POOL_ZEROED or 0.
/// `node`: the node of the run, or NODEWARD_ANY_NODE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pool_allocate(
    pool: *const NodewardPool,
    order: u32,
    flags: u32,
    node: u32,
    run: *mut *mut c_void,
) -> c_int {
    status_of(|| {
        // SAFETY: C has a place for the pointer.
        unsafe { pointers::write(run, "run", ptr::null_mut()) }?;
        let wanted = run_request(order, flags, node)?;
        // SAFETY: C keeps it alive.
        let start = unsafe { pool_of(pool) }?.allocate(&wanted)?;
        // SAFETY: C has a place for the pointer.
        unsafe { pointers::write(run, "run", start.as_ptr().cast()) }
    })
}

fn run_request(order: u32, flags: u32, node: u32) -> Result<RunRequest, CallFailure> {
    options::known_flags(flags.into(), NODEWARD_POOL_ZEROED, "nodeward_pool_allocate")?;
    let node: Option<NodeId> = match node {
        NODEWARD_ANY_NODE => None,
        number => Some(options::node(number)?),
    };
    Ok(RunRequest { order, zeroed: flags & NODEWARD_POOL_ZEROED != 0, node })
}

/// Frees a run of nodeward_pool_allocate(), with its order. Nobody may use it any more. An address
/// that is no run of this order, or was freed before, is refused without effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pool_free(
    pool: *const NodewardPool,
    run: *mut c_void,
    order: u32,
) -> c_int {
    status_of(|| {
        let start = NonNull::new(run.cast::<u8>()).ok_or_else(|| pointers::null_argument("run"))?;
        // SAFETY: C keeps it alive.
        Ok(unsafe { pool_of(pool) }?.free(start, order)?)
    })
}

/// Gives all free memory back to the kernel and writes how much that was to `bytes`, which may be
/// NULL. Does nothing in a child of fork(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pool_give_back(
    pool: *const NodewardPool,
    bytes: *mut usize,
) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        let given = unsafe { pool_of(pool) }?.give_back();
        if bytes.is_null() {
            return Ok(());
        }
        // SAFETY: C has a place for the number.
        unsafe { pointers::write(bytes, "bytes", given) }
    })
}

/// Does what is due once in a period, for pools with NODEWARD_POOL_NO_HOUSEKEEPER. Does nothing in
/// a child of fork(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pool_tick(pool: *const NodewardPool) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        unsafe { pool_of(pool) }?.tick();
        Ok(())
    })
}

/// Writes the counts of the pool to `stats`; all zero in a child of fork(2). Takes a moment on a
/// machine with many CPUs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pool_stats(
    pool: *const NodewardPool,
    stats: *mut NodewardPoolStats,
) -> c_int {
    status_of(|| {
        // SAFETY: C keeps it alive.
        let pool = unsafe { pool_of(pool) }?;
        if stats.is_null() {
            return Err(pointers::null_argument("stats"));
        }
        // SAFETY: C hands over a struct of the size that it says.
        unsafe { sized::write(stats, &NodewardPoolStats::from(&pool.stats())) }
    })
}

/// Returns the bytes of a base page; 0 for NULL and for a pool that was released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pool_page_bytes(pool: *const NodewardPool) -> usize {
    // SAFETY: C keeps it alive.
    unsafe { pool_of(pool) }.map_or(0, PagePool::page_bytes)
}

/// Returns the largest order, that of a run of 2 MiB; 0 for NULL and for a pool that was released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pool_order_max(pool: *const NodewardPool) -> u32 {
    // SAFETY: C keeps it alive.
    unsafe { pool_of(pool) }.map_or(0, PagePool::order_max)
}
