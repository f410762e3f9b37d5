//! Measures what the source `registers` costs: this program's CPU time, and how much slower a
//! program becomes that is sampled. `access_cost [PAIRS] [SECONDS]`, by default 10 pairs of 4 s.
//!
//! The target is this program again, with a thread for each CPU that reads its own 64 MiB at
//! random. Windows with and without sampling take turns. Work is counted per CPU second of the
//! target, so that other programs on the machine disturb less than they would per second; time in
//! interrupts is CPU time of the target. 10 kHz is far above any use. It shows the cost of one
//! sample where that of 1 kHz is lost in the noise of a busy machine.

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use nodeward_linux::Linux;
use nodeward_linux::own_process::{AreaBacking, MappedArea};
use nodeward_machine::{AccessSampling, AccessSource, AccessSourceKind, Machine};
use nodeward_model::Pid;
use tempfile::NamedTempFile;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const MEMORY_WORDS: usize = 8 << 20;
/// Bytes of the file of counts: a page of any kernel.
const COUNTS_BYTES: usize = 64 << 10;
const RATES_HZ: [u32; 3] = [100, 1000, 10_000];
/// How often samples are taken, as often as a balancer does.
const TAKE_INTERVAL: Duration = Duration::from_secs(1);

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().collect();
    if arguments.get(1).is_some_and(|word| word == "walk") {
        return walk(&arguments[2]);
    }
    let number = |index: usize, usual| arguments.get(index).map_or(Ok(usual), |word| word.parse());
    let (pairs, seconds) = (number(1, 10)?, number(2, 4)?);
    let window = Duration::from_secs(seconds);
    println!("load of the machine: {}", fs::read_to_string("/proc/loadavg")?.trim_end());
    let mut bench = Bench::start(window)?;
    for rate_hz in RATES_HZ {
        let found = (0..pairs).map(|_| bench.pair(rate_hz)).collect::<Result<Vec<_>>>()?;
        report(rate_hz, &found);
    }
    println!("load of the machine: {}", fs::read_to_string("/proc/loadavg")?.trim_end());
    Ok(())
}

/// A window without sampling and one with it.
struct Pair {
    /// Work per CPU second with sampling, as a part of that without.
    work: f64,
    /// CPU time of the sampler, in CPUs.
    sampler: f64,
    /// Samples a second, with and without an address, and lost ones.
    samples: f64,
    addresses: f64,
    lost: u64,
}

fn report(rate_hz: u32, pairs: &[Pair]) {
    let quartiles = |value: fn(&Pair) -> f64| {
        let mut values: Vec<_> = pairs.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
    };
    let [low, middle, high] = quartiles(|pair| 100.0 * (1.0 - pair.work));
    println!("{rate_hz} Hz: slower by {middle:.2} % (quartiles {low:.2}, {high:.2})");
    println!("  {:.1} us of the target for each sample", middle * 1e4 / f64::from(rate_hz));
    let [low, middle, high] = quartiles(|pair| 100.0 * pair.sampler);
    println!("  sampler: {middle:.2} % of a CPU (quartiles {low:.2}, {high:.2})");
    let [_, samples, _] = quartiles(|pair| pair.samples);
    let [_, addresses, _] = quartiles(|pair| 100.0 * pair.addresses / pair.samples);
    let lost: u64 = pairs.iter().map(|pair| pair.lost).sum();
    println!("  {samples:.0} samples a second, {addresses:.1} % with an address, {lost} lost");
}

struct Bench {
    target: Child,
    counts: MappedArea,
    source: Box<dyn AccessSource>,
    window: Duration,
}

impl Bench {
    fn start(window: Duration) -> Result<Self> {
        let threads = thread::available_parallelism()?.get();
        let file = NamedTempFile::new()?;
        file.as_file().set_len(COUNTS_BYTES as u64)?;
        let counts = MappedArea::map(COUNTS_BYTES, AreaBacking::SharedFile(file.as_fd()))?;
        let target = Command::new(std::env::current_exe()?)
            .arg("walk")
            .arg(file.path())
            .stdin(Stdio::piped())
            .spawn()?;
        let source = Linux::open().open_access_source(AccessSourceKind::Registers)?;
        let bench = Self { target, counts, source, window };
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
        let mut pair = Pair { work: 0.0, sampler: 0.0, samples: 0.0, addresses: 0.0, lost: 0 };
        let (with, seconds) = self.window(|source| {
            let batch = source.take()?;
            pair.sampler += batch.cpu_ns as f64 / 1e9;
            pair.addresses += batch.samples.len() as f64;
            pair.samples += batch.samples.len() as f64 + batch.without_address as f64;
            pair.lost += batch.lost;
            Ok(())
        })?;
        pair.work = with / without;
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
            total += text.split(' ').next().unwrap_or_default().parse::<f64>()?;
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

/// Reads memory at random on each CPU, and counts in a file, until standard input ends.
fn walk(path: &str) -> Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let counts = MappedArea::map(COUNTS_BYTES, AreaBacking::SharedFile(file.as_fd()))?;
    let threads = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        for count in &counts.words()[..threads] {
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
