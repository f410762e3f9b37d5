//! `nodeward bench pool`: the speed at which page pools allocate and free here, and the pages they
//! hold.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::units::format_bytes;
use nodeward_proof::{BenchProgress, PoolContender, PoolPlan, PoolReport, measure_pool};
use serde_json::Value;

use crate::args::BenchPoolArgs;
use crate::figures::PoolFigure;
use crate::message::exit::Exit;
use crate::output;
use crate::output::bench::pool as bench;
use crate::progress::{self, AllocationProgress};

/// Memory per thread: as much as page_fault1 of will-it-scale.
const SIZE: u64 = 128 << 20;
const SMOKE_SIZE: u64 = 8 << 20;
/// Duration of each measurement, and number of turns.
const TIME: Duration = Duration::from_millis(500);
const ROUNDS: u32 = 5;
const SMOKE_TIME: Duration = Duration::from_millis(2);
/// Period of pools that are observed over time.
const PERIOD: Duration = Duration::from_secs(1);
const SMOKE_PERIOD: Duration = Duration::from_millis(20);

/// A load consists of whole runs of any order.
const STEP: u64 = 2 << 20;

/// Measures, prints, and reports by the exit code whether zeroed memory was zero.
pub fn run(args: &BenchPoolArgs) -> Result<Exit> {
    let machine = Linux::open();
    let plan = plan(args, machine.usable_cpus()?.len())?;
    check_memory(&machine, &plan)?;
    match args.figure {
        Some(figure) => print_figure(args, figure, &plan),
        None => table(args, &plan),
    }
}

/// Measures the table, and returns the document that `--json` prints.
pub fn document(args: &BenchPoolArgs) -> Result<(Option<Value>, Exit)> {
    let machine = Linux::open();
    let plan = plan(args, machine.usable_cpus()?.len())?;
    check_memory(&machine, &plan)?;
    let (report, exit) = measured(args, &plan)?;
    Ok((Some(bench::json(&plan, &report)), exit))
}

fn table(args: &BenchPoolArgs, plan: &PoolPlan) -> Result<Exit> {
    let (report, exit) = measured(args, plan)?;
    if let Some(path) = &args.svg {
        output::write_result(path, &bench::svg(&report)?)?;
    }
    output::print(&match args.output.json {
        true => format!("{}\n", bench::json(plan, &report)),
        false => bench::text(plan, &report),
    })?;
    Ok(exit)
}

fn print_figure(args: &BenchPoolArgs, figure: PoolFigure, plan: &PoolPlan) -> Result<Exit> {
    let (report, exit) = measured(args, &figure.plan(plan))?;
    let Some(number) = figure.value(&report) else {
        let why = match report.not_built_in.first() {
            Some(missing) => format!("{missing} is not built in; build with the feature peers"),
            None => "this machine has one CPU".to_owned(),
        };
        say!("nodeward: {why}");
        return Ok(if exit == Exit::Done { Exit::NothingDone } else { exit });
    };
    output::print(&format!("{number}\n"))?;
    Ok(exit)
}

fn measured(args: &BenchPoolArgs, plan: &PoolPlan) -> Result<(PoolReport, Exit)> {
    let live = BenchProgress::default();
    let measure = || measure_pool(plan, &live);
    let report =
        progress::run_with_progress(&AllocationProgress(&live), args.progress.mode(), measure)??;
    let exit = match (report.dirty_bytes(), live.cancel().is_cancelled()) {
        (0, false) => Exit::Done,
        (0, true) => Exit::Interrupted,
        _ => Exit::DataLost,
    };
    Ok((report, exit))
}

fn plan(args: &BenchPoolArgs, cpus: usize) -> Result<PoolPlan> {
    let (size, time, rounds, period) = match args.smoke {
        true => (SMOKE_SIZE, SMOKE_TIME, 1, SMOKE_PERIOD),
        false => (SIZE, TIME, ROUNDS, PERIOD),
    };
    Ok(PoolPlan {
        bytes: load_bytes(args.bytes.unwrap_or(size))?,
        threads: threads(&args.threads, cpus),
        orders: args.orders.clone(),
        zeroed: vec![false, true],
        huge: args.huge,
        contenders: match args.only.as_slice() {
            [] => PoolContender::ALL.to_vec(),
            some => PoolContender::ALL.into_iter().filter(|one| some.contains(one)).collect(),
        },
        time: args.time.map_or(time, Duration::from_nanos),
        rounds,
        period,
        over_time: true,
        pure: true,
    })
}

/// Returns the requested numbers of threads, or one, two, and more than there are CPUs.
fn threads(given: &[u32], cpus: usize) -> Vec<u32> {
    let many = u32::try_from(2 * cpus).unwrap_or(u32::MAX);
    let mut threads = if given.is_empty() { vec![1, 2, many] } else { given.to_vec() };
    threads.dedup();
    threads
}

fn load_bytes(size: u64) -> Result<usize> {
    if size < STEP {
        bail!("--bytes must be at least {}", format_bytes(STEP));
    }
    let rounded = size.checked_next_multiple_of(STEP).and_then(|size| usize::try_from(size).ok());
    rounded
        .with_context(|| format!("--bytes {} is more than a process can have", format_bytes(size)))
}

/// Checks for room in advance, because a kernel that runs out of memory kills. Every contender
/// keeps the memory that its threads took.
fn check_memory(machine: &Linux, plan: &PoolPlan) -> Result<()> {
    let most = plan.threads.iter().copied().max().unwrap_or(1);
    let each = u64::from(most) * plan.contenders.len() as u64;
    let needed = each.saturating_mul(plan.bytes as u64);
    let pages = |room: &nodeward_model::NodeHeadroom| room.free_or_cold_pages();
    let free = machine.headroom()?.values().map(pages).sum::<u64>() * machine.page_bytes();
    if free < needed {
        bail!(
            "this takes {} of memory, where {} are free; give --bytes {} or less, or fewer threads",
            format_bytes(needed),
            format_bytes(free),
            format_bytes(free / each / STEP * STEP),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_one_two_and_too_many() {
        assert_eq!(threads(&[], 8), [1, 2, 16]);
        assert_eq!(threads(&[], 1), [1, 2]);
        assert_eq!(threads(&[3], 8), [3]);
    }

    #[test]
    fn loads_are_whole_runs() {
        assert_eq!(load_bytes((2 << 20) + 1).unwrap(), 4 << 20);
        assert!(load_bytes(u64::MAX).is_err());
        assert!(load_bytes(1 << 20).unwrap_err().to_string().contains("at least 2.00 MiB"));
    }
}
