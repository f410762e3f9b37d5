//! The present action of each thread, for the watchdog and for readers of a fault.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::sync::{Arc, Mutex};

/// Number of past actions kept.
const ACTIONS_KEPT: usize = 12;

thread_local! {
    static CURRENT: RefCell<Option<Arc<ThreadStatus>>> = const { RefCell::new(None) };
}

/// Records progress of the calling thread, from anywhere in it.
pub fn mark_progress() {
    CURRENT.with_borrow(|status| status.iter().for_each(|status| status.mark_progress()));
}

/// The record of one thread.
#[derive(Debug)]
pub struct ThreadStatus {
    /// The name of the means and the number of the thread in it.
    pub name: String,
    tid: AtomicI32,
    /// Number of finished steps.
    steps: AtomicU64,
    /// Grows with each action that begins or ends.
    progress_count: AtomicU64,
    ended: AtomicBool,
    recent: Mutex<VecDeque<ThreadAction>>,
}

/// An action that a thread began, and its memory.
#[derive(Clone, Copy, Debug)]
struct ThreadAction {
    name: &'static str,
    from: usize,
    to: usize,
}

impl fmt::Display for ThreadAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name: what, from, to } = self;
        if from == to { write!(f, "{what}") } else { write!(f, "{what} {from:#x}..{to:#x}") }
    }
}

impl ThreadStatus {
    pub fn new(name: String) -> Self {
        Self {
            name,
            tid: AtomicI32::new(0),
            steps: AtomicU64::new(0),
            progress_count: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            recent: Mutex::default(),
        }
    }

    /// Assigns it to the calling thread.
    pub fn begin(self: &Arc<Self>) {
        CURRENT.set(Some(Arc::clone(self)));
        self.tid.store(rustix::thread::gettid().as_raw_pid(), Release);
        self.begin_action("begins", 0..0);
    }

    /// Records the start of an action, on these bytes, if any.
    pub fn begin_action(&self, what: &'static str, bytes: std::ops::Range<usize>) {
        if let Ok(mut last) = self.recent.lock() {
            if last.len() == ACTIONS_KEPT {
                last.pop_front();
            }
            last.push_back(ThreadAction { name: what, from: bytes.start, to: bytes.end });
        }
        self.mark_progress();
    }

    /// Records progress of the present action.
    pub fn mark_progress(&self) {
        self.progress_count.fetch_add(1, Relaxed);
    }

    /// Records the end of a step.
    pub fn finish_step(&self) {
        self.steps.fetch_add(1, Relaxed);
        self.mark_progress();
    }

    /// Records the end of the thread.
    pub fn end(&self) {
        self.ended.store(true, Release);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Acquire)
    }

    pub fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }

    pub fn progress_count(&self) -> u64 {
        self.progress_count.load(Relaxed)
    }

    /// Returns the kernel's id of the thread; 0 before it began and after it ended.
    pub fn tid(&self) -> i32 {
        if self.has_ended() { 0 } else { self.tid.load(Acquire) }
    }

    /// Returns the last actions, the newest at the end.
    pub fn recent_actions(&self) -> String {
        let Ok(last) = self.recent.lock() else { return String::new() };
        last.iter().map(ThreadAction::to_string).collect::<Vec<_>>().join(", ")
    }
}
