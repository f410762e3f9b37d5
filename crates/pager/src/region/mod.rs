//! The state of a region that its handle, the lanes, the fault handler and fork(2) share.
//!
//! A region has chunks of 2 MiB. A thread claims a chunk before it touches the chunk's pages. The
//! public handle of a region is in `handles`.

mod chunk_claims;
mod chunk_state;
mod chunk_table;
mod options;
mod pin_slots;
#[cfg(test)]
mod pin_slots_tests;
mod registration;
mod residency;
mod shared;
mod table;

pub use chunk_claims::{Claim, FaultClaim, RegionPin};
pub use chunk_state::{ChunkState, LazyPages, UnmappedPages};
pub use options::{Arrive, ForkRule, Mode, Placement, RegionOptions};
pub use residency::count_by_node;
pub use shared::RegionShared;
pub use table::RegionTable;
