//! What each thread does at the moment, for the watchdog and for whoever reads what it found.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::sync::{Arc, Mutex};

/// So many of the last actions are kept.
const KEPT: usize = 12;

thread_local! {
    static MINE: RefCell<Option<Arc<Post>>> = const { RefCell::new(None) };
}

/// Says that the calling thread goes on, wherever it is.
pub fn go_on() {
    MINE.with_borrow(|post| post.iter().for_each(|post| post.goes_on()));
}

/// One thread's.
#[derive(Debug)]
pub struct Post {
    /// The means, and which of its threads.
    pub name: String,
    tid: AtomicI32,
    /// Steps that were finished.
    steps: AtomicU64,
    /// Grows with each thing that is begun or finished.
    signs: AtomicU64,
    ended: AtomicBool,
    last: Mutex<VecDeque<Action>>,
}

/// Something that a thread began to do, and with what.
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

    /// The calling thread takes it.
    pub fn begin(self: &Arc<Self>) {
        MINE.set(Some(Arc::clone(self)));
        self.tid.store(rustix::thread::gettid().as_raw_pid(), Release);
        self.does("begins", 0..0);
    }

    /// The thread begins something, with these bytes, if any.
    pub fn does(&self, what: &'static str, bytes: std::ops::Range<usize>) {
        if let Ok(mut last) = self.last.lock() {
            if last.len() == KEPT {
                last.pop_front();
            }
            last.push_back(Action { what, from: bytes.start, to: bytes.end });
        }
        self.goes_on();
    }

    /// What the thread does goes on.
    pub fn goes_on(&self) {
        self.signs.fetch_add(1, Relaxed);
    }

    /// A step is done.
    pub fn stepped(&self) {
        self.steps.fetch_add(1, Relaxed);
        self.goes_on();
    }

    /// The thread has nothing more to do.
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

    /// The kernel's number of the thread; 0 before it began.
    pub fn tid(&self) -> i32 {
        if self.has_ended() { 0 } else { self.tid.load(Acquire) }
    }

    /// The last actions, the newest at the end.
    pub fn story(&self) -> String {
        let Ok(last) = self.last.lock() else { return String::new() };
        last.iter().map(Action::to_string).collect::<Vec<_>>().join(", ")
    }
}
