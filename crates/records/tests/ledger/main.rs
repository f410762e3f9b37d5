//! Tests the ledger of moves: records are read back, whatever happens to the file.

mod damage;
mod foreign_files;
mod roundtrip;
mod small;
mod store;
#[path = "../support/mod.rs"]
mod support;
