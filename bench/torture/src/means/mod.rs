//! The means by which programs use memory, each with one thread or several.

mod advise;
mod broken;
mod calls;
mod direct;
mod discard;
mod exec;
mod fork;
mod futex;
mod huge_page_toggle;
mod lock;
mod merge;
mod moves;
mod pageout;
mod pins;
mod plain;
mod pressure;
mod protect;
mod region_lifecycle;
mod signals;

use crate::means_thread::{MeansEnv, MeansThreads};

/// A means, and its description.
pub struct MeansSpec {
    pub name: &'static str,
    pub description: &'static str,
    pub make: fn(&mut MeansEnv<'_>) -> MeansThreads,
}

/// All means.
pub const ALL: &[MeansSpec] = &[
    MeansSpec { name: "moves", description: moves::WHAT, make: moves::make },
    MeansSpec { name: "plain", description: plain::WHAT, make: plain::make },
    MeansSpec { name: "calls", description: calls::WHAT, make: calls::make },
    MeansSpec { name: "direct", description: direct::WHAT, make: direct::make },
    MeansSpec { name: "hold", description: pins::WHAT, make: pins::make },
    MeansSpec { name: "futex", description: futex::WHAT, make: futex::make },
    MeansSpec { name: "protect", description: protect::WHAT, make: protect::make },
    MeansSpec { name: "advise", description: advise::WHAT, make: advise::make },
    MeansSpec { name: "discard", description: discard::WHAT, make: discard::make },
    MeansSpec { name: "lock", description: lock::WHAT, make: lock::make },
    MeansSpec { name: "fork", description: fork::WHAT, make: fork::make },
    MeansSpec { name: "start", description: exec::WHAT, make: exec::make },
    MeansSpec { name: "signals", description: signals::WHAT, make: signals::make },
    MeansSpec { name: "lives", description: region_lifecycle::WHAT, make: region_lifecycle::make },
    MeansSpec { name: "merge", description: merge::WHAT, make: merge::make },
    MeansSpec { name: "sizes", description: huge_page_toggle::WHAT, make: huge_page_toggle::make },
    MeansSpec { name: "pageout", description: pageout::WHAT, make: pageout::make },
    MeansSpec { name: "pressure", description: pressure::WHAT, make: pressure::make },
];

/// Means that run only when they are named.
pub const BROKEN: &[MeansSpec] = &[
    MeansSpec { name: "stands", description: broken::DESCRIPTION_HANG, make: broken::make_hang },
    MeansSpec {
        name: "spoils",
        description: broken::DESCRIPTION_CORRUPT,
        make: broken::make_corrupt,
    },
];
