//! `nodeward bench calls`: what each call of a region costs here, beside the kernel's calls.

use anyhow::Result;
use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::Topology;
use nodeward_proof::{
    BenchProgress, CallSetting, CallsPlan, CallsReport, RegionCall, measure_calls,
};
use serde_json::Value;

use super::defaults::first_nodes;
use super::move_calls;
use crate::args::BenchCallsArgs;
use crate::figures::CallsFigure;
use crate::message::exit::Exit;
use crate::output;
use crate::output::bench::calls as bench;
use crate::progress;

/// Repetitions of each call.
const SAMPLES: usize = 2000;
const SMOKE_SAMPLES: usize = 20;
/// Times that a pager is opened.
const OPENS: usize = 20;
const SMOKE_OPENS: usize = 2;
/// Many regions, each with its place in the kernel's and the pager's tables.
const REGIONS: u32 = 10_000;
const SMOKE_REGIONS: u32 = 100;
/// Size of the region that moves meanwhile.
const LARGE: usize = 1 << 30;
const SMOKE_LARGE: usize = 32 << 20;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

/// Measures and prints.
pub fn run(args: &BenchCallsArgs) -> Result<Exit> {
    let topology = Linux::open().topology()?;
    if !move_calls::are_there() {
        return Ok(Exit::NothingDone);
    }
    let plan = plan(args, &topology);
    match args.figure {
        Some(figure) => print_figure(args, figure, &figure.plan(&plan)),
        None => table(args, &plan),
    }
}

/// Measures, and returns the document that `--json` prints; none where nothing can be measured.
pub fn document(args: &BenchCallsArgs) -> Result<(Option<Value>, Exit)> {
    if !move_calls::are_there() {
        return Ok((None, Exit::NothingDone));
    }
    let plan = plan(args, &Linux::open().topology()?);
    let (report, exit) = measured(args, &plan)?;
    Ok((Some(bench::json(&plan, &report)), exit))
}

fn table(args: &BenchCallsArgs, plan: &CallsPlan) -> Result<Exit> {
    let (report, exit) = measured(args, plan)?;
    output::print(&match args.output.json {
        true => format!("{}\n", bench::json(plan, &report)),
        false => bench::text(plan, &report),
    })?;
    Ok(exit)
}

fn print_figure(args: &BenchCallsArgs, figure: CallsFigure, plan: &CallsPlan) -> Result<Exit> {
    let (report, exit) = measured(args, plan)?;
    let Some(number) = figure.value(&report) else { return Ok(exit) };
    output::print(&format!("{number}\n"))?;
    Ok(exit)
}

fn measured(args: &BenchCallsArgs, plan: &CallsPlan) -> Result<(CallsReport, Exit)> {
    let live = BenchProgress::default();
    let report =
        progress::run_with_progress(&live, args.progress.mode(), || measure_calls(plan, &live))??;
    let exit = if live.cancel().is_cancelled() { Exit::Interrupted } else { Exit::Done };
    Ok((report, exit))
}

fn plan(args: &BenchCallsArgs, topology: &Topology) -> CallsPlan {
    let (samples, opens, regions, large_bytes) = match args.smoke {
        true => (SMOKE_SAMPLES, SMOKE_OPENS, SMOKE_REGIONS, SMOKE_LARGE),
        false => (SAMPLES, OPENS, REGIONS, LARGE),
    };
    CallsPlan {
        settings: settings(regions),
        calls: match args.only.as_slice() {
            [] => RegionCall::ALL.to_vec(),
            some => RegionCall::ALL.into_iter().filter(|call| some.contains(call)).collect(),
        },
        samples: args.samples.map_or(samples, |samples| samples as usize),
        opens,
        large_bytes,
        nodes: first_nodes(topology),
    }
}

/// Returns the settings: few and many threads, small and large regions, few and many of them, alone
/// and beside a migration.
fn settings(regions: u32) -> Vec<CallSetting> {
    let sizes = vec![4 * KIB, 64 * KIB, 2 * MIB];
    let of_threads = |threads: u32| CallSetting {
        threads,
        regions: threads,
        region_bytes: 64 * MIB,
        beside_migration: false,
        sizes: sizes.clone(),
    };
    let page = || CallSetting { sizes: vec![4 * KIB], ..of_threads(1) };
    vec![
        of_threads(1),
        of_threads(2),
        of_threads(4),
        CallSetting { region_bytes: 64 * GIB, ..of_threads(1) },
        CallSetting { regions, region_bytes: 4 * MIB, ..page() },
        CallSetting { beside_migration: true, ..page() },
    ]
}
