//! Disturbances that a mover of pages must survive: changes that programs make to their own memory,
//! and other users of its pages. Tests use them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nodeward_model::Pid;
use rustix::process::WaitOptions;

pub use crate::sys::{
    MemoryChange, TransferCall, change_memory, futex_wait, futex_wake, merge_equal_pages,
    on_signal, read_into, send_signal, transfer,
};

use crate::sys;

/// Runs `child` in a child made by fork(2), which exits with the code that it returns (101 if it
/// panics), and waits for its exit.
pub fn run_in_child(child: impl FnOnce() -> u8) -> io::Result<ChildExit> {
    fork_and_run(child)?.wait()
}

/// Starts a child as [`run_in_child`] does, without waiting.
pub fn fork_and_run(child: impl FnOnce() -> u8) -> io::Result<ForkedChild> {
    Ok(ForkedChild(Pid::new(sys::fork_and_run(child)?).map_err(io::Error::other)?))
}

/// A child that was started.
#[derive(Debug)]
#[must_use = "a child that nobody waits for stays as a zombie"]
pub struct ForkedChild(Pid);

/// The exit of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildExit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl ForkedChild {
    /// Waits for its exit.
    pub fn wait(self) -> io::Result<ChildExit> {
        let pid = rustix::process::Pid::from_raw(self.0.number().cast_signed());
        let (_, status) = rustix::process::waitpid(pid, WaitOptions::empty())?
            .ok_or_else(|| io::Error::other("no child has ended"))?;
        let code = status.exit_status().map(ChildExit::Code);
        let end = code.or_else(|| status.terminating_signal().map(ChildExit::Signal));
        end.ok_or_else(|| io::Error::other("the child was stopped"))
    }
}

/// A thread of this process that is busy all the time, or sleeps, until the value is dropped.
#[derive(Debug)]
pub struct TestThread {
    /// The kernel's thread id.
    pub tid: u32,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TestThread {
    /// Starts it.
    ///
    /// # Errors
    /// If there is no room for another thread.
    pub fn start(busy: bool) -> io::Result<Self> {
        Self::start_with(move || {
            if !busy {
                thread::park();
            }
        })
    }

    /// Starts one that does some work again and again.
    ///
    /// # Errors
    /// As [`TestThread::start`].
    pub fn start_with(mut work: impl FnMut() + Send + 'static) -> io::Result<Self> {
        let end = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let seen = Arc::clone(&end);
        let thread = thread::Builder::new().spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).ok();
            while !seen.load(Ordering::Relaxed) {
                work();
            }
        })?;
        let tid = told.recv().map_err(io::Error::other)?;
        Ok(Self { tid, end, thread: Some(thread) })
    }

    /// Ends it and waits for its exit.
    pub fn end(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().ok();
        }
    }
}

impl Drop for TestThread {
    fn drop(&mut self) {
        self.end();
    }
}

/// Pages that an io_uring pins as for direct I/O (FOLL_PIN), until the value is dropped.
#[derive(Debug)]
pub struct RingPin(OwnedFd);

impl RingPin {
    /// Pins the pages of `words`.
    ///
    /// # Errors
    /// Where io_uring is switched off, or RLIMIT_MEMLOCK is too low.
    pub fn new(words: &[AtomicU64]) -> io::Result<Self> {
        let ring = sys::setup_ring()?;
        sys::register_buffer(ring.as_fd(), words)?;
        Ok(Self(ring))
    }
}

impl Drop for RingPin {
    fn drop(&mut self) {
        // The kernel releases them at the end of the process at the latest.
        let ring: BorrowedFd<'_> = self.0.as_fd();
        sys::unregister_buffers(ring).ok();
    }
}
