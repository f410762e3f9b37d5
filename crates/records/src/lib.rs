//! Files that nodeward keeps on disk, with a version and checksums: the ledger of moves, and the
//! state from which a killed program continues.

#![forbid(unsafe_code)]

mod advice;
pub mod ledger;
pub mod state;
