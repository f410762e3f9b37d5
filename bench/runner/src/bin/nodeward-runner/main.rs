//! `nodeward-runner SPEC`: runs tasks under a balancer, samples the kernel's counters meanwhile,
//! and reports each event as a line of JSON. For guests of the lab: it changes settings of the
//! whole machine.

#![forbid(unsafe_code)]

mod overhead_meter;
mod running_balancer;
mod task_set;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use nodeward_runner::{CounterSample, RunEnd, RunEvent, RunSpec};

use overhead_meter::OverheadMeter;
use running_balancer::RunningBalancer;
use task_set::{TaskEvent, TaskSet};

/// The time between the last access of the tasks' setup and the first one of their work, in which a
/// program that counts accesses from outside can sample.
const QUIET_TIME: Duration = Duration::from_millis(400);
/// Time for which tasks stay confined to their first node, so that all threads begin there.
const CONFINED_TIME: Duration = Duration::from_millis(200);

/// Runs tasks under a balancer. Exit codes: 0 all tasks ended, 1 something failed, 2 wrong usage.
#[derive(Debug, Parser)]
#[command(name = "nodeward-runner", version)]
struct Args {
    /// The run, as JSON
    #[arg(value_parser = parse_run_spec)]
    run_spec: RunSpec,
}

fn parse_run_spec(text: &str) -> Result<RunSpec, String> {
    serde_json::from_str(text).map_err(|why| why.to_string())
}

fn main() -> ExitCode {
    match run(&Args::parse().run_spec) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nodeward-runner: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(spec: &RunSpec) -> Result<()> {
    running_balancer::disable_numa_balancing()?;
    let mut task_set = TaskSet::start(spec)?;
    task_set.await_ready()?;
    running_balancer::prepare(&spec.balancer)?;
    thread::sleep(QUIET_TIME);
    let mut meter = OverheadMeter::start(&spec.balancer.process_name, task_set.pids());
    let mut balancing = RunningBalancer::start(&spec.balancer, &task_set.pids())?;
    thread::sleep(Duration::from_millis(spec.balancer_lead_ms));
    meter.reset_times();
    let start = Instant::now();
    task_set.begin()?;
    tell(&RunEvent::Begin)?;
    if !spec.balancer.is_manual {
        thread::sleep(CONFINED_TIME);
        task_set.lift_confinement()?;
    }
    let tasks_ms = monitor(spec, &mut task_set, &meter, &mut balancing, start)?;
    let look = sample_counters(&meter, &task_set, start);
    task_set.await_end()?;
    let (told, log) = balancing.stop()?;
    let (mismatches, migrated) = (task_set.mismatches, meter.read().migrated);
    tell(&RunEvent::End(RunEnd { look, tasks_ms, mismatches, migrated, told, log }))
}

/// Waits until all tasks have done their work, and samples the counters meanwhile. Returns the
/// duration of each task.
fn monitor(
    spec: &RunSpec,
    task_set: &mut TaskSet,
    meter: &OverheadMeter,
    balancing: &mut RunningBalancer,
    start: Instant,
) -> Result<Vec<u64>> {
    let mut ends: Vec<Option<u64>> = vec![None; spec.tasks.len()];
    let mut next_look = Duration::ZERO;
    while ends.contains(&None) {
        match task_set.next_event(next_look.saturating_sub(start.elapsed())) {
            Ok((task, TaskEvent::Done)) => {
                if ends.iter().all(Option::is_none) {
                    tell(&RunEvent::FirstEnd)?;
                }
                ends[task] = Some(ms(start));
            }
            Ok((task, TaskEvent::Ended)) if ends[task].is_none() => bail!("task {task} gave up"),
            Ok((task, TaskEvent::Failed(why))) => bail!("task {task}: {why}"),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => {
                balancing.check()?;
                tell(&RunEvent::Look(sample_counters(meter, task_set, start)))?;
                next_look = start.elapsed() + Duration::from_millis(spec.sample_interval_ms);
            }
            Err(RecvTimeoutError::Disconnected) => bail!("tasks ended without a word"),
        }
    }
    Ok(ends.into_iter().flatten().collect())
}

fn sample_counters(meter: &OverheadMeter, task_set: &TaskSet, start: Instant) -> CounterSample {
    CounterSample { at_ms: ms(start), passes: task_set.passes, overhead: meter.read() }
}

fn ms(start: Instant) -> u64 {
    start.elapsed().as_millis() as u64
}

fn tell(line: &RunEvent) -> Result<()> {
    let text = serde_json::to_string(line)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("nobody listens")
}
