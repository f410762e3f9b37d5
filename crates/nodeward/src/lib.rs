//! Memory that moves between NUMA nodes while a program uses it.
//!
//! A [`Pager`] manages memory of the program. A [`Region`] is memory like any other: any thread
//! reads and writes it at any time, while its pages move to another node. A thread that touches a
//! page in flight waits until that page is mapped again. No write is lost, no read is torn, and
//! addresses do not change. The [`MigrationReport`] of a migration accounts for every page.
//!
//! It needs no kernel patch and no privilege. What the kernel offers decides how fast it is
//! ([`Backend`]).
//!
//! ```
//! use std::sync::atomic::Ordering::Relaxed;
//!
//! use nodeward::{Backend, Migration, Pager, PagerOptions, RegionOptions};
//!
//! # fn main() -> nodeward::Result<()> {
//! let pager = Pager::open(&PagerOptions::default())?;
//! let region = pager.reserve(8 << 20, &RegionOptions::default())?;
//! for (index, word) in (0..).zip(region.words()) {
//!     word.store(index, Relaxed);
//! }
//!
//! let home = nodeward::nodes()?.last().expect("a process has memory somewhere");
//! let report = region.migrate(0..region.bytes(), home, &Migration::default())?;
//!
//! let account = &report.account; // every page is in exactly one of its counts
//! assert_eq!(account.selected(), (region.bytes() / region.page_bytes()) as u64);
//! println!("{} moved, {} already there", account.moved, account.already_there);
//! for (reason, pages) in &account.skipped {
//!     println!("{pages} stayed: {reason} ({})", reason.advice());
//! }
//! assert!((0..).zip(region.words()).all(|(index, word)| word.load(Relaxed) == index));
//! # Ok(())
//! # }
//! ```
//!
//! # Budgets and cancel
//!
//! A [`Migration`] limits how fast pages move and how long a thread waits for one. Any thread may
//! end it by a [`Cancel`]; the account has pages that had not had their turn as
//! [`SkipReason::Interrupted`].
//!
//! ```
//! use std::time::Duration;
//!
//! use nodeward::{Budget, Cancel, Migration, Pager, PagerOptions, Placement, RegionOptions};
//! # use nodeward::SkipReason;
//!
//! # fn main() -> nodeward::Result<()> {
//! let pager = Pager::open(&PagerOptions::default())?;
//! let region = pager.reserve(8 << 20, &RegionOptions::default())?;
//! let nodes = nodeward::nodes()?;
//! let (first, last) = (nodes.first().expect("a node"), nodes.last().expect("a node"));
//! region.commit(0..region.bytes(), &Placement::Node(first))?;
//!
//! let cancel = Cancel::new();
//! let how = Migration {
//!     budget: Budget { bytes_per_s: Some(64 << 20), stall: Some(Duration::from_millis(1)) },
//!     progress: Some(&|done| {
//!         println!("{} of {} bytes", done.examined_bytes, done.total_bytes);
//!         cancel.cancel(); // from here, from another thread, or from a signal handler
//!     }),
//!     cancel: Some(&cancel),
//!     ..Migration::default()
//! };
//! let report = region.migrate(0..region.bytes(), last, &how)?;
//! # assert_eq!(report.account.selected(), (region.bytes() / region.page_bytes()) as u64);
//! if report.cancelled {
//!     println!("{} left", report.account.skipped_for(SkipReason::Interrupted));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Memory that follows its threads
//!
//! [`Region::migrate_lazily`] unmaps a range. The next thread that touches a granule of 256 KiB
//! brings it to its own node. It needs userfaultfd.
//!
//! ```
//! use std::sync::atomic::Ordering::Relaxed;
//!
//! use nodeward::{Error, Migration, Pager, PagerOptions, RegionOptions};
//!
//! # fn main() -> nodeward::Result<()> {
//! let pager = Pager::open(&PagerOptions::default())?;
//! let region = pager.reserve(4 << 20, &RegionOptions::default())?;
//! region.words()[7].store(7, Relaxed);
//! match region.migrate_lazily(0..region.bytes(), &Migration::default()) {
//!     Ok(report) => println!("{} pages wait for a thread", report.lazy_pages),
//!     Err(Error::NeedsUserfaultfd { reason, .. }) => println!("not here: {reason}"),
//!     Err(error) => return Err(error),
//! }
//! assert_eq!(region.words()[7].load(Relaxed), 7); // home with whoever reads this
//! # Ok(())
//! # }
//! ```
//!
//! # Memory that others hold
//!
//! The kernel detects pages that a device or direct I/O uses; they stay, with the reason
//! [`SkipReason::Pinned`]. On the fast [`Backend`]s it does not detect plain references:
//! vmsplice(2), MSG_ZEROCOPY, direct I/O of some network file systems. A program that makes such
//! references pins the range until they are gone. ([`Backend::Kernel`] detects all of them, and
//! leaves pages that are held.)
//!
//! ```
//! use nodeward::{Backend, Migration, Pager, PagerOptions, RegionOptions, SkipReason};
//!
//! # fn main() -> nodeward::Result<()> {
//! let pager = Pager::open(&PagerOptions::default())?;
//! let region = pager.reserve(4 << 20, &RegionOptions::default())?;
//! region.commit(0..region.bytes(), &Default::default())?;
//! let node = nodeward::nodes()?.first().expect("a process has memory somewhere");
//!
//! let sent = 0..64 << 10;
//! let pin = region.pin(sent.clone())?;
//! // Here: send(2) with MSG_ZEROCOPY, and wait for its completion.
//! let report = region.migrate(0..region.bytes(), node, &Migration::default())?;
//! if pager.backend() != Backend::Kernel {
//!     let pinned_pages = (sent.len() / region.page_bytes()) as u64;
//!     assert_eq!(report.account.skipped_for(SkipReason::Pinned), pinned_pages);
//! }
//! drop(pin); // from now on it moves again
//! # Ok(())
//! # }
//! ```
//!
//! # Children
//!
//! fork(2) waits until pages in flight are mapped again and brings lazy ones back, so a child has a
//! whole copy ([`ForkRule::Copy`]). The pager stays with the parent; in the child its methods end
//! with [`Error::Forked`]. While the child lives, it shares the pages, and on the fast [`Backend`]s
//! shared pages stay where they are. With [`ForkRule::DontFork`] children do not have the region.
//! Choose that for large regions and for programs that call clone(2) themselves. A child that calls
//! exec at once, as [`std::process::Command`] starts it, does not affect the region either way:
//!
//! ```
//! use std::sync::atomic::Ordering::Relaxed;
//!
//! use nodeward::{ForkRule, Migration, Pager, PagerOptions, RegionOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pager = Pager::open(&PagerOptions::default())?;
//! let options = RegionOptions { fork: ForkRule::DontFork, ..RegionOptions::default() };
//! let region = pager.reserve(4 << 20, &options)?;
//! region.words()[1].store(1, Relaxed);
//! std::process::Command::new("true").status()?;
//! let node = nodeward::nodes()?.last().expect("a process has memory somewhere");
//! region.migrate(0..region.bytes(), node, &Migration::default())?;
//! assert_eq!(region.words()[1].load(Relaxed), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Pages by the run
//!
//! A [`PagePool`] is for programs that allocate and free memory all the time: buffer pools, packet
//! rings, key-value caches. It hands out runs of 2^n base pages, on the node of the calling thread.
//! Each CPU has a list of free pages, so most calls wait for no lock. [`TunerKind`] decides how
//! long the lists become. Pages of a pool do not move: a pool is not a region.
//!
//! ```
//! use nodeward::{PagePool, PoolError, PoolOptions, RunRequest};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = PoolOptions { zone_bytes: Some(64 << 20), ..PoolOptions::default() };
//! let pool = PagePool::open(&options)?; // 64 MiB on each node at most; none of it in memory yet
//!
//! // Two pages, on this node.
//! let mut frame = pool.run(&RunRequest { order: 1, ..RunRequest::default() })?;
//! frame.fill(7); // before this, the pages had what their last user left there
//! let index = pool.run(&RunRequest { zeroed: true, ..RunRequest::default() })?;
//! assert!(index.iter().all(|&byte| byte == 0));
//! assert!(pool.stats().in_use_pages >= 2 + 1);
//! std::thread::scope(|scope| _ = scope.spawn(|| drop(frame))); // any thread may free it
//! drop(index);
//!
//! // By address, for data structures of your own. A mistake is an error without effect.
//! let start = pool.allocate(&RunRequest::default())?;
//! pool.free(start, 0)?;
//! let address = start.as_ptr() as u64;
//! assert_eq!(pool.free(start, 0), Err(PoolError::DoubleFree { address }));
//!
//! let stats = pool.stats();
//! println!("{} of {} pages in use", stats.in_use_pages, stats.held_pages);
//! for list in &stats.lists {
//!     println!("{} has {} pages of node {} at hand", list.cpu, list.pages, list.node);
//! }
//! println!("{} bytes went to the kernel", pool.give_back());
//!
//! let last = pool.allocate(&RunRequest::default())?;
//! pool.close(); // refuses allocations; runs can still be freed
//! assert_eq!(pool.allocate(&RunRequest::default()), Err(PoolError::Closed));
//! pool.free(last, 0)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Groups of threads and memory
//!
//! A program that is wider than a node says which of its threads use which of its memory. A
//! [`Group`] of both is placed as one by the agent (`nodeward balance`), which needs privileges
//! where the program needs none. A group may also be told where to be ([`GroupHome`]).
//!
//! ```
//! use nodeward::{Group, GroupFailure, GroupHome};
//!
//! # fn main() -> Result<(), GroupFailure> {
//! let part = vec![0_u64; 1 << 20];
//! match Group::new("part-0", &GroupHome::Auto) {
//!     Ok(group) => {
//!         group.add_slice(&part)?;
//!         std::thread::scope(|scope| {
//!             scope.spawn(|| group.add_current_thread()).join().expect("no panic")
//!         })?;
//!         if let Some(nodes) = group.nodes()? {
//!             println!("since the last round it belongs to {nodes}");
//!         }
//!     } // here the group ends
//!     Err(error @ (GroupFailure::NoAgent { .. } | GroupFailure::NoAccess { .. })) => {
//!         println!("{error}") // and works on, wherever it is
//!     }
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Memory of a region can follow its group by the pager, at once or when a thread touches it; a
//! [`HomeFollower`] asks the agent for new homes.
//!
//! ```
//! use std::sync::Arc;
//!
//! use nodeward::{
//!     FollowOptions, GroupAgent, GroupHome, HomeFollower, MoveTime, Pager, PagerOptions,
//!     RegionOptions,
//! };
//!
//! # fn main() -> nodeward::Result<()> {
//! let pager = Pager::open(&PagerOptions::default())?;
//! let region = Arc::new(pager.reserve(64 << 20, &RegionOptions::default())?);
//! let follower = HomeFollower::start(FollowOptions::default())?;
//! match GroupAgent::default().make("cache", &GroupHome::Auto) {
//!     Ok(group) => {
//!         if let Err(error) = follower.add(&group, &region, 0..32 << 20, MoveTime::AtOnce) {
//!             println!("it is not followed: {error}");
//!         }
//!         for told in follower.ranges() {
//!             println!("{:x?} belongs to {:?}", told.addresses, told.home);
//!         }
//!     }
//!     Err(error) => println!("{error}"), // and works on, wherever it is
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `docs/reference/library.md` has what a program must not do with managed memory, and the names of
//! all of this in C.

