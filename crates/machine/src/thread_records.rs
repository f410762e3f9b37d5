//! Records of threads that start and end: who started whom.

use nodeward_model::Pid;

/// What happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadRecord {
    /// A thread of a process started another one of it.
    Started {
        /// The process.
        pid: Pid,
        /// The new thread.
        tid: u32,
        /// The thread that started it.
        starter: u32,
    },
    /// A thread ended.
    Ended {
        /// The process.
        pid: Pid,
        /// The thread.
        tid: u32,
    },
}

impl ThreadRecord {
    /// Returns the process of the thread.
    pub fn pid(&self) -> Pid {
        let (Self::Started { pid, .. } | Self::Ended { pid, .. }) = *self;
        pid
    }
}

/// What happened since the last call, and how much of that is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadRecordBatch {
    /// The records, in the order in which it happened.
    pub records: Vec<ThreadRecord>,
    /// Records that were lost because a buffer was full.
    pub lost: u64,
}

/// Open records of the threads of all processes. Dropping it ends them, and leaves nothing behind.
pub trait ThreadRecords: Send {
    /// Takes the records of all that had happened when it was called. Of a thread that had been
    /// started by then, the start of its starter is told before or was told by an earlier call.
    /// Bounded: what does not fit counts as lost, at the latest when there is room again.
    fn take(&mut self) -> ThreadRecordBatch;
}
