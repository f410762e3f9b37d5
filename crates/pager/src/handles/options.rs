//! Options of a pager.

use std::fmt;
use std::sync::Arc;

use crate::copier::Copier;
use crate::pool::PoolOptions;

/// Options of a [`crate::Pager`].
#[derive(Clone, Default)]
pub struct PagerOptions {
    /// Number of threads that migrate pages, 1 to 256; `None`: one per usable physical core, at
    /// most 16.
    pub lanes: Option<u32>,
    /// Bytes per node of pages that earlier migrations emptied, kept as destinations of later ones;
    /// `None`: [`PagerOptions::POOL_BYTES`].
    pub pool_bytes: Option<u64>,
    /// Options of the pool that keeps them, and that the program may allocate from
    /// ([`crate::Pager::pool`]). `pool_bytes` replaces its `keep_bytes`.
    pub pool: PoolOptions,
    /// The copier; `None`: the fastest of this machine, found by measurement.
    pub copier: Option<Arc<dyn Copier>>,
    /// Use userfaultfd even where it can only handle faults of user code (unprivileged_userfaultfd
    /// = 0, no access to /dev/userfaultfd). The program promises to pass no managed memory to a
    /// system call while pages move: read(2) and write(2) would fail with EFAULT.
    pub assume_no_syscalls: bool,
    /// Use only the method that works everywhere: move_pages(2) on this process.
    pub kernel_only: bool,
}

impl PagerOptions {
    /// Default of `pool_bytes`.
    pub const POOL_BYTES: u64 = 64 << 20;
}

impl fmt::Debug for PagerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagerOptions")
            .field("lanes", &self.lanes)
            .field("pool_bytes", &self.pool_bytes)
            .field("pool", &self.pool)
            .field("copier", &self.copier.as_ref().map(|copier| copier.name()))
            .field("assume_no_syscalls", &self.assume_no_syscalls)
            .field("kernel_only", &self.kernel_only)
            .finish()
    }
}
