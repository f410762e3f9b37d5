//! The cost of the ledger to a move, and whether an undo ends where the move began.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::args::{LedgerFigure, LedgerOptions};
use crate::commands::timed_json;
use crate::numbers::{all_rounded, median, rounded};
use crate::target::LoadTarget;

/// Moves a process and undoes the move, repeatedly.
pub fn measure(options: &LedgerOptions) -> Result<Value> {
    let target = LoadTarget::start(&options.memory, None)?;
    let (mut cost, mut off) = (Vec::new(), Vec::new());
    for turn in 0..options.moves {
        let mut command = Command::new("nodeward");
        command.args(["move", "--json"]).args(&options.options);
        let (_, moved) = timed_json(command.arg(target.pid().to_string()).args(["0", "1"]))?;
        let id = moved["ledger"]["id"].as_u64().context("a move without a ledger")?;
        let mut undo = Command::new("nodeward");
        let (_, undone) = timed_json(undo.args(["undo", "--json", &id.to_string()]))?;
        cost.push(percent(&moved["ledger"]["writing_ns"], &moved["moving_ns"])?);
        off.push(misplaced(&moved, &undone)?);
        eprintln!(
            "  turn {}: {:.3} %, {:.3} % off",
            turn + 1,
            cost[cost.len() - 1],
            off[off.len() - 1]
        );
    }
    target.stop()?;
    let worst_off = off.iter().copied().fold(0.0, f64::max);
    Ok(json!({
        "measured": rounded(match options.figure {
            LedgerFigure::Cost => median(&cost),
            LedgerFigure::Undo => worst_off,
        }),
        "unit": "%",
        "size_bytes": options.memory.size,
        "cost_percent": all_rounded(&cost),
        "off_percent": all_rounded(&off),
    }))
}

fn percent(part: &Value, whole: &Value) -> Result<f64> {
    let number = |value: &Value| value.as_f64().context("a report without times");
    Ok(number(part)? / number(whole)?.max(1.0) * 100.0)
}

/// Returns the percentage of the pages on node 0 before the move that are not there after the undo.
fn misplaced(moved: &Value, undone: &Value) -> Result<f64> {
    let on_node_0 = |report: &Value, when: &str| {
        report["processes"][0][when]["0"].as_f64().context("a report without residency")
    };
    let (before, after) = (on_node_0(moved, "before_pages")?, on_node_0(undone, "after_pages")?);
    Ok((before - after).max(0.0) / before.max(1.0) * 100.0)
}
