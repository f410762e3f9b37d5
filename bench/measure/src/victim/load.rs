//! The requests of a client, from a thread of its own.
//!
//! An open loop has a fixed time at which each request is due, whether or not the one before was
//! answered, and counts latency from there: so a server that stands still makes all requests late
//! that are due meanwhile. A closed loop makes one request after the other, and counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};

use super::client::CheckingClient;

/// A request: when it was due, after the begin of its loop, and when its answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedRequest {
    pub due: Duration,
    pub answered: Duration,
}

/// What a loop tells while it runs.
#[derive(Default)]
struct LoopState {
    is_over: AtomicBool,
    answered: AtomicU64,
    /// The time by which the last request began late, in nanoseconds.
    late_ns: AtomicU64,
}

/// A running loop.
pub struct RequestLoop {
    state: Arc<LoopState>,
    began: Instant,
    thread: JoinHandle<Result<(CheckingClient, Vec<TimedRequest>)>>,
}

impl RequestLoop {
    /// Begins a loop: open with a time between two requests, else closed.
    pub fn begin(mut client: CheckingClient, interval: Option<Duration>) -> Self {
        let state = Arc::new(LoopState::default());
        let (shared, began) = (Arc::clone(&state), Instant::now());
        let thread = thread::spawn(move || {
            let mut requests = Vec::new();
            let mut due = Duration::ZERO;
            while !shared.is_over.load(Ordering::Relaxed) {
                if let Some(interval) = interval {
                    due += interval;
                    thread::sleep(due.saturating_sub(began.elapsed()));
                    let late = began.elapsed().saturating_sub(due);
                    shared.late_ns.store(late.as_nanos() as u64, Ordering::Relaxed);
                }
                client.request()?;
                shared.answered.fetch_add(1, Ordering::Relaxed);
                if interval.is_some() {
                    requests.push(TimedRequest { due, answered: began.elapsed() });
                }
            }
            Ok((client, requests))
        });
        Self { state, began, thread }
    }

    /// Returns the time since its begin.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the number of answers so far.
    pub fn answered(&self) -> u64 {
        self.state.answered.load(Ordering::Relaxed)
    }

    /// Returns the time by which the last request began late.
    pub fn late(&self) -> Duration {
        Duration::from_nanos(self.state.late_ns.load(Ordering::Relaxed))
    }

    /// Ends the loop, and returns its client and, of an open loop, its requests.
    pub fn end(self) -> Result<(CheckingClient, Vec<TimedRequest>)> {
        self.state.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the client panicked"))?.context("a request failed")
    }
}
