//! `nodeward run` against `numactl`: what a program waits for before it starts.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::args::StartOptions;
use crate::commands::timed;
use crate::numbers::{all_rounded, median, ms, ratios, rounded};

/// Starts a program that does nothing by both, in alternation, each first as often as second.
/// numactl is told the node, nodeward chooses it.
pub fn measure(options: &StartOptions) -> Result<Value> {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for pair in 0..options.pairs {
        let mut numactl = command("numactl", &["--preferred=0", "--cpunodebind=0"]);
        let mut nodeward = command("nodeward", &["run"]);
        if pair.is_multiple_of(2) {
            theirs.push(timed(&mut numactl)?);
            ours.push(timed(&mut nodeward)?);
        } else {
            ours.push(timed(&mut nodeward)?);
            theirs.push(timed(&mut numactl)?);
        }
    }
    Ok(record(&theirs, &ours))
}

fn command(program: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).arg("true");
    command
}

fn record(theirs: &[Duration], ours: &[Duration]) -> Value {
    let ratios = ratios(ours, theirs);
    let measured = rounded(median(&ratios));
    let (theirs_ms, ours_ms) = (ms(theirs), ms(ours));
    eprintln!(
        "  nodeward run: {:.0} ms; numactl: {:.0} ms; {measured:.2} times as long (median)",
        median(&ours_ms),
        median(&theirs_ms)
    );
    json!({
        "measured": measured,
        "command": "nodeward run true",
        "peer": "numactl --preferred=0 --cpunodebind=0 true",
        "ratios": all_rounded(&ratios),
        "numactl_ms": all_rounded(&theirs_ms),
        "nodeward_ms": all_rounded(&ours_ms),
    })
}
