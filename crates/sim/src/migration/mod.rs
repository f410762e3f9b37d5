//! Kernel threads that move pages: each executes the steps of a [`nodeward_batch::Batch`].
//!
//! `batch_migration` runs the steps as a program. `unmap` and `map` apply a step to pages,
//! `copy_threads` and `dma_copy` do the copying. A mover preempts the task that runs on its CPU,
//! and so do its copy threads. `migratepages`, `make_lazy` and `synchronous` are three ways to move
//! pages of whole processes or single folios.

mod batch_folio;
mod batch_migration;
mod content_records;
mod copy_rate;
mod copy_split;
mod copy_threads;
mod dma_copy;
mod make_lazy;
mod map;
mod migratepages;
mod outcome;
mod process_migration;
mod synchronous;
#[cfg(test)]
mod tests;
mod unmap;

pub use batch_folio::{BatchFolio, MigrationContext};
pub use batch_migration::BatchMigration;
pub use outcome::{ATTEMPTS, FolioOutcome};
pub use process_migration::ProcessMigration;
