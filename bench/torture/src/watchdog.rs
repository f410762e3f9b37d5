//! The watchdog: measures how long each thread has made no progress, in time that the machine
//! really provided.
//!
//! An emulated machine may stop as a whole, or be much slower than others. So time counts only as
//! far as a control thread made progress as well; it alternates between a little work and a rest of
//! a hundredth of a second, and its rests are what counts. The time between two looks counts as a
//! quarter of a second at most.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use crate::thread_status::ThreadStatus;

/// The time between two looks.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(50);
const COUNTED_TIME_MAX: Duration = Duration::from_millis(250);
/// The rest of the control thread, and its work in between.
const CONTROL_PAUSE: Duration = Duration::from_millis(10);
const CONTROL_WORK: u64 = 10_000;

/// The watchdog's state of a thread.
#[derive(Debug)]
struct ThreadProgress {
    status: Arc<ThreadStatus>,
    progress_count: u64,
    still: Duration,
}

/// The longest time without progress, and its thread.
#[derive(Clone, Debug, Default)]
pub struct Standstill {
    pub time: Duration,
    pub thread: String,
    /// Its last actions.
    pub recent_actions: String,
}

#[derive(Debug)]
pub struct HangWatchdog {
    threads: Vec<ThreadProgress>,
    control_count: Arc<AtomicU64>,
    control_seen: u64,
    checked_at: Instant,
    longest: Standstill,
}

impl HangWatchdog {
    /// Starts the watchdog and its control thread, which ends with the process.
    pub fn start(statuses: &[Arc<ThreadStatus>]) -> Self {
        let control = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&control);
        thread::spawn(move || run_control_thread(&count));
        Self::of(statuses, control)
    }

    fn of(statuses: &[Arc<ThreadStatus>], control: Arc<AtomicU64>) -> Self {
        let watched = |status: &Arc<ThreadStatus>| ThreadProgress {
            status: Arc::clone(status),
            progress_count: 0,
            still: Duration::ZERO,
        };
        let all = statuses.iter().map(watched).collect();
        Self {
            threads: all,
            control_count: control,
            control_seen: 0,
            checked_at: Instant::now(),
            longest: Standstill::default(),
        }
    }

    /// Examines all threads; returns one that has made no progress for `patience`.
    pub fn check(&mut self, patience: Duration) -> Option<Arc<ThreadStatus>> {
        let passed = self.checked_at.elapsed();
        self.checked_at = Instant::now();
        self.add_time(passed).filter(|&(_, still)| still >= patience).map(|(status, _)| status)
    }

    /// Counts time that has passed. Returns the thread without progress for the longest, and how
    /// long.
    fn add_time(&mut self, passed: Duration) -> Option<(Arc<ThreadStatus>, Duration)> {
        let control = self.control_count.load(Relaxed);
        let turns = u32::try_from(control - self.control_seen).unwrap_or(u32::MAX);
        let passed = passed.min(CONTROL_PAUSE.saturating_mul(turns)).min(COUNTED_TIME_MAX);
        self.control_seen = control;
        for watched in &mut self.threads {
            let signs = watched.status.progress_count();
            let goes_on = signs != watched.progress_count || watched.status.has_ended();
            watched.still = if goes_on { Duration::ZERO } else { watched.still + passed };
            watched.progress_count = signs;
        }
        let worst = self.threads.iter().max_by_key(|watched| watched.still)?;
        if worst.still > self.longest.time {
            let (who, story) = (worst.status.name.clone(), worst.status.recent_actions());
            self.longest = Standstill { time: worst.still, thread: who, recent_actions: story };
        }
        Some((Arc::clone(&worst.status), worst.still))
    }

    /// Returns the longest standstill so far.
    pub fn longest(&self) -> &Standstill {
        &self.longest
    }
}

fn run_control_thread(count: &AtomicU64) {
    loop {
        (0..CONTROL_WORK).for_each(|number| {
            std::hint::black_box(number);
        });
        count.fetch_add(1, Relaxed);
        thread::sleep(CONTROL_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(50);

    fn watchdog() -> (Vec<Arc<ThreadStatus>>, Arc<AtomicU64>, HangWatchdog) {
        let statuses =
            ["one", "two"].map(|name| Arc::new(ThreadStatus::new(name.to_owned()))).to_vec();
        let control = Arc::new(AtomicU64::new(0));
        let watchdog = HangWatchdog::of(&statuses, Arc::clone(&control));
        (statuses, control, watchdog)
    }

    /// Goal: a thread without progress is found, by name, and no other; an ended one is ignored.
    #[test]
    fn who_stands_still_is_found() {
        let (statuses, control, mut watchdog) = watchdog();
        let mut still = Duration::ZERO;
        for _ in 0..10 {
            statuses[0].mark_progress();
            control.fetch_add(5, Relaxed);
            let (who, time) = watchdog.add_time(TICK).unwrap();
            still = time;
            assert_eq!(who.name, "two");
        }
        assert_eq!(still, TICK * 10);
        assert_eq!((watchdog.longest().time, &*watchdog.longest().thread), (TICK * 10, "two"));
        statuses[1].end();
        statuses[0].mark_progress();
        control.fetch_add(1, Relaxed);
        assert_eq!(watchdog.add_time(TICK).unwrap().1, Duration::ZERO);
    }

    /// Goal: a machine that stops as a whole, or nearly so, is no thread's fault: time counts only
    /// while the control thread makes progress, and a long sleep of the watchdog itself counts
    /// little.
    #[test]
    fn a_machine_that_stands_still_is_not_blamed() {
        let (_, control, mut watchdog) = watchdog();
        assert_eq!(watchdog.add_time(TICK * 1000).unwrap().1, Duration::ZERO);
        control.fetch_add(1, Relaxed);
        assert_eq!(watchdog.add_time(TICK * 1000).unwrap().1, CONTROL_PAUSE);
        control.fetch_add(1000, Relaxed);
        assert_eq!(watchdog.add_time(TICK * 1000).unwrap().1, CONTROL_PAUSE + COUNTED_TIME_MAX);
    }
}
