//! The thread that reads. The screen waits neither for it nor for an agent.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nodeward_model::Pid;

use super::inbox::Inbox;
use super::observer::{Interest, MachineObserver};
use crate::top::ScreenEvent;

/// The time between two close looks at the same process.
const DETAIL_INTERVAL: Duration = Duration::from_secs(5);

/// What the screen tells the reader.
#[derive(Default)]
struct Wanted {
    interest: Interest,
    /// Something is to be read before the next refresh is due.
    is_urgent: bool,
    is_over: bool,
}

/// The screen's side of the reader.
#[derive(Clone, Default)]
pub struct ReaderHandle(Arc<(Mutex<Wanted>, Condvar)>);

impl ReaderHandle {
    /// Starts the thread, which reads at these intervals and sends what it read.
    ///
    /// # Errors
    /// If there is no room for a thread.
    pub fn start(
        observer: MachineObserver,
        interval: Duration,
        exclusive: Arc<Mutex<()>>,
        inbox: Inbox,
    ) -> Result<Self> {
        let handle = Self::default();
        let (told, detail) = (handle.clone(), None);
        let reader = Reader { observer, interval, exclusive, inbox, handle: told, detail };
        let thread = thread::Builder::new().name("nodeward-read".to_owned());
        thread.spawn(move || reader.run()).context("cannot start a thread")?;
        Ok(handle)
    }

    /// Says what is looked at from now on.
    pub fn look_at(&self, interest: Interest) {
        let mut wanted = self.lock();
        wanted.is_urgent |= interest.detail.is_some() && interest.detail != wanted.interest.detail;
        wanted.interest = interest;
        self.0.1.notify_all();
    }

    /// Ends the thread after what it reads now. Nobody waits for it: an agent may not answer.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.0.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next refresh, or until something is urgent. `None` at the end.
    fn wait(&self, due: Instant) -> Option<Interest> {
        let mut wanted = self.lock();
        while !wanted.is_over && !wanted.is_urgent {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.0.1.wait_timeout(wanted, left);
            wanted = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        wanted.is_urgent = false;
        (!wanted.is_over).then(|| wanted.interest.clone())
    }
}

/// The thread's side.
struct Reader {
    observer: MachineObserver,
    interval: Duration,
    /// Held while the machine is read, and while memory of a simulated machine moves: only one
    /// thread may let its time pass.
    exclusive: Arc<Mutex<()>>,
    inbox: Inbox,
    handle: ReaderHandle,
    /// The process that was looked at closely, and when.
    detail: Option<(Pid, Instant)>,
}

impl Reader {
    fn run(mut self) {
        let mut due = Instant::now();
        while let Some(interest) = self.handle.wait(due) {
            let is_due = Instant::now() >= due;
            if let Err(error) = self.read(&interest, is_due) {
                self.inbox.send(Err(error));
                return;
            }
            if is_due {
                due = Instant::now() + self.interval;
            }
        }
    }

    fn is_detail_due(&self, pid: Pid) -> bool {
        self.detail.is_none_or(|(last, at)| last != pid || at.elapsed() >= DETAIL_INTERVAL)
    }

    fn read(&mut self, interest: &Interest, is_due: bool) -> Result<()> {
        let _held = self.exclusive.lock().unwrap_or_else(PoisonError::into_inner);
        if is_due {
            self.observer.pass(u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX));
            let sample = self.observer.refresh(&interest.seen)?;
            self.inbox.send(Ok(ScreenEvent::Sample(Arc::new(sample))));
        }
        if let Some(pid) = interest.detail.filter(|pid| self.is_detail_due(*pid)) {
            let detail = self.observer.detail(pid);
            self.inbox.send(Ok(ScreenEvent::Detail(detail)));
            self.detail = Some((pid, Instant::now()));
        }
        Ok(())
    }
}
