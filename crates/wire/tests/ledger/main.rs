//! The ledger of moves: what is written is read back, whatever happens to file, disk and command.

mod damage;
mod disk;
mod processes;
mod roundtrip;
mod store;
mod support;
