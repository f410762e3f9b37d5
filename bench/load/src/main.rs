//! `nodeward-load`: a process whose memory is to be moved. It reports where its memory is, keeps
//! writing and checking it, and measures how long it has to wait.

#![forbid(unsafe_code)]

mod args;
mod memory;
mod pattern;
mod pins;
mod probe;
mod race;
mod report;
mod writer;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use nodeward_lab_counts::mark::{Mark, mark};
use nodeward_linux::{mempolicy, own_process};
use nodeward_proof::StallsReport;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use args::{Args, MemoryKind};
use memory::PageWords;
use pattern::WrittenPage;
use pins::PipePins;
use probe::ProbeRate;
use report::{LoadDone, LoadReady, WriteTally};

const LOOK_INTERVAL: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("nodeward-load: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Runs the load and returns the number of mismatches.
fn run(args: &Args) -> Result<u64> {
    args.slot.inspect(|&slot| mark(Mark::Attach(slot)));
    let ran = run_all(args);
    args.slot.inspect(|&slot| mark(Mark::Detach(slot)));
    ran
}

fn run_all(args: &Args) -> Result<u64> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    if args.kind != MemoryKind::Thp {
        own_process::disable_huge_pages().context("cannot switch transparent huge pages off")?;
    }
    if let Some(nodes) = &args.node {
        mempolicy::bind_memory(nodes)
            .with_context(|| format!("no memory from node {nodes}; choose another --node"))?;
    }
    memory::with_memory(args, |pages| load(args, pages, &stop))
}

fn load(args: &Args, pages: &[PageWords], stop: &AtomicBool) -> Result<u64> {
    let mut written = fill(args.kind, pages);
    if args.unbind {
        mempolicy::default_memory()?;
    }
    let pins = PipePins::pin_evenly(pages, args.pin)?;
    let children =
        (0..args.fork).map(|_| own_process::fork_idle(u32::MAX)).collect::<Result<Vec<_>, _>>();
    let children: Vec<u32> = children?.into_iter().map(nodeward_model::Pid::number).collect();
    // Before threads start: while mappings are added, Linux 6.1 may omit others from its sums.
    let ready = ready(args, pages, pins.pinned, &children);
    let done = thread::scope(|scope| {
        let workers = Workers::start(scope, args, pages, &mut written, stop);
        let replacing = on_hang_up()?;
        report::print(&ready)?;
        wait(args, stop, &replacing)?;
        stop.store(true, Relaxed);
        workers.join()
    });
    reap(&children);
    let done = done?;
    report::print(&done)?;
    Ok(done.tally.mismatches)
}

fn fill<'a>(kind: MemoryKind, pages: &[PageWords<'a>]) -> Vec<WrittenPage<'a>> {
    let salt = |number| if kind == MemoryKind::Ksm { 0 } else { number };
    (0..).zip(pages).map(|(number, page)| WrittenPage::fill(page, salt(number))).collect()
}

fn ready(args: &Args, pages: &[PageWords], pinned: usize, children: &[u32]) -> LoadReady {
    LoadReady {
        ready: true,
        pid: std::process::id(),
        range: range(pages),
        hot: range(&pages[memory::hot_pages(args, pages.len())]),
        pages: pages.len(),
        page_bytes: memory::page_bytes(),
        pinned,
        huge_bytes: huge_bytes(),
        children: children.to_vec(),
    }
}

/// Returns the addresses of the first page and past the last one.
fn range(pages: &[PageWords]) -> String {
    let first = pages.iter().map(|page| page.as_ptr() as usize).min().unwrap_or(0);
    let last = pages.iter().map(|page| page.as_ptr() as usize).max().unwrap_or(0);
    format!("{first:x}-{:x}", last + memory::page_bytes())
}

fn huge_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Returns a flag that becomes true on SIGHUP.
fn on_hang_up() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&flag))?;
    Ok(flag)
}

