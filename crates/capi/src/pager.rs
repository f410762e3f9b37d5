//! The pager.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use nodeward::Pager;

use crate::options::{self, NodewardPagerOptions, NodewardRegionOptions};
use crate::pointers;
use crate::pool::NodewardPool;
use crate::region::NodewardRegion;
use crate::status::status_of;

/// Manages memory of this process: regions whose pages move between nodes while they are in use.
#[derive(Debug)]
pub struct NodewardPager {
    pager: Pager,
    backend: CString,
    why_not_faster: Option<CString>,
    copier: Option<CString>,
}

impl NodewardPager {
    fn new(pager: Pager) -> Self {
        // None of these texts has a NUL; if one had, it would read as "".
        let text = |words: &str| CString::new(words).unwrap_or_default();
        let backend = text(pager.backend().name());
        let why_not_faster = pager.why_not_faster().map(text);
        let copier = pager.copier().map(text);
        Self { pager, backend, why_not_faster, copier }
    }
}

/// Probes what works here and starts the threads. The pager is written to `pager` and ends with
/// nodeward_pager_close(). `options` may be NULL. A kernel that offers little is no error: see
/// nodeward_pager_backend().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pager_open(
    options: *const NodewardPagerOptions,
    pager: *mut *mut NodewardPager,
) -> c_int {
    status_of(|| {
        // SAFETY: C has a place for the handle.
        unsafe { pointers::write(pager, "pager", ptr::null_mut()) }?;
        // SAFETY: C hands over a struct of the size that it says.
        let options = unsafe { options::pager(options) }?;
        let opened = pointers::into_c(NodewardPager::new(Pager::open(&options)?));
        // SAFETY: C has a place for the handle.
        unsafe { pointers::write(pager, "pager", opened) }
    })
}

/// Ends the handle. The pager itself ends with its last region and the last handle of its pool.
/// Does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pager_close(pager: *mut NodewardPager) {
    // SAFETY: it comes from `nodeward_pager_open`, and C does not use it again.
    unsafe { pointers::free_box(pager) };
}

/// Returns how pages move here: "move" (UFFDIO_MOVE, Linux 6.8), "remap" (only regions with
/// NODEWARD_REGION_FREE_OF_DMA) or "kernel" (move_pages(2)), fastest first. Valid as long as the
/// pager. NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pager_backend(pager: *const NodewardPager) -> *const c_char {
    // SAFETY: C keeps it alive.
    unsafe { pager.as_ref() }.map_or(ptr::null(), |pager| pager.backend.as_ptr())
}

/// The old name of nodeward_pager_backend(). Deprecated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pager_road(pager: *const NodewardPager) -> *const c_char {
    // SAFETY: the caller keeps the contract of the function with the new name.
    unsafe { nodeward_pager_backend(pager) }
}

/// Returns why no faster method works and what to do; NULL for the fastest. Valid as long as the
/// pager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pager_why_not_faster(
    pager: *const NodewardPager,
) -> *const c_char {
    // SAFETY: C keeps it alive.
    let why = unsafe { pager.as_ref() }.and_then(|pager| pager.why_not_faster.as_ref());
    why.map_or(ptr::null(), |why| why.as_ptr())
}

/// Returns the name of the routine that copies pages, for example "memcpy"; NULL if the kernel
/// copies them. Valid as long as the pager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pager_copier(pager: *const NodewardPager) -> *const c_char {
    // SAFETY: C keeps it alive.
    let copier = unsafe { pager.as_ref() }.and_then(|pager| pager.copier.as_ref());
    copier.map_or(ptr::null(), |copier| copier.as_ptr())
}

/// Returns the most lanes that a migration gets; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pager_lanes(pager: *const NodewardPager) -> u32 {
    // SAFETY: C keeps it alive.
    unsafe { pager.as_ref() }.map_or(0, |pager| pager.pager.lanes())
}

/// Frees the recycled pages and all others that are free in the pool.
/// Returns how many bytes; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pager_trim(pager: *const NodewardPager) -> usize {
    // SAFETY: C keeps it alive.
    unsafe { pager.as_ref() }.map_or(0, |pager| pager.pager.trim())
}

/// Writes the pager's page pool to `pool`. Pages that migrations empty go to it; later migrations
/// and the program take pages from it. The handle ends with nodeward_pool_release(); the pager
/// lives at least as long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_pager_pool(
    pager: *const NodewardPager,
    pool: *mut *mut NodewardPool,
) -> c_int {
    status_of(|| {
        // SAFETY: C has a place for the handle.
        unsafe { pointers::write(pool, "pool", ptr::null_mut()) }?;
        // SAFETY: C keeps it alive.
        let pager = unsafe { pointers::deref(pager, "pager") }?;
        // SAFETY: C has a place for the handle.
        unsafe { pointers::write(pool, "pool", NodewardPool::into_c(pager.pager.pool())) }
    })
}

/// Reserves address space for a region of `bytes`, rounded up to 2 MiB, and writes it to `region`.
/// It has no memory yet and reads as zero. It ends with nodeward_region_release(). `options` may be
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_region_reserve(
    pager: *const NodewardPager,
    bytes: usize,
    options: *const NodewardRegionOptions,
    region: *mut *mut NodewardRegion,
) -> c_int {
    status_of(|| {
        // SAFETY: C has a place for the handle.
        unsafe { pointers::write(region, "region", ptr::null_mut()) }?;
        // SAFETY: C keeps it alive.
        let pager = unsafe { pointers::deref(pager, "pager") }?;
        // SAFETY: C hands over a struct of the size that it says.
        let options = unsafe { options::region(options) }?;
        let reserved = NodewardRegion::new(pager.pager.reserve(bytes, &options)?);
        // SAFETY: C has a place for the handle.
        unsafe { pointers::write(region, "region", pointers::into_c(reserved)) }
    })
}
