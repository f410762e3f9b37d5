//! The pager of a process.

use crate::{Error, PagerOptions, Region, RegionOptions, Result, Road};

/// Manages memory of this process: regions whose pages move between nodes while they are in use.
/// A clone is another handle of the same pager, which ends with its last handle and region.
#[derive(Clone, Debug)]
pub struct Pager(());

impl Pager {
    /// Probes what works here and starts the threads.
    ///
    /// # Errors
    /// If threads or memory cannot be had, or an option makes no sense. A kernel that offers little
    /// is no error: see [`Pager::road`].
    pub fn open(_options: &PagerOptions) -> Result<Self> {
        Err(Error::Closing)
    }

    /// How pages move here.
    pub fn road(&self) -> Road {
        Road::Kernel
    }

    /// Why it is not a faster road; `None` on the fastest.
    pub fn why_not_faster(&self) -> Option<String> {
        None
    }

    /// Name of the copier that is used.
    pub fn copier(&self) -> &'static str {
        "memcpy"
    }

    /// Most lanes that a migration gets.
    pub fn lanes(&self) -> u32 {
        1
    }

    /// Reserves address space for a region of so many bytes, rounded up to 2 MiB. Nothing is in
    /// memory yet; what is touched first reads as zero.
    pub fn reserve(&self, _bytes: usize, _options: &RegionOptions) -> Result<Region> {
        Err(Error::Closing)
    }
}
