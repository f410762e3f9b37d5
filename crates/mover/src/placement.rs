//! The placement of processes, to be kept over a restart of their programs: where their memory is
//! and where their threads run (`survey`), what of a restarted process is what it was before
//! (`matching`), and the orders and calls that bring it there again (`restore`, `threads`).

mod matching;
mod restore;
mod survey;
mod threads;

pub use matching::Unmatched;
pub use restore::{FoundPlacement, RestoreOrders, UnmatchedMapping, restore_orders};
pub use survey::{SavedMemory, saved_memory};
pub use threads::{PresentThread, ThreadMode, ThreadOutcome, present_threads, restore_threads};

#[cfg(test)]
mod tests;
