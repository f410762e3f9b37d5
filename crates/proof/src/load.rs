//! Threads that write and check a region while it moves.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::{Findings, Pattern, StallTimes, TouchTimer, Xorshift64};

/// Interval at which a resting thread checks whether it is to run.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A reader reads this many pages in succession, about 10 us of work, and then rests, so that it
/// takes little time from the copying threads.
const READS_PER_BURST: usize = 16;
const READER_PAUSE: Duration = Duration::from_micros(200);

/// A visit of a page that takes longer than this was interrupted after its first touch.
const LONG_VISIT: Duration = Duration::from_micros(20);

/// The threads of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadSpec {
    /// Threads that write without rest, each its own share of the pages.
    pub writers: usize,
    /// Threads that read any page, and rest in between.
    pub readers: usize,
    /// Seed of the order of pages.
    pub seed: u64,
}

/// The observations of the threads.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// Wrong words.
    pub findings: Findings,
    /// Durations of the first touch of each visited page, while touches were measured.
    pub stalls: StallTimes,
    /// Number of pages written, after a check of every word.
    pub pages_written: u64,
    /// Number of pages read and checked.
    pub pages_read: u64,
}

const PAUSE: u8 = 0;
const RUN: u8 = 1;
const WATCHED: u8 = 2;
const END: u8 = 3;

/// The control of a load: its holder decides when the threads run. They start paused.
#[derive(Debug, Default)]
pub struct LoadControl {
    command: AtomicU8,
    resting: AtomicUsize,
    /// Number of threads that have not ended.
    threads: AtomicUsize,
    written_pages: AtomicU64,
    read_pages: AtomicU64,
}

impl LoadControl {
    /// Pauses all threads; returns when they rest.
    pub fn pause(&self) {
        self.command.store(PAUSE, Release);
        while self.resting.load(Acquire) < self.threads.load(Acquire) {
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Lets all threads run, and measures first touches if `watched`. Returns when they run.
    pub fn run(&self, watched: bool) {
        self.command.store(if watched { WATCHED } else { RUN }, Release);
        while self.resting.load(Acquire) > 0 {
            thread::yield_now();
        }
    }

    /// Returns the number of pages written so far.
    pub fn pages_written(&self) -> u64 {
        self.written_pages.load(Relaxed)
    }

    /// Tells the calling thread what to do next; `None` at the end.
    fn next_command(&self) -> Option<bool> {
        loop {
            match self.command.load(Acquire) {
                END => return None,
                PAUSE => self.rest(),
                call => return Some(call == WATCHED),
            }
        }
    }

    fn rest(&self) {
        self.resting.fetch_add(1, Release);
        while self.command.load(Acquire) == PAUSE {
            thread::sleep(POLL_INTERVAL);
        }
        self.resting.fetch_sub(1, Release);
    }
}

/// Ends the load when dropped, also by a panic.
struct EndLoadOnDrop<'a>(&'a LoadControl);

impl Drop for EndLoadOnDrop<'_> {
    fn drop(&mut self) {
        self.0.command.store(END, Release);
    }
}

/// Subtracts a thread from the count when it ends, for whatever reason.
struct ThreadCount<'a>(&'a LoadControl);

impl Drop for ThreadCount<'_> {
    fn drop(&mut self) {
        self.0.threads.fetch_sub(1, Release);
    }
}

/// Runs `work` beside the threads of a load, and checks all words at the end.
///
/// # Errors
/// If a thread cannot read its counters of waits.
pub fn under_load<T>(
    pattern: &Pattern<'_>,
    load: LoadSpec,
    work: impl FnOnce(&LoadControl) -> T,
) -> io::Result<(T, LoadReport)> {
    let reins =
        LoadControl { threads: (load.writers + load.readers).into(), ..LoadControl::default() };
    let (done, report) = thread::scope(|scope| {
        let writers = (0..load.writers).map(|number| {
            let worker = LoadWorker::new(pattern, &reins, load.seed ^ number as u64);
            scope.spawn(move || worker.write(number, load.writers))
        });
        let writers: Vec<_> = writers.collect();
        let readers = (0..load.readers).map(|number| {
            let worker = LoadWorker::new(pattern, &reins, !load.seed ^ number as u64);
            scope.spawn(move || worker.read())
        });
        let threads: Vec<_> = writers.into_iter().chain(readers.collect::<Vec<_>>()).collect();
        let end = EndLoadOnDrop(&reins);
        let done = work(&reins);
        drop(end);
        join(threads).map(|report| (done, report))
    })?;
    let mut report = LoadReport {
        pages_written: reins.written_pages.load(Relaxed),
        pages_read: reins.read_pages.load(Relaxed),
        ..report
    };
    report.findings.add(&pattern.check_all());
    Ok((done, report))
}

type LoadThread<'scope> = ScopedJoinHandle<'scope, io::Result<(Findings, StallTimes)>>;

