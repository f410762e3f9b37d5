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

use std::path::PathBuf;
use std::sync::Arc;

use crate::owned_range::OwnedRange;
use crate::test_memory::TestMemory;
use crate::thread_context::{StepFailure, ThreadContext};
use crate::thread_status::ThreadStatus;

/// One of the threads of a means.
pub trait Means: Send {
    /// Does something for a few milliseconds.
    fn step(&mut self, hand: &mut ThreadContext) -> Result<(), StepFailure>;

    /// Undoes, on the same thread, changes that must not stay.
    fn end(&mut self, _hand: &mut ThreadContext) -> Result<(), StepFailure> {
        Ok(())
    }

    /// Returns its memory.
    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut []
    }

    /// Checks all its memory when no other thread is left.
    fn final_check(&mut self) -> Result<(), StepFailure> {
        self.ranges().iter().try_for_each(|lot| lot.check(0..lot.pages()))?;
        Ok(())
    }
}

/// The reason why a means is not available here.
#[derive(Debug)]
pub struct SkippedMeans(pub String);

/// The environment in which a means is made.
pub struct MeansEnv<'a> {
    pub memory: &'a mut TestMemory,
    /// Directory for files.
    pub dir: PathBuf,
    /// Settings of the whole machine may be changed for a while.
    pub whole_machine: bool,
    /// Number of threads that move pages.
    pub movers: usize,
    /// The posts of all threads, once all are there.
    pub statuses: Arc<std::sync::OnceLock<Vec<Arc<ThreadStatus>>>>,
}

impl MeansEnv<'_> {
    /// Fails unless settings of the whole machine may be changed.
    fn require_whole_machine(&self) -> Result<(), SkippedMeans> {
        let why = "it changes settings of the whole machine, which --whole-machine allows";
        if self.whole_machine { Ok(()) } else { Err(SkippedMeans(why.to_owned())) }
    }
}

/// The threads of a means, or why there are none.
pub type MeansThreads = Result<Vec<Box<dyn Means>>, SkippedMeans>;

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

/// Returns one thread, boxed.
fn single_thread(means: impl Means + 'static) -> MeansThreads {
    Ok(vec![Box::new(means)])
}