#![forbid(unsafe_code)]

mod agent_socket;
mod follow_plan;
mod follow_step;
mod group;
mod group_failure;
mod group_service;
mod home_follower;
mod machine;
pub mod managed_regions;
mod own_moves;
#[cfg(test)]
mod test_agent;

pub use follow_step::MoveTime;
pub use group::{Group, GroupAgent};
pub use group_failure::GroupFailure;
pub use group_service::{GroupNodes, GroupService, Threads};
pub use home_follower::{FollowFailure, FollowOptions, FollowedRange, HomeFollower};
pub use machine::{DeviceFailure, near, nodes, page_bytes, topology};
pub use nodeward_linux::device_nodes::{Device, DeviceError};
pub use nodeward_model::topology::{Cache, CacheKind, Core, Distances, HugePool, Node};
pub use nodeward_model::units::{self, UnitError};
pub use nodeward_model::{
    Account, CpuId, Cpumask, GroupError, GroupHome, GroupName, Id, KindResidency, MappingKind,
    NodeId, NodeShare, Nodemask, Range as AddressRange, SkipReason, Topology,
};
pub use nodeward_pager::{
    Arrive, Backend, Budget, Cancel, Copier, Error, ForkRule, ListStats, Memcpy, Migration,
    MigrationReport, Mode, OwnMemory, PagePool, PageRun, PageSize, Pager, PagerOptions, PinGuard,
    Placement, PoolError, PoolOptions, PoolStats, Progress, RangeListReport, RangeStatus,
    RangeTarget, Region, RegionOptions, Result, RunRequest, Selection, StepTimes, Supply,
    TunerKind,
};
pub use own_moves::{Mover, OwnMoveFailure, migrate_own, residency_own};