fn join(threads: Vec<LoadThread<'_>>) -> io::Result<LoadReport> {
    let mut report = LoadReport::default();
    for thread in threads {
        let result = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (findings, stalls) = result?;
        report.findings.add(&findings);
        report.stalls.add(&stalls);
    }
    Ok(report)
}

/// A thread of the load.
struct LoadWorker<'a> {
    pattern: &'a Pattern<'a>,
    control: &'a LoadControl,
    random: Xorshift64,
    findings: Findings,
}

impl<'a> LoadWorker<'a> {
    fn new(pattern: &'a Pattern<'a>, reins: &'a LoadControl, seed: u64) -> Self {
        Self {
            pattern,
            control: reins,
            random: Xorshift64::new(seed),
            findings: Findings::default(),
        }
    }

    /// Writes random pages of share `number` out of `writers` shares.
    fn write(mut self, number: usize, writers: usize) -> io::Result<(Findings, StallTimes)> {
        let _counted = ThreadCount(self.control);
        let share = (self.pattern.pages() - number).div_ceil(writers);
        let mut touches = TouchTimer::of_this_thread()?;
        while let Some(watched) = self.control.next_command() {
            let page = self.random.below(share) * writers + number;
            touches.time_touch_if(watched, || self.pattern.touch(page))?;
            let began = Instant::now();
            self.pattern.write(page, &mut self.findings);
            self.control.written_pages.fetch_add(1, Relaxed);
            if began.elapsed() > LONG_VISIT {
                touches.read_counters()?;
            }
        }
        Ok((self.findings, touches.into_stalls()))
    }

    fn read(mut self) -> io::Result<(Findings, StallTimes)> {
        let _counted = ThreadCount(self.control);
        let mut seen = self.pattern.new_view();
        let mut touches = TouchTimer::of_this_thread()?;
        while let Some(watched) = self.control.next_command() {
            touches.read_counters()?;
            for _ in 0..READS_PER_BURST {
                let page = self.random.below(self.pattern.pages());
                touches.time_touch_if(watched, || self.pattern.touch(page))?;
                let began = Instant::now();
                self.pattern.read(page, &mut seen, &mut self.findings);
                if began.elapsed() > LONG_VISIT {
                    touches.read_counters()?;
                }
            }
            self.control.read_pages.fetch_add(READS_PER_BURST as u64, Relaxed);
            thread::sleep(READER_PAUSE);
        }
        Ok((self.findings, touches.into_stalls()))
    }
}

#[cfg(test)]
mod tests {
    use nodeward_linux::test_wait::wait_until;

    use super::*;

    const PAGE_BYTES: usize = 4096;
    const PAGES: usize = 64;

    fn region() -> Vec<AtomicU64> {
        (0..PAGES * PAGE_BYTES / 8).map(|_| AtomicU64::new(0)).collect()
    }

    /// Runs a load on a region, and calls `harm` in the middle.
    fn run(load: LoadSpec, harm: impl FnOnce(&[AtomicU64])) -> LoadReport {
        let words = region();
        let pattern = Pattern::fill(&words, PAGE_BYTES);
        let (_, report) = under_load(&pattern, load, |reins| {
            reins.run(true);
            wait_until("the threads have written", || reins.pages_written() >= 10 * PAGES as u64);
            reins.pause();
            harm(&words);
            reins.run(false);
        })
        .unwrap();
        report
    }

    /// Goal: many threads on correct memory find nothing, and report their work.
    #[test]
    fn memory_that_behaves_is_clean() {
        let report = run(LoadSpec { writers: 3, readers: 2, seed: 1 }, |_| {});
        assert!(report.findings.is_clean(), "{:?}", report.findings);
        assert!(report.pages_written >= 10 * PAGES as u64);
        assert!(report.stalls.report().touches.count > 0);
    }

    /// Goal: one word that is changed behind the threads' back is found.
    #[test]
    fn one_lost_word_is_found() {
        let report = run(LoadSpec { writers: 2, readers: 1, seed: 2 }, |words| {
            words[7 * PAGE_BYTES / 8 + 3].fetch_sub(1, Relaxed);
        });
        assert_eq!(report.findings.lost_writes, 1);
        assert_eq!(report.findings.first.unwrap().word, 7 * 512 + 3);
    }

    /// Goal: a paused load does not write.
    #[test]
    fn a_load_rests_when_it_is_told_to() {
        let words = region();
        let pattern = Pattern::fill(&words, PAGE_BYTES);
        let load = LoadSpec { writers: 2, readers: 1, seed: 3 };
        let ((before, after), report) = under_load(&pattern, load, |reins| {
            reins.run(false);
            reins.pause();
            let before = reins.pages_written();
            thread::sleep(Duration::from_millis(5));
            (before, reins.pages_written())
        })
        .unwrap();
        assert_eq!(before, after);
        assert_eq!(report.stalls.report().touches.count, 0, "nobody watched");
    }
}
