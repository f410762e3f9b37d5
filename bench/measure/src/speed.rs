//! `nodeward move` against `migratepages`.

use std::time::Duration;

use anyhow::Result;
use nodeward_model::units::format_bytes;
use serde_json::{Value, json};

use crate::args::SpeedOptions;
use crate::commands::{Direction, MoveCommand};
use crate::numbers::{all_rounded, median, ms, rate, ratios, rounded};
use crate::target::LoadTarget;

/// Measures both in alternation on one process, each in both directions and each first as often as
/// second.
pub fn measure(options: &SpeedOptions) -> Result<Value> {
    let started = match options.pid {
        Some(_) => None,
        None => Some(LoadTarget::start(&options.memory, None)?),
    };
    let pid = started.as_ref().map(LoadTarget::pid).or(options.pid).unwrap_or_default();
    let ours = MoveCommand::Nodeward(options.options.clone());
    warm_up(&ours, pid)?;
    let mut took = PairTimes::default();
    for pair in 0..options.pairs {
        took.measure_pair(pair, &ours, pid)?;
    }
    if let Some(target) = started {
        target.stop()?;
    }
    Ok(record(options, &ours, &took))
}

/// Durations of the commands, pair by pair.
#[derive(Default)]
struct PairTimes {
    theirs: Vec<Duration>,
    ours: Vec<Duration>,
}

impl PairTimes {
    fn measure_pair(&mut self, number: u32, ours: &MoveCommand, pid: u32) -> Result<()> {
        let theirs = &MoveCommand::Migratepages;
        let (theirs, ours) = if number.is_multiple_of(2) {
            (theirs.run(pid, Direction::Forward)?, ours.run(pid, Direction::Backward)?)
        } else {
            let ours = ours.run(pid, Direction::Forward)?;
            (theirs.run(pid, Direction::Backward)?, ours)
        };
        eprintln!("  pair {}: migratepages {theirs:.2?}, nodeward {ours:.2?}", number + 1);
        self.theirs.push(theirs);
        self.ours.push(ours);
        Ok(())
    }
}

/// Moves there and back once, unmeasured: a guest's memory is allocated by its host at the first
/// touch.
fn warm_up(mover: &MoveCommand, pid: u32) -> Result<()> {
    mover.run(pid, Direction::Forward)?;
    mover.run(pid, Direction::Backward).map(drop)
}

fn record(options: &SpeedOptions, ours: &MoveCommand, took: &PairTimes) -> Value {
    let ratios = ratios(&took.theirs, &took.ours);
    let measured = rounded(median(&ratios));
    let (theirs_ms, ours_ms) = (ms(&took.theirs), ms(&took.ours));
    let size = options.memory.size;
    let (theirs_rate, ours_rate) = (rate(size, &theirs_ms), rate(size, &ours_ms));
    eprintln!(
        "  {}: {}/s; migratepages: {}/s; {measured:.2} times as fast (median)",
        ours.name(),
        format_bytes(ours_rate),
        format_bytes(theirs_rate)
    );
    json!({
        "measured": measured,
        "command": ours.name(),
        "kind": options.memory.kind,
        "size_bytes": size,
        "migratepages_bytes_per_s": theirs_rate,
        "nodeward_bytes_per_s": ours_rate,
        "ratios": all_rounded(&ratios),
        "migratepages_ms": all_rounded(&theirs_ms),
        "nodeward_ms": all_rounded(&ours_ms),
    })
}
