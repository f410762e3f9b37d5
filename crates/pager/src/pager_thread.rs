//! Threads that work for the pager: those of its own and of its pool, how they start, and how one
//! that sleeps in poll(2) is told to end; and threads of the program for as long as a call works on
//! them.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::thread::{Builder, JoinHandle};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::error::{Result, system};
use crate::sys::{HeldThread, block_signals, hold_thread};

/// Starts a thread that runs no signal handler, and whose panic ends the process.
pub fn spawn_pager_thread(
    name: String,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    spawn_without_signals(name, move || {
        let _guard = AbortOnPanic::default();
        WORKS_FOR_PAGER.set(true);
        work();
    })
}

/// Starts a thread of the library that runs no signal handler of the program.
///
/// # Errors
/// If no thread can be had.
pub fn spawn_without_signals(
    name: String,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let quiet = move || {
        block_signals().expect("every thread may block signals");
        work();
    };
    Builder::new().name(name).spawn(quiet).map_err(system("starting a thread"))
}

thread_local! {
    static WORKS_FOR_PAGER: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread works for a pager, so that what it runs is no call of the program: a
/// copier of the program that calls the pager would wait for itself.
pub fn works_for_pager() -> bool {
    WORKS_FOR_PAGER.get()
}

/// A thread of the program while it does what otherwise lanes do: it runs no signal handler, cannot
/// be cancelled, and a panic ends the process.
#[must_use = "the thread is let go at once"]
pub struct CallerAtWork {
    _thread: HeldThread,
    _guard: AbortOnPanic,
}

impl CallerAtWork {
    /// Makes the calling thread work for the pager. It does not yet.
    pub fn begin() -> Self {
        let thread = hold_thread();
        WORKS_FOR_PAGER.set(true);
        Self { _thread: thread, _guard: AbortOnPanic::default() }
    }
}

impl Drop for CallerAtWork {
    fn drop(&mut self) {
        WORKS_FOR_PAGER.set(false);
    }
}

/// Aborts if it is dropped by a panic that began after it was made.
struct AbortOnPanic {
    was_panicking: bool,
}

impl Default for AbortOnPanic {
    fn default() -> Self {
        Self { was_panicking: std::thread::panicking() }
    }
}

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            eprintln!("nodeward: a thread that holds pages failed; aborting, so that none is lost");
            std::process::abort();
        }
    }
}

/// The write end of the pipe, which ends the thread.
pub struct StopSignal(OwnedFd);

/// Makes the pipe: returns the end that the thread polls, readable once it is told to end, and the
/// other end.
pub fn stop_pipe() -> Result<(OwnedFd, StopSignal)> {
    let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| system("pipe")(e.into()))?;
    Ok((stopped, StopSignal(stop)))
}

impl StopSignal {
    /// Tells the thread to end. Only for the process that made the pipe: a child of fork(2) has a
    /// copy, so closing our end would signal nothing as long as the child lives.
    pub fn send(self) {
        rustix::io::write(&self.0, &[0]).expect("an empty pipe has room for a byte");
    }
}
