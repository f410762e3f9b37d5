//! The cost of sampling accesses by registers: how much slower a program becomes that is sampled,
//! and the CPU time of the sampler.
//!
//! Windows with and without sampling take turns. Work is counted per CPU second of the sampled
//! program, so that other programs on the machine disturb less than they would per second; time in
//! interrupts is CPU time of that program.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nodeward_linux::Linux;
use nodeward_linux::own_process::{AreaBacking, MappedArea};
use nodeward_machine::{AccessSampling, AccessSource, AccessSourceKind, Machine};
use nodeward_model::Pid;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::args::{SamplingFigure, SamplingOptions, WalkOptions};
use crate::numbers::{all_rounded, median, rounded};

/// Words that each thread reads at random: 64 MiB.
const MEMORY_WORDS: usize = 8 << 20;
/// Bytes of the file of counts: a page of any kernel.
const COUNTS_BYTES: usize = 64 << 10;
/// Threads that have a count there.
const THREADS_MAX: usize = COUNTS_BYTES / 8;
/// The longest time between two takings of samples; a balancer takes them as often.
const TAKE_INTERVAL: Duration = Duration::from_secs(1);

/// Measures pairs of windows.
pub fn measure(options: &SamplingOptions) -> Result<Value> {
    let mut bench = Bench::start(Duration::from_millis(options.window_ms))?;
    let pairs = (0..options.pairs).map(|_| bench.pair(options.rate)).collect::<Result<Vec<_>>>()?;
    let values = |of: fn(&Pair) -> f64| pairs.iter().map(of).collect::<Vec<_>>();
    let slower = values(|pair| 100.0 * (1.0 - pair.work));
    let sampler = values(|pair| 100.0 * pair.sampler);
    let measured = match options.figure {
        SamplingFigure::Slower => median(&slower),
        SamplingFigure::Sampler => median(&sampler),
    };
    let at_hz = options.at.unwrap_or(options.rate);
    Ok(json!({
        "measured": rounded(measured * f64::from(at_hz) / f64::from(options.rate)),
        "unit": "%",
        "at_hz": at_hz,
        "rate_hz": options.rate,
        "threads": bench.threads,
        "slower_percent": all_rounded(&slower),
        "sampler_percent_of_a_cpu_for_each_thread": all_rounded(&sampler),
        "samples_per_s": all_rounded(&values(|pair| pair.samples)),
        "with_address_percent": all_rounded(&values(|pair| 100.0 * pair.addresses / pair.samples)),
        "lost": pairs.iter().map(|pair| pair.lost).sum::<u64>(),
    }))
}

/// A window without sampling and a window with sampling.
#[derive(Default)]
struct Pair {
    /// Work per CPU second with sampling, as a part of that without.
    work: f64,
    /// CPU time of the sampler for each thread, in CPUs.
    sampler: f64,
    /// Samples a second, and the part of them that has an address.
    samples: f64,
    addresses: f64,
    lost: u64,
}

struct Bench {
    target: Child,
    threads: usize,
    counts: MappedArea,
    source: Box<dyn AccessSource>,
    window: Duration,
}

impl Bench {
    /// Starts a program with a thread for each CPU that reads its own memory at random.
    fn start(window: Duration) -> Result<Self> {
        let threads = thread::available_parallelism()?.get().min(THREADS_MAX);
        let file = NamedTempFile::new()?;
        file.as_file().set_len(COUNTS_BYTES as u64)?;
        let counts = MappedArea::map(COUNTS_BYTES, AreaBacking::SharedFile(file.as_fd()))?;
        let mut walk = Command::new(std::env::current_exe()?);
        walk.arg("walk").arg(file.path()).args(["--threads", &threads.to_string()]);
        let target = walk.stdin(Stdio::piped()).spawn()?;
        let source = Linux::open().open_access_source(AccessSourceKind::Registers)?;
        let bench = Self { target, threads, counts, source, window };
        while bench.counts.words()[..threads].iter().any(|count| count.load(Relaxed) == 0) {
            thread::sleep(Duration::from_millis(10));
        }
        Ok(bench)
    }

    fn pair(&mut self, rate_hz: u32) -> Result<Pair> {
        self.source.observe(&AccessSampling::default())?;
        let (without, _) = self.window(|_| Ok(()))?;
        let pids = vec![Pid::new(self.target.id())?];
        self.source.observe(&AccessSampling { pids, rate_hz })?;
        let mut pair = Pair::default();
        let (with, seconds) = self.window(|source| {
            let batch = source.take()?;
            pair.sampler += batch.cpu_ns as f64 / 1e9;
            pair.addresses += batch.samples.len() as f64;
            pair.samples += batch.samples.len() as f64 + batch.without_address as f64;
            pair.lost += batch.lost;
            Ok(())
        })?;
        ensure!(pair.samples > 0.0, "no sample came at {rate_hz} Hz");
        pair.work = with / without;
        pair.sampler /= self.threads as f64;
        for value in [&mut pair.sampler, &mut pair.samples, &mut pair.addresses] {
            *value /= seconds;
        }
        Ok(pair)
    }

    /// Returns the work per CPU second of the target in a window, and the seconds of the window.
    fn window(
        &mut self,
        mut take: impl FnMut(&mut dyn AccessSource) -> Result<()>,
    ) -> Result<(f64, f64)> {
        let (work, cpu_ns, start) = (self.work(), self.cpu_ns()?, Instant::now());
        while start.elapsed() < self.window {
            thread::sleep(TAKE_INTERVAL.min(self.window));
            take(&mut *self.source)?;
        }
        let per_cpu_second = (self.work() - work) / (self.cpu_ns()? - cpu_ns);
        Ok((per_cpu_second, start.elapsed().as_secs_f64()))
    }

    fn work(&self) -> f64 {
        self.counts.words().iter().map(|count| count.load(Relaxed) as f64).sum()
    }

    /// Returns the CPU time of all threads of the target.
    fn cpu_ns(&self) -> Result<f64> {
        let mut total = 0.0;
        for task in fs::read_dir(format!("/proc/{}/task", self.target.id()))? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            let cpu_ns = text.split(' ').next().context("an empty schedstat")?;
            total += cpu_ns.parse::<f64>()?;
        }
        Ok(total)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.target.kill().ok();
        self.target.wait().ok();
    }
}

/// Reads memory at random in each thread, and counts in a file, until standard input ends.
pub fn walk(options: &WalkOptions) -> Result<Value> {
    let file = File::options().read(true).write(true).open(&options.counts)?;
    let counts = MappedArea::map(COUNTS_BYTES, AreaBacking::SharedFile(file.as_fd()))?;
    thread::scope(|scope| {
        for count in &counts.words()[..options.threads.min(THREADS_MAX)] {
            scope.spawn(move || {
                let memory = vec![1_u64; MEMORY_WORDS];
                let mut at = 1_u64;
                loop {
                    for _ in 0..1000 {
                        at = at.wrapping_mul(6364136223846793005).wrapping_add(memory[index(at)]);
                    }
                    black_box(at);
                    count.fetch_add(1, Relaxed);
                }
            });
        }
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        std::process::exit(0);
    })
}

/// Returns a word by the high bits of a random number.
fn index(random: u64) -> usize {
    (random >> 41) as usize
}
