//! Events for the screen from other threads, with a file that becomes readable when there are some.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};

use crate::top::ScreenEvent;

/// What other threads send: an event, or why there will be no more figures.
type Sent = Result<ScreenEvent>;

/// Where other threads put events.
#[derive(Clone)]
pub struct Inbox {
    events: Arc<Mutex<VecDeque<Sent>>>,
    wake: Arc<UnixStream>,
}

/// The screen's side.
pub struct InboxReader {
    events: Arc<Mutex<VecDeque<Sent>>>,
    /// Readable when there are events.
    pub woken: UnixStream,
}

impl Inbox {
    /// Creates both sides.
    ///
    /// # Errors
    /// If there is no room for files.
    pub fn open() -> Result<(Self, InboxReader)> {
        let (wake, woken) = UnixStream::pair().context("cannot make a pair of sockets")?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let events = Arc::<Mutex<VecDeque<Sent>>>::default();
        let inbox = Self { events: Arc::clone(&events), wake: Arc::new(wake) };
        Ok((inbox, InboxReader { events, woken }))
    }

    /// Puts in an event. A newer sample replaces one that was not taken yet.
    pub fn send(&self, event: Sent) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(event, Ok(ScreenEvent::Sample(_))) {
            events.retain(|waiting| !matches!(waiting, Ok(ScreenEvent::Sample(_))));
        }
        events.push_back(event);
        drop(events);
        self.wake();
    }

    /// Wakes the screen without an event: a signal came.
    pub fn wake(&self) {
        // If the socket is full, the screen is woken anyway.
        let _ = (&*self.wake).write(&[0]);
    }

    /// Returns a file; a byte that is written to it wakes the screen.
    ///
    /// # Errors
    /// If there is no room for a file.
    pub fn waker(&self) -> Result<UnixStream> {
        Ok(self.wake.try_clone()?)
    }
}

impl InboxReader {
    /// Takes all events.
    pub fn take(&mut self) -> VecDeque<Sent> {
        let mut bytes = [0; 64];
        loop {
            match self.woken.read(&mut bytes) {
                Ok(count) if count == bytes.len() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
