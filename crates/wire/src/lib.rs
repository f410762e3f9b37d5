//! What nodeward keeps on disk, with a version and checksums: the ledger of moves.

#![forbid(unsafe_code)]

pub mod ledger;
