//! `nodeward bench limits`: what the kernel's calls that move pages cost here, each alone.

use anyhow::Result;
use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_proof::{BenchProgress, LimitCell, LimitsPlan, measure_limits};
use serde_json::Value;

use super::defaults::{doublings, first_nodes};
use super::move_calls;
use crate::args::BenchLimitsArgs;
use crate::message::exit::Exit;
use crate::output;
use crate::output::bench::limits as bench;
use crate::progress;

/// Measures and prints.
pub fn run(args: &BenchLimitsArgs) -> Result<Exit> {
    let (Some((plan, cells)), exit) = measured(args)? else { return Ok(Exit::NothingDone) };
    output::print(&match args.output.json {
        true => format!("{}\n", bench::json(&plan, &cells)),
        false => bench::text(&plan, &cells),
    })?;
    Ok(exit)
}

/// Measures, and returns the document that `--json` prints; none where nothing can be measured.
pub fn document(args: &BenchLimitsArgs) -> Result<(Option<Value>, Exit)> {
    let (found, exit) = measured(args)?;
    Ok((found.map(|(plan, cells)| bench::json(&plan, &cells)), exit))
}

/// A plan, and what came of it.
type Measured = (LimitsPlan, Vec<LimitCell>);

fn measured(args: &BenchLimitsArgs) -> Result<(Option<Measured>, Exit)> {
    if !move_calls::are_there() {
        return Ok((None, Exit::NothingDone));
    }
    let (plan, live) = (plan(args)?, BenchProgress::default());
    let cells =
        progress::run_with_progress(&live, args.progress.mode(), || measure_limits(&plan, &live))??;
    let exit = if live.cancel().is_cancelled() { Exit::Interrupted } else { Exit::Done };
    Ok((Some((plan, cells)), exit))
}

fn plan(args: &BenchLimitsArgs) -> Result<LimitsPlan> {
    let machine = Linux::open();
    let cpus = u32::try_from(machine.usable_cpus()?.len()).unwrap_or(1);
    Ok(LimitsPlan {
        bytes: usize::try_from(args.size)?,
        threads: if args.threads.is_empty() { doublings(cpus) } else { args.threads.clone() },
        rounds: args.rounds as usize,
        nodes: first_nodes(&machine.topology()?),
    })
}
