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
pub mod frame_set;
pub mod group;
pub mod headroom;
pub mod hwloc;
pub mod mapping;
pub mod mask;
pub mod name;
pub mod node_pairs;
pub mod nodestring;
pub mod page;
pub mod page_list;
pub mod page_set;
pub mod process;
pub mod process_load;
pub mod residency;
pub mod segment;
pub mod skip_reason;
pub mod snapshot;
pub mod synthetic;
pub mod topology;
pub mod units;

pub use access::{Access, AccessKind, AccessSample, Accessor};
pub use account::Account;
pub use frame_set::FrameSet;
pub use group::{
    GroupError, GroupHome, GroupName, GroupSpec, MemberPattern, MemorySelector, NamePattern,
    ProcessTraits,
};
pub use headroom::NodeHeadroom;
pub use mapping::{Mapping, MappingKind, MappingOrigin, Permissions, Range};
pub use mask::{CpuId, Cpumask, Id, Mask, NodeId, Nodemask};
pub use name::{Escape, Escaped, Name};
pub use node_pairs::NodePairs;
pub use nodestring::{NodestringError, parse_nodestring};
pub use page::{Page, PageLocation};
pub use page_list::{PageList, ZoneLists};
pub use page_set::PageSet;
pub use process::{Pid, ProcessIdentity};
pub use process_load::{ProcessLoad, ThreadCpuTime};
pub use residency::{KindResidency, NodeShare, Residency};
pub use segment::{SegmentId, SegmentPart};
pub use skip_reason::SkipReason;
pub use snapshot::{
    AffinityOutcome, MachineSnapshot, MemoryPolicies, NodeSnapshot, NumaActivity, OtherBalancer,
    ProcessFilter, ProcessSnapshot, ThreadSnapshot,
};
pub use synthetic::{Synthetic, SyntheticError};
pub use topology::Topology;
