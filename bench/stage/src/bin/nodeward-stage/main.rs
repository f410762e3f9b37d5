//! `nodeward-stage PLAY`: runs tasks under a balancer, samples the kernel's counters meanwhile, and
//! reports each event as a line of JSON. For guests of the lab: it changes settings of the whole
//! machine.

#![forbid(unsafe_code)]

mod balancing;
mod cast;
mod gauge;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use nodeward_stage::{Curtain, Line, Look, Play};

use balancing::Balancing;
use cast::{Cast, Word};
use gauge::Gauge;

/// The time between the last access of the tasks' setup and the first one of their work, in which a
/// program that counts accesses from outside can sample.
const QUIET: Duration = Duration::from_millis(400);
/// Time for which tasks stay confined to their first node, so that all threads begin there.
const SETTLE: Duration = Duration::from_millis(200);

/// Runs tasks under a balancer. Exit codes: 0 all tasks ended, 1 something failed, 2 wrong usage.
#[derive(Debug, Parser)]
#[command(name = "nodeward-stage", version)]
struct Args {
    /// What to run, as JSON
    #[arg(value_parser = play)]
    play: Play,
}

fn play(text: &str) -> Result<Play, String> {
    serde_json::from_str(text).map_err(|why| why.to_string())
}

fn main() -> ExitCode {
    match perform(&Args::parse().play) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nodeward-stage: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(play: &Play) -> Result<()> {
    balancing::switch_kernels_off()?;
    let mut cast = Cast::start(play)?;
    cast.await_ready()?;
    balancing::prepare(&play.balancer)?;
    thread::sleep(QUIET);
    let mut gauge = Gauge::zero(&play.balancer.process, cast.pids());
    let mut balancing = Balancing::start(&play.balancer, &cast.pids())?;
    thread::sleep(Duration::from_millis(play.lead_ms));
    gauge.begin();
    let start = Instant::now();
    cast.begin()?;
    tell(&Line::Begin)?;
    if !play.balancer.by_hand {
        thread::sleep(SETTLE);
        cast.set_free()?;
    }
    let tasks_ms = attend(play, &mut cast, &gauge, &mut balancing, start)?;
    let look = look(&gauge, &cast, start);
    cast.await_end()?;
    let (told, log) = balancing.stop()?;
    let (mismatches, migrated) = (cast.mismatches, gauge.read().migrated);
    tell(&Line::End(Curtain { look, tasks_ms, mismatches, migrated, told, log }))
}

/// Waits until all tasks have done their work, and samples the counters meanwhile. Returns the
/// duration of each task.
fn attend(
    play: &Play,
    cast: &mut Cast,
    gauge: &Gauge,
    balancing: &mut Balancing,
    start: Instant,
) -> Result<Vec<u64>> {
    let mut ends: Vec<Option<u64>> = vec![None; play.tasks.len()];
    let mut next_look = Duration::ZERO;
    while ends.contains(&None) {
        match cast.hear(next_look.saturating_sub(start.elapsed())) {
            Ok((task, Word::Done)) => {
                if ends.iter().all(Option::is_none) {
                    tell(&Line::FirstEnd)?;
                }
                ends[task] = Some(ms(start));
            }
            Ok((task, Word::Ended)) if ends[task].is_none() => bail!("task {task} gave up"),
            Ok((task, Word::Failed(why))) => bail!("task {task}: {why}"),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => {
                balancing.check()?;
                tell(&Line::Look(look(gauge, cast, start)))?;
                next_look = start.elapsed() + Duration::from_millis(play.look_ms);
            }
            Err(RecvTimeoutError::Disconnected) => bail!("tasks ended without a word"),
        }
    }
    Ok(ends.into_iter().flatten().collect())
}

fn look(gauge: &Gauge, cast: &Cast, start: Instant) -> Look {
    Look { at_ms: ms(start), passes: cast.passes, burden: gauge.read() }
}

fn ms(start: Instant) -> u64 {
    start.elapsed().as_millis() as u64
}

fn tell(line: &Line) -> Result<()> {
    let text = serde_json::to_string(line)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("nobody listens")
}
