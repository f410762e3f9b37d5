//! Kernel threads that move pages: each executes the steps of a [`nodeward_batch::Batch`].

mod batch_folios;
mod batch_migration;
mod copy_threads;
mod dma_engine;
mod mover_state;
#[cfg(test)]
mod tests;

pub use batch_folios::{BatchFolio, MigrationContext, folios_in_slices};
pub use batch_migration::BatchMigration;
pub use mover_state::{ATTEMPTS, Folio, FolioOutcome, MigrationResult, MoverState};
