//! Tests the ledger of moves between commands, and on disks that refuse writes. These tests start
//! processes, and form a program of their own for that: a process that is being started holds, for
//! a moment, the locks of its parent.

mod disk;
mod processes;
#[path = "../support/mod.rs"]
mod support;
