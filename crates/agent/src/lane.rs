//! A few threads for requests that take too long for the thread of the server.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread};

use crate::limits::WAITING_MAX;

/// A task of a lane.
pub type LaneRequest = Box<dyn FnOnce() + Send>;

/// Threads that take tasks in turn, and end when it is dropped, each after the task that it has: a
/// look takes seconds, and nobody waits for its answer any more.
pub struct RequestLane(SyncSender<LaneRequest>);

impl RequestLane {
    /// Starts the threads.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn start(name: &str, threads: usize) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..threads {
            let receiver = Arc::clone(&receiver);
            thread::Builder::new().name(name.to_owned()).spawn(move || work(&receiver))?;
        }
        Ok(Self(sender))
    }

    /// Gives a task to the next thread that is free; `false` if too many wait already.
    pub fn give(&self, task: LaneRequest) -> bool {
        self.0.try_send(task).is_ok()
    }
}

fn work(receiver: &Mutex<Receiver<LaneRequest>>) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(task) = next else { return };
        task();
    }
}
