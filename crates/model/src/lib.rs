//! The nouns of nodeward: plain values that all other crates share. This crate does no IO, reads no
//! clock and uses no randomness.
//!
//! Vocabulary: a *node* is a memory node (NUMA node); node ids may have holes. A *page* is a base
//! page (its size is read at run time), a *folio* is the unit that the kernel moves, a *huge page*
//! is always named with its size. *Residency* is pages per node. *Migration* is from node to node.
//! A *stall* is the time that a thread waited for a page in flight. Units stand last in names:
//! `stall_us_max`.

#![forbid(unsafe_code)]

pub mod access;
pub mod account;
pub mod frames;
pub mod glance;
pub mod hwloc;
pub mod load;
pub mod mapping;
pub mod mask;
pub mod name;
pub mod nodes;
pub mod nodestring;
pub mod page;
pub mod pages;
pub mod process;
pub mod reason;
pub mod residency;
pub mod room;
pub mod synthetic;
pub mod topology;
pub mod units;

pub use access::{Access, Accessor};
pub use account::Account;
pub use frames::FrameSet;
pub use glance::{Bound, Glance, NodeGlance, Placed, ProcessGlance, Rival, ThreadGlance, Wanted};
pub use load::{ProcessLoad, ThreadTime};
pub use mapping::{Mapping, MappingKind, Range};
pub use mask::{CpuId, Cpumask, Id, Mask, NodeId, Nodemask};
pub use name::{Escape, Escaped, Name};
pub use nodes::NodePairs;
pub use nodestring::{NodestringError, parse_nodestring};
pub use page::{Page, Place};
pub use pages::PageSet;
pub use process::{Identity, Pid};
pub use reason::SkipReason;
pub use residency::{KindResidency, NodeShare, Residency};
pub use room::Room;
pub use synthetic::{Synthetic, SyntheticError};
pub use topology::Topology;
