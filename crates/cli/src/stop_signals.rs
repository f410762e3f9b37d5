//! Ctrl-C, SIGTERM, and for some work a closed terminal (SIGHUP): the one place that catches them.
//!
//! They are caught only while work goes on that has something to tell at its end. At any other time
//! they end the program at once. The first one during such work asks it to end, the second ends the
//! program at once, and so does work that does not end in time: a command that is blocked by its
//! output, by a pipe or by an agent ends, too.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nodeward_linux::signal_mask::{block_signals_in_scope, is_hangup_ignored};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

/// Interval between two looks at work that is to end.
const TICK: Duration = Duration::from_millis(50);
/// Time for work whose result nobody misses.
const SECOND: Duration = Duration::from_millis(900);
/// Work that is blocked uses less CPU time than this ...
const IDLE_CPU: Duration = Duration::from_millis(10);
/// ... in this time: no pause between two attempts at something is as long.
const IDLE_MAX: Duration = SECOND;
/// Time for work with an account, where other programs take the CPUs.
const ACCOUNT_MAX: Duration = Duration::from_secs(30);

/// The state of the one work of this program.
static WORK: Mutex<Work> = Mutex::new(Work::Nothing);
/// What catches the signals, as it does until the program ends.
static CAUGHT: Mutex<Option<Handle>> = Mutex::new(None);

/// What is done before a signal ends this program.
static LAST_ACTION: Mutex<Option<fn()>> = Mutex::new(None);

/// Does something before a signal ends this program, from now on: it has changed what outlives it.
pub fn do_before_end(action: fn()) {
    *LAST_ACTION.lock().unwrap_or_else(PoisonError::into_inner) = Some(action);
}

/// The time for which work may go on after a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// Nobody misses its result: a second.
    Second,
    /// It has to tell what it did: until it is blocked.
    Account,
}

/// Work during which signals are caught, until it is dropped.
pub struct StopSignals {
    stopped_by: Arc<AtomicI32>,
}

impl StopSignals {
    /// Catches the signals from now on; the first one calls `stop`.
    ///
    /// # Errors
    /// If they cannot be caught.
    pub fn catch(grace: Grace, stop: impl FnOnce() + Send + 'static) -> Result<Self> {
        let stopped_by = Arc::<AtomicI32>::default();
        let told = Arc::clone(&stopped_by);
        let stop = move |signal| {
            told.store(signal, Ordering::Relaxed);
            stop();
        };
        // Before the signals are caught, or one that comes now would end the program.
        *work() = Work::Running { grace, stop: Box::new(stop) };
        let caught = Self { stopped_by };
        install().context("cannot catch Ctrl-C")?;
        Ok(caught)
    }

    /// Lets a closed terminal end the work in order, too, unless this program ignores that.
    ///
    /// # Errors
    /// If SIGHUP cannot be caught.
    pub fn catch_hangup(&self) -> Result<()> {
        let caught = CAUGHT.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(handle) = caught.as_ref().filter(|_| !is_hangup_ignored()) else { return Ok(()) };
        register(|| handle.add_signal(SIGHUP)).context("cannot catch SIGHUP")
    }

    /// Returns whether one of them asked the work to end.
    pub fn is_stopped(&self) -> bool {
        self.stopped_by.load(Ordering::Relaxed) != 0
    }

    /// Returns whether that was Ctrl-C.
    pub fn is_stopped_by_user(&self) -> bool {
        self.stopped_by.load(Ordering::Relaxed) == SIGINT
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        *work() = Work::Nothing;
    }
}

enum Work {
    /// Signals end the program.
    Nothing,
    /// The first signal calls `stop`.
    Running {
        grace: Grace,
        stop: Box<dyn FnOnce(i32) + Send>,
    },
    Stopping(StopRequest),
}

/// Work that was asked to end.
struct StopRequest {
    signal: i32,
    grace: Grace,
    began: Instant,
    /// The time at which the program was last seen to have used CPU time, and its CPU time then.
    busy: (Instant, Duration),
}

impl StopRequest {
    fn new(signal: i32, grace: Grace) -> Self {
        let now = Instant::now();
        Self { signal, grace, began: now, busy: (now, cpu_time()) }
    }

