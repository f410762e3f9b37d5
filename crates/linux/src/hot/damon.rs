//! Which parts of a process's memory are accessed, by DAMON, the kernel's monitor of accesses.
//!
//! DAMON cuts the address space into at most 1000 regions, looks every 5 ms at one page of each,
//! and splits and joins them so that each holds memory of one kind; every 100 ms it has a count for
//! each. What it sees: reads and writes of everything that is mapped. What it does not see: how
//! often a page is accessed within 5 ms, and which pages of a region were. A region is a guess that
//! gets better with time, so counts of several looks are added up.
//!
//! What it costs: a kernel thread, from some per cent of one CPU for a small process to a third for
//! a large one (in the emulated lab); the process itself is not held up.
//!
//! It is set up through files of sysfs
//! (`Documentation/admin-guide/mm/damon/usage.rst` of the kernel), as one kernel thread with one
//! scheme that does nothing but list regions (Linux 6.2). There is one such set-up for the whole
//! machine. Whoever uses it is left alone, and so are the kernel's own users of DAMON, which the
//! kernel lets run only alone. A set-up that is switched off counts as left behind and is replaced.

mod files;
mod looks;
mod setup;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use nodeward_machine::{Error, Process, Result};
use nodeward_model::Range;

use super::{Obstacle, RegionAccess, still_there, wait};
use files::{Files, Sysfs, number};
use looks::{Looks, Region};
use setup::{SCHEME, STATE, Setup};

/// What the caller wants, for errors.
const WHAT: &str = "watching with DAMON";
/// Looks taken at most: they bound the memory that the sum takes, to some 10 MB.
const LOOKS_MAX: u32 = 100;
/// DAMON begins with ten regions and splits them every 100 ms. Nothing is read in this time, or in
/// the first quarter of a shorter watch.
const WARM_UP_MAX: Duration = Duration::from_secs(1);

/// Whether a process could be watched now. Changes nothing. `root` holds `sys` and `proc`.
///
/// That the kernel can watch single processes, and can list what it saw, is known only once
/// [`watch`] has set DAMON up.
///
/// # Errors
/// `Unsupported` if the kernel has no DAMON with files in sysfs, or somebody uses it; `Denied`.
pub fn probe(root: &Path) -> Result<()> {
    examine(root).map_err(|obstacle| obstacle.error(WHAT))
}

/// As [`probe`], with the reason in parts.
pub(crate) fn examine(root: &Path) -> std::result::Result<(), Obstacle> {
    reserve(root).map(drop)
}

/// The files of DAMON, which no other nodeward uses while the second value lives: the kernel ends
/// that with the process, however it ends.
fn reserve(root: &Path) -> std::result::Result<(Sysfs, File), Obstacle> {
    let sysfs = Sysfs::below(root);
    let lock = sysfs.lock(root)?;
    setup::refuse_if_in_use(&sysfs)?;
    setup::refuse_beside_modules(root)?;
    Ok((sysfs, lock))
}

/// Where a process accesses memory, in ascending order. Two samples count alike, whichever looks
/// they come from. Takes as long as told, or until told to stop (what was seen until then is
/// returned), and up to 0.2 s more. Nothing is left set up afterwards; if this process is killed,
/// the next call clears up.
///
/// # Errors
/// `Gone` if the process ends, otherwise as [`probe`].
pub fn watch(
    root: &Path,
    process: &dyn Process,
    duration_ns: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<RegionAccess>> {
    let (sysfs, _lock) = reserve(root).map_err(|obstacle| obstacle.error(WHAT))?;
    watch_with(&sysfs, process, Duration::from_nanos(duration_ns), stop)
}

/// As [`watch`], once the files are ours.
fn watch_with(
    files: &dyn Files,
    process: &dyn Process,
    duration: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<RegionAccess>> {
    let setup = Setup::start(files, process.pid())
        // A pid that is gone by now cannot be watched, however the kernel says so.
        .map_err(|error| still_there(process).err().unwrap_or(error))?;
    // The kernel looked the pid up meanwhile.
    still_there(process)?;
    let seen = look_on(files, process, duration, stop)?;
    setup.end()?;
    Ok(seen)
}

fn look_on(
    files: &dyn Files,
    process: &dyn Process,
    duration: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<RegionAccess>> {
    let intervals = Intervals::read(files)?;
    let rest = intervals.aggregation.max(duration / LOOKS_MAX);
    let (start, mut looks) = (Instant::now(), Looks::default());
    let mut next = start + WARM_UP_MAX.min(duration / 4);
    while !wait(next, process, stop)? {
        let regions = look(files).map_err(|error| still_there(process).err().unwrap_or(error))?;
        still_there(process)?;
        looks.add(&regions, intervals.samples);
        next = Instant::now() + rest;
        if next > start + duration {
            break;
        }
    }
    Ok(looks.sum())
}

/// How often DAMON looks.
struct Intervals {
    /// How long it counts.
    aggregation: Duration,
    /// How often it looks in that time.
    samples: u64,
}

impl Intervals {
    fn read(files: &dyn Files) -> Result<Self> {
        let value = |name: &str| {
            number(files, &format!("{}/monitoring_attrs/intervals/{name}", setup::CONTEXT))
        };
        let (sample_us, aggregation_us) = (value("sample_us")?, value("aggr_us")?);
        let samples = aggregation_us / sample_us.max(1);
        Ok(Self { aggregation: Duration::from_micros(aggregation_us), samples })
    }
}

/// Has the kernel list the regions as they are at the end of an aggregation, and reads them.
fn look(files: &dyn Files) -> Result<Vec<Region>> {
    let asked = files.write(STATE, "update_schemes_tried_regions");
    if asked.is_err() && !setup::is_on(files, 0) {
        return Err(Error::Unsupported {
            what: WHAT,
            why: "somebody else switched it off meanwhile; find out who uses DAMON here".into(),
        });
    }
    asked.map_err(|source| files.refused(STATE, source))?;
    let folder = format!("{SCHEME}/tried_regions");
    let names = files.list(&folder).map_err(|source| files.unreadable(&folder, source))?;
    let regions = names.iter().filter(|name| name.parse::<u64>().is_ok());
    regions.map(|name| region(files, &format!("{folder}/{name}"))).collect()
}

fn region(files: &dyn Files, folder: &str) -> Result<Region> {
    let value = |name: &str| number(files, &format!("{folder}/{name}"));
    let range = Range::new(value("start")?, value("end")?);
    Ok(Region { range, accesses: value("nr_accesses")? })
}
