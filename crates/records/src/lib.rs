//! Files that nodeward keeps on disk, each with a version: the ledger of moves and the state from
//! which a killed program continues, with checksums; and saved placements, which people may edit.

#![forbid(unsafe_code)]

mod advice;
mod frame;
pub mod ledger;
pub mod placement;
pub mod state;