    fn is_overdue(&mut self) -> bool {
        let (now, cpu) = (Instant::now(), cpu_time());
        if cpu.saturating_sub(self.busy.1) >= IDLE_CPU {
            self.busy = (now, cpu);
        }
        let took = now - self.began;
        match self.grace {
            Grace::Second => took >= SECOND,
            Grace::Account => now - self.busy.0 >= IDLE_MAX || took >= ACCOUNT_MAX,
        }
    }
}

fn work() -> MutexGuard<'static, Work> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers what catches signals. Those that come meanwhile wait until it is done: signal-hook
/// drops one that comes between the system call and its own entry of the action.
pub fn register<T>(act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let _held = block_signals_in_scope();
    act()
}

/// Catches the signals, by a thread that ends with the program.
fn install() -> io::Result<()> {
    let mut caught = CAUGHT.lock().unwrap_or_else(PoisonError::into_inner);
    if caught.is_none() {
        let signals = register(|| Signals::new([SIGINT, SIGTERM]))?;
        let handle = signals.handle();
        let serve = move || serve(signals);
        thread::Builder::new().name("nodeward-signals".to_owned()).spawn(serve)?;
        *caught = Some(handle);
    }
    Ok(())
}

fn serve(mut signals: Signals) {
    loop {
        signals.wait().for_each(receive);
        while is_ending() {
            thread::sleep(TICK);
            signals.pending().for_each(receive);
        }
    }
}

fn receive(signal: i32) {
    let mut work = work();
    match mem::replace(&mut *work, Work::Nothing) {
        Work::Running { grace, stop } => {
            stop(signal);
            *work = Work::Stopping(StopRequest::new(signal, grace));
        }
        Work::Nothing | Work::Stopping(_) => end_by(signal),
    }
}

/// Returns whether work is to end; ends the program if that takes too long.
fn is_ending() -> bool {
    let Work::Stopping(stop) = &mut *work() else { return false };
    if stop.is_overdue() {
        end_by(stop.signal);
    }
    true
}

/// Ends the program as the signal does where nobody catches it.
fn end_by(signal: i32) {
    let last = *LAST_ACTION.lock().unwrap_or_else(PoisonError::into_inner);
    last.into_iter().for_each(|act| act());
    // It can be refused only for signals other than these.
    let _ = emulate_default_handler(signal);
}

/// The CPU time of all threads.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use signal_hook::consts::SIGUSR2;
    use signal_hook::flag;
    use signal_hook::low_level::raise;

    use super::*;

    fn stop(grace: Grace, began_ago: Duration, idle_for: Duration) -> StopRequest {
        let now = Instant::now();
        let busy = (now - idle_for, cpu_time());
        StopRequest { signal: SIGINT, grace, began: now - began_ago, busy }
    }

    /// Goal: work without an account has a second. Work with one has as long as it works, but no
    /// more than half a minute.
    #[test]
    fn work_that_does_not_end_is_ended() {
        let seconds = Duration::from_secs;
        assert!(!stop(Grace::Second, seconds(0), seconds(0)).is_overdue());
        assert!(stop(Grace::Second, seconds(1), seconds(0)).is_overdue());
        assert!(!stop(Grace::Account, seconds(20), seconds(0)).is_overdue());
        assert!(stop(Grace::Account, seconds(1), seconds(1)).is_overdue(), "it is blocked");
        assert!(stop(Grace::Account, seconds(30), seconds(0)).is_overdue());
    }

    /// Goal: a signal that comes while something is registered for it is taken afterwards.
    #[test]
    fn signals_wait_for_what_is_registered() {
        let taken = Arc::<AtomicBool>::default();
        flag::register(SIGUSR2, Arc::clone(&taken)).unwrap();
        let before = register(|| {
            raise(SIGUSR2)?;
            Ok(taken.load(Ordering::SeqCst))
        });
        assert_eq!((before.unwrap(), taken.load(Ordering::SeqCst)), (false, true));
    }

    /// Goal: who uses CPU time is not blocked, however long that took.
    #[test]
    fn who_works_is_not_blocked() {
        let mut stop = stop(Grace::Account, Duration::from_secs(2), Duration::from_secs(2));
        let used = stop.busy.1 + IDLE_CPU;
        while cpu_time() < used {
            std::hint::spin_loop();
        }
        assert!(!stop.is_overdue());
    }
}
