//! The present action of each thread, for the watchdog and for readers of a fault.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::sync::{Arc, Mutex};

/// Number of past actions kept.
const KEPT: usize = 12;

thread_local! {
    static MINE: RefCell<Option<Arc<Post>>> = const { RefCell::new(None) };
}

/// Records progress of the calling thread, from anywhere in it.
pub fn go_on() {
    MINE.with_borrow(|post| post.iter().for_each(|post| post.goes_on()));
}

/// The record of one thread.
#[derive(Debug)]
pub struct Post {
    /// The name of the means and the number of the thread in it.
    pub name: String,
    tid: AtomicI32,
    /// Number of finished steps.
    steps: AtomicU64,
    /// Grows with each action that begins or ends.
    signs: AtomicU64,
    ended: AtomicBool,
    last: Mutex<VecDeque<Action>>,
}

/// An action that a thread began, and its memory.
#[derive(Clone, Copy, Debug)]
struct Action {
    what: &'static str,
    from: usize,
    to: usize,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, from, to } = self;
        if from == to { write!(f, "{what}") } else { write!(f, "{what} {from:#x}..{to:#x}") }
    }
}

impl Post {
    pub fn new(name: String) -> Self {
        Self {
            name,
            tid: AtomicI32::new(0),
            steps: AtomicU64::new(0),
            signs: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            last: Mutex::default(),
        }
    }

    /// Assigns it to the calling thread.
    pub fn begin(self: &Arc<Self>) {
        MINE.set(Some(Arc::clone(self)));
        self.tid.store(rustix::thread::gettid().as_raw_pid(), Release);
        self.does("begins", 0..0);
    }

    /// Records the start of an action, on these bytes, if any.
    pub fn does(&self, what: &'static str, bytes: std::ops::Range<usize>) {
        if let Ok(mut last) = self.last.lock() {
            if last.len() == KEPT {
                last.pop_front();
            }
            last.push_back(Action { what, from: bytes.start, to: bytes.end });
        }
        self.goes_on();
    }

    /// Records progress of the present action.
    pub fn goes_on(&self) {
        self.signs.fetch_add(1, Relaxed);
    }

    /// Records the end of a step.
    pub fn stepped(&self) {
        self.steps.fetch_add(1, Relaxed);
        self.goes_on();
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

    pub fn signs(&self) -> u64 {
        self.signs.load(Relaxed)
    }

    /// Returns the kernel's id of the thread; 0 before it began and after it ended.
    pub fn tid(&self) -> i32 {
        if self.has_ended() { 0 } else { self.tid.load(Acquire) }
    }

    /// Returns the last actions, the newest at the end.
    pub fn story(&self) -> String {
        let Ok(last) = self.last.lock() else { return String::new() };
        last.iter().map(Action::to_string).collect::<Vec<_>>().join(", ")
    }
}
