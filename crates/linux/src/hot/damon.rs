//! Finds the accessed parts of a process's memory with DAMON, the kernel's monitor of accesses.
//!
//! DAMON divides the address space into at most 1000 regions. Every 5 ms it checks one page of
//! each, and it splits and joins regions so that the pages of each are accessed alike. Every 100 ms
//! it has a count for each region. It sees reads and writes of all mapped memory. It does not see
//! how often a page is accessed within 5 ms, nor which pages of a region are. A region is an
//! estimate that improves with time, so this module adds up several snapshots.
//!
//! Cost: a kernel thread, which uses some per cent of one CPU for a small process and up to a third
//! for a large one (in the emulated lab). The process itself is not blocked.
//!
//! It is configured through files of sysfs (`Documentation/admin-guide/mm/damon/usage.rst` of the
//! kernel), as one kernel thread with one scheme that only lists regions (Linux 6.2). The machine
//! has a single such configuration. If another program uses it, or one of the kernel's own users of
//! DAMON runs (the kernel does not let them share), this module leaves it alone. A configuration
//! that is switched off counts as left behind and is replaced.

mod accumulated;
mod files;
mod names;
mod setup;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use nodeward_machine::{Error, Process, Result};
use nodeward_model::Range;

use super::{RegionAccess, Unavailability, check_running, wait};
use accumulated::{AccumulatedRegions, DamonRegion};
use files::{DamonFiles, DamonSysfs, number};
use names::{ACTION, CONTEXT, SCHEME, STATE};
use setup::DamonSetup;

/// Limit on the snapshots. It bounds the memory of the sum to some 10 MB.
const SNAPSHOTS_MAX: u32 = 100;
/// DAMON begins with ten regions and splits them every 100 ms. Nothing is read during this time, or
/// during the first quarter of a shorter watch.
const WARM_UP_MAX: Duration = Duration::from_secs(1);

/// Checks whether a process could be watched now. Changes nothing. `root` holds `sys` and `proc`.
///
/// Whether the kernel can watch single processes and can list its regions is known only after
/// [`watch`] has configured DAMON.
///
/// # Errors
/// `Unsupported` if the kernel has no DAMON with files in sysfs, or another program uses it;
/// `Denied`.
pub fn probe(root: &Path) -> Result<()> {
    check(root).map_err(|obstacle| obstacle.error(ACTION))
}

/// Checks as [`probe`] does, and returns the reason in parts.
pub(crate) fn check(root: &Path) -> std::result::Result<(), Unavailability> {
    acquire(root).map(drop)
}

/// Reserves DAMON's files: no other nodeward uses them while the returned file is open. The kernel
/// ends the reservation with the process, however it ends.
fn acquire(root: &Path) -> std::result::Result<(DamonSysfs, File), Unavailability> {
    let sysfs = DamonSysfs::below(root);
    let lock = sysfs.lock(root)?;
    setup::check_unused(&sysfs)?;
    setup::check_kernel_modules(root)?;
    Ok((sysfs, lock))
}

/// Returns where a process accesses memory, in ascending order. Samples of all snapshots weigh the
/// same. Takes the given time, or ends when told to stop (and returns what it has), plus up to 0.2
/// s. Afterwards nothing is left configured; if this process is killed, the next call cleans up.
///
/// # Errors
/// `Gone` if the process exits, otherwise those of [`probe`].
pub fn watch(
    root: &Path,
    process: &dyn Process,
    duration_ns: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<RegionAccess>> {
    let (sysfs, _lock) = acquire(root).map_err(|obstacle| obstacle.error(ACTION))?;
    watch_with(&sysfs, process, Duration::from_nanos(duration_ns), stop)
}

/// Watches as [`watch`] does, after the files were reserved.
fn watch_with(
    files: &dyn DamonFiles,
    process: &dyn Process,
    duration: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<RegionAccess>> {
    let setup = DamonSetup::start(files, process.pid())
        // A pid that is gone by now cannot be watched; the kernel's error may be another one.
        .map_err(|error| check_running(process).err().unwrap_or(error))?;
    // The kernel looked up the pid in the meantime.
    check_running(process)?;
    let seen = collect(files, process, duration, stop)?;
    setup.end()?;
    Ok(seen)
}

fn collect(
    files: &dyn DamonFiles,
    process: &dyn Process,
    duration: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<RegionAccess>> {
    let intervals = Intervals::read(files)?;
    let rest = intervals.aggregation.max(duration / SNAPSHOTS_MAX);
    let (start, mut looks) = (Instant::now(), AccumulatedRegions::default());
    let mut next = start + WARM_UP_MAX.min(duration / 4);
    while !wait(next, process, stop)? {
        let regions =
            read_regions(files).map_err(|error| check_running(process).err().unwrap_or(error))?;
        check_running(process)?;
        looks.add(&regions, intervals.samples);
        next = Instant::now() + rest;
        if next > start + duration {
            break;
        }
    }
    Ok(looks.regions())
}

/// The intervals of DAMON.
struct Intervals {
    /// The interval of a count.
    aggregation: Duration,
    /// The samples in that interval.
    samples: u64,
}

impl Intervals {
    fn read(files: &dyn DamonFiles) -> Result<Self> {
        let value =
            |name: &str| number(files, &format!("{CONTEXT}/monitoring_attrs/intervals/{name}"));
        let (sample_us, aggregation_us) = (value("sample_us")?, value("aggr_us")?);
        let samples = aggregation_us / sample_us.max(1);
        Ok(Self { aggregation: Duration::from_micros(aggregation_us), samples })
    }
}

/// Asks the kernel to list the regions at the end of an aggregation interval, and reads them.
fn read_regions(files: &dyn DamonFiles) -> Result<Vec<DamonRegion>> {
    let asked = files.write(STATE, "update_schemes_tried_regions");
    if asked.is_err() && !setup::is_on(files, 0) {
        return Err(Error::Unsupported {
            action: ACTION,
            reason: "somebody else switched it off meanwhile; find out who uses DAMON here".into(),
        });
    }
    asked.map_err(|source| files.write_error(STATE, source))?;
    let folder = format!("{SCHEME}/tried_regions");
    let names = files.list(&folder).map_err(|source| files.read_error(&folder, source))?;
    let regions = names.iter().filter(|name| name.parse::<u64>().is_ok());
    regions.map(|name| read_region(files, &format!("{folder}/{name}"))).collect()
}

fn read_region(files: &dyn DamonFiles, folder: &str) -> Result<DamonRegion> {
    let value = |name: &str| number(files, &format!("{folder}/{name}"));
    let range = Range::new(value("start")?, value("end")?);
    Ok(DamonRegion { range, accesses: value("nr_accesses")? })
}
