//! What a hint fault of the kernel's NUMA balancing costs that moves nothing.

use std::fs;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nodeward_linux::own_process::MappedArea;

use crate::numbers::median;

const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
/// The kernel marks pages of a program that has run for some seconds, then again and again.
const TOUCHES_FOR: Duration = Duration::from_secs(20);
/// Faults that are enough.
const FAULTS: u64 = 8192;
/// A touch that takes so many times as long as the median one may have met a fault.
const LONG: f64 = 3.0;

/// Returns the median time of a touch that meets a hint fault: pages of this area, which must be on
/// the node of the caller, are touched again and again while the kernel marks them. As many touches
/// count, the longest ones, as the kernel counted faults.
pub fn hint_fault_ns(area: &MappedArea) -> Result<f64> {
    let before = fs::read_to_string(BALANCING).context("no NUMA balancing in this kernel")?;
    // Of a process of one thread the kernel marks no pages that are on its node.
    let (end, other) = mpsc::channel::<()>();
    let other = thread::spawn(move || other.recv());
    let measured = long_touches(area);
    fs::write(BALANCING, before)?;
    drop(end);
    ensure!(other.join().is_ok(), "a thread panicked");
    let (mut long_ns, faults) = measured?;
    ensure!(faults > 0 && !long_ns.is_empty(), "the kernel marked no page");
    long_ns.sort_by(|a, b| b.total_cmp(a));
    long_ns.truncate(usize::try_from(faults)?);
    Ok(median(&long_ns))
}

/// Returns the times of all long touches, in nanoseconds, and the number of hint faults meanwhile.
fn long_touches(area: &MappedArea) -> Result<(Vec<f64>, u64)> {
    let usual_ns = median(&touch_all(area));
    let before = hint_faults()?;
    fs::write(BALANCING, "1")?;
    let (mut long_ns, mut faults, began) = (Vec::new(), 0, Instant::now());
    while began.elapsed() < TOUCHES_FOR && faults < FAULTS {
        long_ns.extend(touch_all(area).into_iter().filter(|&ns| ns > usual_ns * LONG));
        faults = hint_faults()? - before;
    }
    Ok((long_ns, faults))
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

fn hint_faults() -> Result<u64> {
    let vmstat = fs::read_to_string("/proc/vmstat")?;
    let line = vmstat.lines().find_map(|line| line.strip_prefix("numa_hint_faults "));
    Ok(line.context("this kernel counts no hint faults")?.parse()?)
}
