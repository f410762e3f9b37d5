//! The state of a region that its handle, the lanes, the fault handler and fork(2) share.
//!
//! A region has chunks of 2 MiB. A thread claims a chunk before it touches the chunk's pages.

mod chunk_claims;
mod chunk_table;
mod options;
mod registration;
pub mod residency;
mod shared;

pub use chunk_claims::{Claim, FaultClaim};
pub use options::{ForkRule, Mode, Placement, RegionOptions};
pub use shared::{ChunkState, LazyPages, RegionShared};
