//! What a hint fault of the kernel's NUMA balancing costs that moves nothing, and a page that the
//! kernel marks for one.

use std::fs;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nodeward_linux::own_process::MappedArea;
use nodeward_runner::vmstat;

use crate::numbers::median;

const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
/// The kernel marks pages of a program that has run for some seconds, then again and again.
const TOUCHES_FOR: Duration = Duration::from_secs(30);
/// Times that all pages are marked.
const SCANS: u64 = 3;
/// A touch that takes so many times as long as the median one may have met a fault.
const LONG: f64 = 3.0;

/// What the kernel's balancing costs a program, in nanoseconds.
pub struct HintCosts {
    /// A hint fault.
    pub fault_ns: f64,
    /// A page that is marked.
    pub scan_page_ns: f64,
}

impl HintCosts {
    /// Touches pages of this area, which must be on the node of the caller, again and again while
    /// the kernel marks them, in a pause between two touches. The longest touches waited for that,
    /// the next ones met a fault: as many as the kernel has counted.
    pub fn measure(area: &MappedArea) -> Result<Self> {
        let before = fs::read_to_string(BALANCING).context("no NUMA balancing in this kernel")?;
        // Of a process of one thread the kernel marks no pages that are on its node.
        let (end, other) = mpsc::channel::<()>();
        let other = thread::spawn(move || other.recv());
        let pages = (area.bytes() / rustix::param::page_size()) as u64;
        let measured = long_touches(area, SCANS * pages);
        fs::write(BALANCING, before)?;
        drop(end);
        ensure!(other.join().is_ok(), "a thread panicked");
        let (mut long_ns, counts) = measured?;
        let scans = usize::try_from(counts.marked / pages)?;
        long_ns.sort_by(|a, b| b.total_cmp(a));
        long_ns.truncate(scans + usize::try_from(counts.faults)?);
        ensure!(scans > 0 && long_ns.len() > scans, "the kernel did not mark all pages");
        let (scans_ns, faults_ns) = long_ns.split_at(scans);
        let scan_page_ns = median(scans_ns) / pages as f64;
        Ok(Self { fault_ns: median(faults_ns), scan_page_ns })
    }
}

/// Returns the times of all long touches, in nanoseconds, and what the kernel counted until there
/// were enough faults.
fn long_touches(area: &MappedArea, enough: u64) -> Result<(Vec<f64>, HintCounts)> {
    let usual_ns = median(&touch_all(area));
    let before = HintCounts::read()?;
    fs::write(BALANCING, "1")?;
    let (mut long_ns, mut counts, began) = (Vec::new(), HintCounts::default(), Instant::now());
    while began.elapsed() < TOUCHES_FOR && counts.faults < enough {
        long_ns.extend(touch_all(area).into_iter().filter(|&ns| ns > usual_ns * LONG));
        counts = HintCounts::read()?.since(before);
    }
    Ok((long_ns, counts))
}

/// Counts of the kernel's balancing.
#[derive(Clone, Copy, Debug, Default)]
struct HintCounts {
    marked: u64,
    faults: u64,
}

impl HintCounts {
    fn read() -> Result<Self> {
        let counts = fs::read_to_string("/proc/vmstat")?;
        let count = |name: &str| {
            let count = vmstat::counter(&counts, name);
            count.with_context(|| format!("this kernel does not count {name}"))
        };
        Ok(Self { marked: count("numa_pte_updates")?, faults: count("numa_hint_faults")? })
    }

    fn since(self, before: Self) -> Self {
        Self { marked: self.marked - before.marked, faults: self.faults - before.faults }
    }
}

/// Touches each page. Returns how long each touch took, in nanoseconds.
fn touch_all(area: &MappedArea) -> Vec<f64> {
    let words_each = rustix::param::page_size() / size_of::<u64>();
    let touch = |word: &AtomicU64| {
        let began = Instant::now();
        word.store(1, Relaxed);
        began.elapsed().as_nanos() as f64
    };
    area.words().iter().step_by(words_each).map(touch).collect()
}
