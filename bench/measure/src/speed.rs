//! `nodeward move` against `migratepages`.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::args::Speed;
use crate::commands::{Mover, Way};
use crate::numbers::{all_short, median, ms, rate, ratios, short};
use crate::target::Target;

/// Both take turns on one process, each in both directions and each first as often as second.
pub fn measure(options: &Speed) -> Result<Value> {
    let target = Target::start(&options.memory, None)?;
    let ours = Mover::Nodeward(options.options.clone());
    warm_up(&ours, target.pid())?;
    let (mut theirs_took, mut ours_took) = (Vec::new(), Vec::new());
    for pair in 0..options.pairs {
        let (first, second) = (Way::There, Way::Back);
        let theirs_first = pair.is_multiple_of(2);
        let (a, b) = match theirs_first {
            true => both(&Mover::Migratepages, &ours, target.pid(), [first, second])?,
            false => both(&ours, &Mover::Migratepages, target.pid(), [first, second])?,
        };
        let (theirs, ours) = if theirs_first { (a, b) } else { (b, a) };
        eprintln!("pair {}: migratepages {theirs:.2?}, nodeward {ours:.2?}", pair + 1);
        theirs_took.push(theirs);
        ours_took.push(ours);
    }
    target.stop()?;
    Ok(record(options, &ours, &theirs_took, &ours_took))
}

/// There and back once, unmeasured: a guest's memory is given to it by its host at the first touch.
fn warm_up(mover: &Mover, pid: u32) -> Result<()> {
    mover.run(pid, Way::There)?;
    mover.run(pid, Way::Back).map(drop)
}

fn both(first: &Mover, second: &Mover, pid: u32, ways: [Way; 2]) -> Result<(Duration, Duration)> {
    Ok((first.run(pid, ways[0])?, second.run(pid, ways[1])?))
}

fn record(
    options: &Speed,
    ours: &Mover,
    theirs_took: &[Duration],
    ours_took: &[Duration],
) -> Value {
    let ratios = ratios(theirs_took, ours_took);
    let (theirs_ms, ours_ms) = (ms(theirs_took), ms(ours_took));
    json!({
        "measured": short(median(&ratios)),
        "command": ours.name(),
        "kind": options.memory.kind,
        "size_bytes": options.memory.size,
        "migratepages_bytes_per_s": rate(options.memory.size, &theirs_ms),
        "nodeward_bytes_per_s": rate(options.memory.size, &ours_ms),
        "ratios": all_short(&ratios),
        "migratepages_ms": all_short(&theirs_ms),
        "nodeward_ms": all_short(&ours_ms),
    })
}
