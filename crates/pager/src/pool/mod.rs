//! Free pages: their owners and their number.
//!
//! A [`Pool`] hands out runs of 2^n pages and takes them back. Each node has a zone of free
//! pages behind a lock. In front of the zone each CPU has a list that only threads on that CPU use.
//! [`nodeward_policy::pcp`] decides the length of the lists.
//!
//! ```text
//! allocate / free  ->  list of the CPU  ->  zone of the node  ->  kernel
//!                      (try-lock)           (lock)                (populate, discard)
//! ```
//!
//! Locks are taken in this order: a list's, `supply` of a zone, the zone's. A thread that holds
//! `supply` only tries to lock lists, so no circular wait is possible.

mod arena;
mod buddy_zone;
mod cpu_lists;
mod error;
mod fork_detection;
mod growth;
mod headroom;
mod housekeeper;
mod options;
mod owner;
mod page_list;
mod page_run;
mod page_states;
#[allow(clippy::module_inception, reason = "the pool itself, beside what it is made of")]
mod pool;
mod shadow_slot;

pub use error::PoolError;
pub use options::{ListStats, PoolOptions, PoolStats, RunRequest};
pub use owner::PoolOwner;
pub use page_run::PageRun;
pub use pool::Pool;
pub use shadow_slot::{NodeSlot, ShadowSlot, ShadowSlots};