/// Waits for the end, or replaces the program when its time has come.
fn wait(args: &Args, stop: &AtomicBool, replacing: &AtomicBool) -> Result<()> {
    let start = Instant::now();
    let passed = |seconds: Option<f64>| seconds.is_some_and(|s| start.elapsed().as_secs_f64() >= s);
    while !stop.load(Relaxed) && !passed(args.seconds) {
        if passed(args.exec_after) || replacing.load(Relaxed) {
            return Err(replace(args)).context("exec failed");
        }
        thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}

/// Replaces this process by a plain load for the rest of the time. Returns only on failure.
fn replace(args: &Args) -> std::io::Error {
    let mut next = Command::new("/proc/self/exe");
    next.args(["--size", &args.size.to_string()]);
    if let Some(seconds) = args.seconds {
        let left = (seconds - args.exec_after.unwrap_or(0.0)).max(0.0);
        next.args(["--seconds", &left.to_string()]);
    }
    next.exec()
}

fn reap(children: &[u32]) {
    for child in children.iter().filter_map(|child| Pid::from_raw(child.cast_signed())) {
        // A child that another process has killed is just as gone.
        let _ = kill_process(child, Signal::KILL);
        let _ = waitpid(Some(child), WaitOptions::empty());
    }
}

/// The threads of the load.
struct Workers<'scope> {
    writers: Vec<ScopedJoinHandle<'scope, WriteTally>>,
    races: Vec<ScopedJoinHandle<'scope, std::io::Result<u64>>>,
    probe: Option<ScopedJoinHandle<'scope, std::io::Result<StallsReport>>>,
}

impl<'scope> Workers<'scope> {
    fn start<'env: 'scope>(
        scope: &'scope thread::Scope<'scope, 'env>,
        args: &'env Args,
        pages: &'env [PageWords<'env>],
        written: &'env mut [WrittenPage<'env>],
        stop: &'env AtomicBool,
    ) -> Self {
        let (begun, all_begun) = mpsc::channel();
        let hot = memory::hot_pages(args, written.len());
        let (written, after) = written.split_at_mut(hot.end);
        let (before, written) = written.split_at_mut(hot.start);
        let left_alone = |share: &'env mut [WrittenPage<'env>]| {
            (!share.is_empty()).then(|| spawn(scope, &begun, move || check_at_the_end(share, stop)))
        };
        let share = written.len().div_ceil(args.threads.max(1)).max(1);
        let idle = args.threads == 0;
        let pause = args.pause.map(Duration::from_nanos);
        let writer = |(seed, share): (u64, &'env mut [WrittenPage<'env>])| {
            spawn(scope, &begun, move || match idle {
                true => check_at_the_end(share, stop),
                false => writer::keep_writing(share, seed, pause, stop),
            })
        };
        let (step, most) = (args.race_size as usize, args.size as usize);
        let race = |&race| spawn(scope, &begun, move || race::run(race, step, most, stop));
        let rest = Duration::from_nanos(args.probe_interval);
        let rhythm = ProbeRate { interval: rest, burst: args.probe_burst };
        let probe = || spawn(scope, &begun, move || probe::keep_touching(pages, rhythm, stop));
        let workers = Self {
            writers: (1..)
                .zip(written.chunks_mut(share))
                .map(writer)
                .chain([before, after].into_iter().filter_map(left_alone))
                .collect(),
            races: args.race.iter().map(race).collect(),
            probe: args.probe.then(probe),
        };
        drop(begun);
        // Nothing is ever sent: this returns when the last thread has dropped its sender.
        all_begun.recv().unwrap_or_default();
        workers
    }

    fn join(self) -> Result<LoadDone> {
        let mut tally = WriteTally::default();
        for writer in self.writers {
            tally.add(joined(writer)?);
        }
        let mut races = 0;
        for race in self.races {
            races += joined(race)?.context("a race could not go on")?;
        }
        let probe = self.probe.map(joined).transpose()?.transpose()?;
        Ok(LoadDone { done: true, pid: std::process::id(), tally, races, probe })
    }
}

/// Starts a thread that drops `begun` when its work begins. Before that, std maps a signal stack
/// for it; if the stack is mapped next to our memory, the kernel counts all of that memory as
/// written.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    begun: &Sender<()>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let begun = begun.clone();
    scope.spawn(move || {
        drop(begun);
        work()
    })
}

fn joined<T>(thread: ScopedJoinHandle<T>) -> Result<T> {
    let result = thread.join();
    ensure!(result.is_ok(), "a thread panicked; see above");
    result.map_err(|_| anyhow::anyhow!("a thread panicked"))
}

fn check_at_the_end(pages: &[WrittenPage], stop: &AtomicBool) -> WriteTally {
    while !stop.load(Relaxed) {
        thread::sleep(LOOK_INTERVAL);
    }
    let mut tally = WriteTally::default();
    writer::check_all(pages, &mut tally);
    tally
}
