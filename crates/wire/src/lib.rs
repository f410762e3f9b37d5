//! What nodeward keeps on disk, with a version and checksums: the ledger of moves, and what a
//! program that is killed goes on with.

#![forbid(unsafe_code)]

mod advice;
pub mod ledger;
pub mod state;
