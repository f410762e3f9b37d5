//! `nodeward move` against `migratepages`.

use std::time::Duration;

use anyhow::Result;
use nodeward_model::units::show_bytes;
use serde_json::{Value, json};

use crate::args::Speed;
use crate::commands::{Mover, Way};
use crate::numbers::{all_short, median, ms, rate, ratios, short};
use crate::target::Target;

/// Measures both in alternation on one process, each in both directions and each first as often as
/// second.
pub fn measure(options: &Speed) -> Result<Value> {
    let started = match options.pid {
        Some(_) => None,
        None => Some(Target::start(&options.memory, None)?),
    };
    let pid = started.as_ref().map(Target::pid).or(options.pid).unwrap_or_default();
    let ours = Mover::Nodeward(options.options.clone());
    warm_up(&ours, pid)?;
    let mut took = Took::default();
    for pair in 0..options.pairs {
        took.pair(pair, &ours, pid)?;
    }
    if let Some(target) = started {
        target.stop()?;
    }
    Ok(record(options, &ours, &took))
}

/// Durations of the commands, pair by pair.
#[derive(Default)]
struct Took {
    theirs: Vec<Duration>,
    ours: Vec<Duration>,
}

impl Took {
    fn pair(&mut self, number: u32, ours: &Mover, pid: u32) -> Result<()> {
        let theirs = &Mover::Migratepages;
        let (theirs, ours) = if number.is_multiple_of(2) {
            (theirs.run(pid, Way::There)?, ours.run(pid, Way::Back)?)
        } else {
            let ours = ours.run(pid, Way::There)?;
            (theirs.run(pid, Way::Back)?, ours)
        };
        eprintln!("  pair {}: migratepages {theirs:.2?}, nodeward {ours:.2?}", number + 1);
        self.theirs.push(theirs);
        self.ours.push(ours);
        Ok(())
    }
}

/// Moves there and back once, unmeasured: a guest's memory is allocated by its host at the first
/// touch.
fn warm_up(mover: &Mover, pid: u32) -> Result<()> {
    mover.run(pid, Way::There)?;
    mover.run(pid, Way::Back).map(drop)
}

fn record(options: &Speed, ours: &Mover, took: &Took) -> Value {
    let ratios = ratios(&took.theirs, &took.ours);
    let measured = short(median(&ratios));
    let (theirs_ms, ours_ms) = (ms(&took.theirs), ms(&took.ours));
    let size = options.memory.size;
    let (theirs_rate, ours_rate) = (rate(size, &theirs_ms), rate(size, &ours_ms));
    eprintln!(
        "  {}: {}/s; migratepages: {}/s; {measured:.2} times as fast (median)",
        ours.name(),
        show_bytes(ours_rate),
        show_bytes(theirs_rate)
    );
    json!({
        "measured": measured,
        "command": ours.name(),
        "kind": options.memory.kind,
        "size_bytes": size,
        "migratepages_bytes_per_s": theirs_rate,
        "nodeward_bytes_per_s": ours_rate,
        "ratios": all_short(&ratios),
        "migratepages_ms": all_short(&theirs_ms),
        "nodeward_ms": all_short(&ours_ms),
    })
}
