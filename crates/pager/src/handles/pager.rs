//! The public handle of a pager. It opens the pager, and makes its regions.

use std::fmt;
use std::sync::Arc;

use super::fork_handlers;
use super::options::PagerOptions;
use super::page_pool::PagePool;
use super::pager_shared::PagerShared;
use super::region::Region;
use crate::backend::Backend;
use crate::error::Result;
use crate::region::RegionOptions;

/// Manages memory of this process: regions whose pages move between nodes while they are in use. A
/// clone is another handle of the same pager. The pager ends with its last handle and region.
#[derive(Clone)]
pub struct Pager(Arc<PagerShared>);

impl Pager {
    /// Probes which methods work here and starts the threads.
    ///
    /// # Errors
    /// [`Error::BadOption`] for lanes out of range or a pool without a page. [`Error::System`] and
    /// [`Error::NoDescriptor`] if threads, memory or descriptors cannot be obtained.
    /// [`Error::Machine`] if /sys or /proc cannot be read. A kernel that supports only a slow
    /// method is no error: see [`Pager::backend`].
    ///
    /// [`Error::BadOption`]: crate::Error::BadOption
    /// [`Error::System`]: crate::Error::System
    /// [`Error::NoDescriptor`]: crate::Error::NoDescriptor
    /// [`Error::Machine`]: crate::Error::Machine
    pub fn open(options: &PagerOptions) -> Result<Self> {
        let shared = Arc::new(PagerShared::open(options)?);
        if shared.uffd_backend.is_some() {
            fork_handlers::register(&shared)?;
        }
        Ok(Self(shared))
    }

    /// Returns the method by which pages move on this kernel.
    pub fn backend(&self) -> Backend {
        self.0.backend
    }

    /// Returns the reason for which no faster method is used, and the remedy; `None` if the method
    /// is the fastest.
    pub fn why_not_faster(&self) -> Option<&str> {
        self.0.why_not_faster.as_deref()
    }

    /// Returns the name of the copier; `None` if the kernel copies.
    pub fn copier(&self) -> Option<&'static str> {
        self.0.uffd_backend.as_ref().map(|backend| backend.context.copier.name())
    }

    /// Returns the maximum number of lanes of a migration.
    pub fn lanes(&self) -> u32 {
        self.0.lanes_max
    }

    /// Reserves address space for a region of `bytes` bytes, at least 1, rounded up to 2 MiB. No
    /// page is in memory yet; memory reads as zero at the first touch.
    ///
    /// # Errors
    /// `BadOption` for 0 bytes or for interleaving over no node, `UnknownNode` for a node of the
    /// placement, `NoHugePages`, `Forked`, and `System` if no address space is left.
    pub fn reserve(&self, bytes: usize, options: &RegionOptions) -> Result<Region> {
        self.0.check_caller()?;
        Region::reserve(&self.0, bytes, options)
    }

    /// Frees the recycled pages, and all other free pages of the pool.
    /// Returns the number of bytes freed. In a child of fork(2) there are none.
    pub fn trim(&self) -> usize {
        self.pool().give_back()
    }

    /// Returns the pool that receives pages that migrations empty, and supplies destination pages.
    /// The program may allocate from it, too.
    pub fn pool(&self) -> PagePool {
        PagePool::of_pager(&self.0)
    }
}

impl fmt::Debug for Pager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pager")
            .field("backend", &self.backend())
            .field("lanes", &self.lanes())
            .field("copier", &self.copier())
            .finish_non_exhaustive()
    }
}
