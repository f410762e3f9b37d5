//! The ledger of moves between commands, and on disks that refuse. These tests start processes, and
//! stand apart for that: a process that is being started holds, for a moment, the locks of all
//! others.

mod disk;
mod processes;
#[path = "../support/mod.rs"]
mod support;
