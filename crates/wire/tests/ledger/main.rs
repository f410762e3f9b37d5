//! The ledger of moves: what is written is read back, whatever happens to the file.

mod damage;
mod roundtrip;
mod small;
mod store;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
