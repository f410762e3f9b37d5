//! A task: a part of a job, and what its batches have in common.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nodeward_model::NodeId;
use nodeward_policy::pacing::StallBudget;

use super::options::{Cancel, MoveOptions};
use crate::page_bits::PageBits;

/// A part of a job: some pages of one chunk.
#[derive(Clone, Copy)]
pub struct ChunkTask {
    pub chunk: usize,
    pub pages: PageBits,
    pub to: NodeId,
}

/// What all batches of a task need: the destination, the options, and the limits.
pub struct MoveParams<'a> {
    /// The destination node.
    pub to: NodeId,
    pub options: &'a MoveOptions,
    /// Says when no further batch may begin, and counts what was examined.
    pub control: &'a TaskControl<'a>,
    /// What the lane has learned of the time that pages are out of sight, if that time is limited.
    pub stall: &'a mut Option<StallBudget>,
}

/// Why no further batch of a job may begin: its caller asked for the end, or the pager must end it.
#[derive(Default)]
pub struct EndRequest {
    pub caller: Cancel,
    pub pager: AtomicBool,
}

impl EndRequest {
    /// Returns whether either asked.
    pub fn is_made(&self) -> bool {
        self.pager.load(Ordering::Relaxed) || self.caller.is_cancelled()
    }
}

/// The connection between the batches of one task and its job: the request to stop, and progress.
pub struct TaskControl<'j> {
    stop: &'j EndRequest,
    /// Bytes that all tasks of the job have examined.
    examined_bytes: &'j AtomicU64,
    /// Bytes of this task that are not examined.
    left_bytes: AtomicU64,
}

impl<'j> TaskControl<'j> {
    /// The control of a task of `bytes` bytes.
    pub fn new(stop: &'j EndRequest, examined_bytes: &'j AtomicU64, bytes: u64) -> Self {
        Self { stop, examined_bytes, left_bytes: AtomicU64::new(bytes) }
    }

    /// Returns whether no further batch may begin.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_made()
    }

    /// Records that a batch was examined. Pages that are tried again do not count twice.
    pub fn examined(&self, bytes: u64) {
        let all_left = self.left_bytes.load(Ordering::Relaxed);
        let bytes = bytes.min(all_left);
        self.left_bytes.store(all_left - bytes, Ordering::Relaxed);
        self.examined_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for TaskControl<'_> {
    fn drop(&mut self) {
        self.examined(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: progress grows with each batch, pages that are tried again count once, and a task that
    /// ends early is examined as a whole. 3 + 3 + 3 of 8 bytes are 8, and 2 of 5 bytes are 5.
    #[test]
    fn each_byte_of_a_task_is_examined_once() {
        let (stop, all) = (EndRequest::default(), AtomicU64::new(0));
        let control = |bytes| TaskControl::new(&stop, &all, bytes);
        let first = control(8);
        let seen = [3, 3, 3].map(|bytes| {
            first.examined(bytes);
            all.load(Ordering::Relaxed)
        });
        assert_eq!(seen, [3, 6, 8]);
        drop(first);
        control(5).examined(2);
        assert_eq!(all.load(Ordering::Relaxed), 13);
    }

    /// Goal: a task sees at once that its caller cancelled, or that the pager ends it: no other
    /// thread must notice first.
    #[test]
    fn whoever_asks_for_the_end_is_seen_at_once() {
        let (cancel, all) = (Cancel::new(), AtomicU64::new(0));
        let stop = EndRequest { caller: cancel.clone(), ..EndRequest::default() };
        let control = TaskControl::new(&stop, &all, 0);
        assert!(!control.is_stopped());
        cancel.cancel();
        assert!(control.is_stopped());
        let stop = EndRequest::default();
        let control = TaskControl::new(&stop, &all, 0);
        stop.pager.store(true, Ordering::Relaxed);
        assert!(control.is_stopped() && !stop.caller.is_cancelled());
    }
}
