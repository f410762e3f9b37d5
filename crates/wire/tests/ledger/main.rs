//! Tests the ledger of moves: records are read back, whatever happens to the file.

mod damage;
mod roundtrip;
mod small;
mod store;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
