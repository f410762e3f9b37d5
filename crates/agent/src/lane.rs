//! A few threads for requests that take too long for the thread of the server.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use crate::limits::WAITING_MAX;

/// A task of a lane.
pub type LaneRequest = Box<dyn FnOnce() + Send>;

/// Threads that take tasks in turn, and end when it is dropped.
pub struct RequestLane {
    sender: Option<SyncSender<LaneRequest>>,
    threads: Vec<JoinHandle<()>>,
}

impl RequestLane {
    /// Starts the threads.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn start(name: &str, threads: usize) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        let start = |_| {
            let receiver = Arc::clone(&receiver);
            thread::Builder::new().name(name.to_owned()).spawn(move || work(&receiver))
        };
        let threads = (0..threads).map(start).collect::<io::Result<_>>()?;
        Ok(Self { sender: Some(sender), threads })
    }

    /// Gives a task to the next thread that is free; `false` if too many wait already.
    pub fn give(&self, task: LaneRequest) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.try_send(task).is_ok())
    }
}

impl Drop for RequestLane {
    fn drop(&mut self) {
        self.sender = None;
        for thread in mem::take(&mut self.threads) {
            let _ = thread.join();
        }
    }
}

fn work(receiver: &Mutex<Receiver<LaneRequest>>) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(task) = next else { return };
        task();
    }
}
