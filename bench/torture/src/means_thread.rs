//! A thread of a means: what it does, and what it is made from.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::owned_range::OwnedRange;
use crate::test_memory::TestMemory;
use crate::thread_context::{StepFailure, ThreadContext};
use crate::thread_status::ThreadStatus;

/// One of the threads of a means.
pub trait Means: Send {
    /// Does something for a few milliseconds.
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure>;

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
    /// The statuses of all threads, once all are there.
    pub statuses: Arc<OnceLock<Vec<Arc<ThreadStatus>>>>,
}

impl MeansEnv<'_> {
    /// Fails unless settings of the whole machine may be changed.
    pub fn require_whole_machine(&self) -> Result<(), SkippedMeans> {
        let why = "it changes settings of the whole machine, which --whole-machine allows";
        if self.whole_machine { Ok(()) } else { Err(SkippedMeans(why.to_owned())) }
    }
}

/// The threads of a means, or why there are none.
pub type MeansThreads = Result<Vec<Box<dyn Means>>, SkippedMeans>;

/// Returns one thread, boxed.
pub fn single_thread(means: impl Means + 'static) -> MeansThreads {
    Ok(vec![Box::new(means)])
}
