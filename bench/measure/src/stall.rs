//! Waits of a thread of the moved process for pages in flight, and the speed of the move.
//!
//! A thread of the process touches random pages. When a touch takes long, its counters tell whether
//! it met a page in flight, was preempted, or neither; only the first is a wait. A wait lasts from
//! the fault until the page is back; the time in the run queue after that is reported separately.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::args::StallOptions;
use crate::commands::{Direction, MoveCommand};
use crate::numbers::{all_rounded, median, ms, rate, ratios, rounded};
use crate::target::{LoadTarget, ProbeOptions};

/// Lets each command move a process of its own there and back, in alternation: so a command that
/// begins later does not meet a different machine.
pub fn measure(options: &StallOptions) -> Result<Value> {
    let plain = MoveCommand::Nodeward(options.options.clone());
    let budget = ["--stall".to_owned(), options.stall.clone()];
    let paced = MoveCommand::Nodeward([&options.options[..], &budget[..]].concat());
    let mut rows = [paced, plain, MoveCommand::Migratepages].map(CommandStalls::new);
    warm_up(options)?;
    for turn in 0..options.turns {
        let in_turn: Vec<usize> = if turn % 2 == 0 { vec![0, 1, 2] } else { vec![2, 1, 0] };
        in_turn.into_iter().try_for_each(|row| rows[row].turn(options))?;
    }
    record(options, &rows)
}

/// Touches memory on both nodes: a guest's memory is allocated by its host at the first touch.
fn warm_up(options: &StallOptions) -> Result<()> {
    let target = LoadTarget::start(&options.memory, None)?;
    let mover = MoveCommand::Nodeward(options.options.clone());
    mover.run(target.pid(), Direction::Forward)?;
    mover.run(target.pid(), Direction::Backward)?;
    target.stop().map(drop)
}

/// The measurements of one command.
struct CommandStalls {
    mover: MoveCommand,
    took: Vec<Duration>,
    waits: Vec<WaitTimes>,
}

/// The waits of the probing thread of one process.
struct WaitTimes {
    count: u64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    p99_with_queue_ms: f64,
}

impl CommandStalls {
    fn new(mover: MoveCommand) -> Self {
        Self { mover, took: Vec::new(), waits: Vec::new() }
    }

    fn turn(&mut self, options: &StallOptions) -> Result<()> {
        let probe = ProbeOptions { interval: &options.interval, burst: options.burst };
        let target = LoadTarget::start(&options.memory, Some(probe))?;
        for turn in 0..options.moves {
            self.took.push(self.mover.run(target.pid(), Direction::of_round(turn))?);
        }
        let waits = WaitTimes::read(&target.stop()?)?;
        eprintln!(
            "  {:<38} {:>5} waits: median {:.3} ms, 99 % within {:.3} ms, longest {:.3} ms",
            self.mover.name(),
            waits.count,
            waits.p50_ms,
            waits.p99_ms,
            waits.max_ms
        );
        self.waits.push(waits);
        Ok(())
    }

    /// Returns the 99th percentile of the process that waited most, in ms.
    fn worst_p99_ms(&self) -> f64 {
        self.waits.iter().map(|waits| waits.p99_ms).fold(0.0, f64::max)
    }

    fn record(&self, bytes: u64) -> Value {
        let waits = |waits: &WaitTimes| {
            json!({
                "waits": waits.count,
                "p50_ms": rounded(waits.p50_ms),
                "p99_ms": rounded(waits.p99_ms),
                "max_ms": rounded(waits.max_ms),
                "p99_with_queue_ms": rounded(waits.p99_with_queue_ms),
            })
        };
        let took_ms = ms(&self.took);
        json!({
            "command": self.mover.name(),
            "bytes_per_s": rate(bytes, &took_ms),
            "ms": all_rounded(&took_ms),
            "processes": self.waits.iter().map(waits).collect::<Vec<_>>(),
        })
    }
}

impl WaitTimes {
    fn read(done: &Value) -> Result<Self> {
        let number = |name: &str| {
            done.pointer(&format!("/probe/{name}"))
                .and_then(Value::as_u64)
                .with_context(|| format!("the load tells no {name}"))
        };
        let ms = |name: &str| number(name).map(|ns| ns as f64 / 1e6);
        Ok(Self {
            count: number("waits/count")?,
            p50_ms: ms("waits/p50_ns")?,
            p99_ms: ms("waits/p99_ns")?,
            max_ms: ms("waits/max_ns")?,
            p99_with_queue_ms: ms("waits_with_queue/p99_ns")?,
        })
    }
}

fn record(options: &StallOptions, rows: &[CommandStalls; 3]) -> Result<Value> {
    let [paced, _, theirs] = rows;
    let ratio = median(&ratios(&theirs.took, &paced.took));
    let bytes = options.memory.size;
    Ok(json!({
        "measured": rounded(paced.worst_p99_ms()),
        "unit": "ms",
        "times_as_fast_as_migratepages": rounded(ratio),
        "kind": options.memory.kind,
        "size_bytes": bytes,
        "commands": rows.iter().map(|row| row.record(bytes)).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the numbers come from the waits, not from another distribution of the probe.
    #[test]
    fn waits_are_read_from_the_load() {
        let times =
            |ns: u64| json!({"count": ns, "p50_ns": ns, "p99_ns": 2 * ns, "max_ns": 3 * ns});
        let waits = times(1_000_000);
        let done =
            json!({"probe": {"touches": times(1), "waits": waits, "waits_with_queue": times(9)}});
        let waits = WaitTimes::read(&done).unwrap();
        assert_eq!(waits.count, 1_000_000);
        assert_eq!((waits.p50_ms, waits.p99_ms, waits.max_ms), (1.0, 2.0, 3.0));
        assert!(WaitTimes::read(&json!({"probe": null})).is_err());
    }
}
