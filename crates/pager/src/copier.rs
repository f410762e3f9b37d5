//! What copies pages: the part of a migration that an accelerator could take over.

use std::sync::Arc;

/// Copies pages that nobody else sees: the source is out of sight of all threads, the destination
/// is not in sight yet.
pub trait Copier: Send + Sync {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Copies `from` to `to`, which are equally long, page-aligned and do not overlap. All of it
    /// must be visible to other CPUs when this returns.
    fn copy(&self, to: &mut [u8], from: &[u8]);
}

/// memcpy(3), as the compiler and the C library see fit.
#[derive(Clone, Copy, Debug)]
pub struct Memcpy;

impl Copier for Memcpy {
    fn name(&self) -> &'static str {
        "memcpy"
    }

    fn copy(&self, to: &mut [u8], from: &[u8]) {
        to.copy_from_slice(from);
    }
}

/// The fastest copier here.
pub fn fastest() -> Arc<dyn Copier> {
    Arc::new(Memcpy)
}
