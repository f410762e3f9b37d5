//! The plan of a benchmark of calls, and the settings in which they are measured.

use serde::Serialize;

use super::region_call::RegionCall;
use crate::NodeRoute;

/// The plan of a benchmark of calls.
#[derive(Clone, Debug)]
pub struct CallsPlan {
    /// Settings in which every call is measured.
    pub settings: Vec<CallSetting>,
    /// Calls to measure.
    pub calls: Vec<RegionCall>,
    /// Repetitions of each call on each thread.
    pub samples: usize,
    /// Repetitions of opening and closing a pager; none without.
    pub opens: usize,
    /// Size of the region whose migration is under way in settings that have one.
    pub large_bytes: usize,
    /// Nodes between which pages move.
    pub nodes: NodeRoute,
}

/// A setting: the threads that call, and the regions that there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallSetting {
    /// Threads that call at once, each on regions of its own.
    pub threads: u32,
    /// Regions in all.
    pub regions: u32,
    /// Size of each.
    pub region_bytes: usize,
    /// A large region of the same pager moves all the time.
    pub beside_migration: bool,
    /// Sizes of the ranges.
    pub sizes: Vec<usize>,
}
