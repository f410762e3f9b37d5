//! Kernel threads that move pages: each executes the steps of a [`nodeward_batch::Batch`].

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
