//! How the time of a command follows the shape of a process: beside one of another shape.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::args::{GrowthOptions, GrowthVerb, MemoryOptions};
use crate::commands::{Direction, MoveCommand, timed};
use crate::numbers::{all_rounded, median, ms, ratios, rounded};
use crate::target::LoadTarget;

/// Runs the command on both processes in alternation, each first as often as second, and compares
/// the times of neighbours.
pub fn measure(options: &GrowthOptions) -> Result<Value> {
    let other = MemoryOptions {
        size: options.against_size.unwrap_or(options.memory.size),
        over: options.against_over,
        mappings: 1,
        ..options.memory.clone()
    };
    let targets = [&options.memory, &other].map(|memory| LoadTarget::start(memory, None));
    let [shaped, other] = targets;
    let (shaped, other) = (shaped?, other?);
    let mut took = [Vec::new(), Vec::new()];
    // A first pair of moves there and back is not counted: memory is allocated at the first touch.
    for pair in 0..options.pairs + 2 {
        let mut both = [(0, &shaped), (1, &other)];
        if pair.is_multiple_of(2) {
            both.reverse();
        }
        for (which, target) in both {
            let time = run(options, target.pid(), Direction::of_round(pair))?;
            took[which].extend((pair >= 2).then_some(time));
        }
    }
    shaped.stop()?;
    other.stop()?;
    Ok(record(options, &took))
}

fn run(options: &GrowthOptions, pid: u32, way: Direction) -> Result<Duration> {
    match options.verb {
        GrowthVerb::Move => MoveCommand::Nodeward(options.options.clone()).run(pid, way),
        GrowthVerb::Show => {
            let pid = pid.to_string();
            timed(Command::new("nodeward").args(["show", "--json", &pid]).args(&options.options))
        }
    }
}

fn record(options: &GrowthOptions, [shaped, other]: &[Vec<Duration>; 2]) -> Value {
    let ratios = ratios(shaped, other);
    let measured = rounded(median(&ratios));
    let (shaped_ms, other_ms) = (ms(shaped), ms(other));
    eprintln!(
        "  {:.0} ms, and {:.0} ms of the other process; {measured:.2} times as long (median)",
        median(&shaped_ms),
        median(&other_ms)
    );
    json!({
        "measured": measured,
        "verb": options.verb,
        "ratios": all_rounded(&ratios),
        "ms": all_rounded(&shaped_ms),
        "other_ms": all_rounded(&other_ms),
    })
}
