//! The simulator's figures in SPEC.md, by name.

use std::collections::BTreeSet;

use anyhow::Result;
use nodeward_scenario::Scenario;
use nodeward_sim::hashes;
use serde_json::{Value, json};

use crate::args::SimArgs;
use crate::figures::{SimFigure, rounded};
use crate::machines::simulation::{self, SimulationProgress};
use crate::message::exit::Exit;
use crate::results::simulation::{EndReason, speed};
use crate::{output, progress};

/// Runs a scenario for a figure.
pub fn of(scenario: &Scenario, args: &SimArgs, figure: SimFigure) -> Result<Exit> {
    let live = SimulationProgress::new(scenario.time_ns);
    let run = progress::run_with_progress(&live, args.progress.mode(), || {
        simulation::run(scenario, args, None, None, &live)
    })??;
    let report = &run.report;
    let seconds = run.wall_ns.max(1) as f64 / 1e9;
    let faulted = report.counters.get("faulted_pages").copied().unwrap_or(0);
    let measured = match figure {
        SimFigure::Allocations => faulted as f64 / seconds,
        SimFigure::BytesPerPage => report.kept_bytes as f64 / report.mapped_pages.max(1) as f64,
        SimFigure::Speed | SimFigure::Hashes => speed(report.virtual_ns, run.wall_ns),
    };
    tell(&json!({
        "measured": rounded(measured),
        "scenario": report.scenario,
        "seed": report.seed,
        "virtual_ns": report.virtual_ns,
        "wall_ns": run.wall_ns,
        "events": report.events,
        "faulted_pages": faulted,
        "mapped_pages": report.mapped_pages,
        "kept_bytes": report.kept_bytes,
    }))?;
    Ok(if run.ended == EndReason::Interrupted { Exit::Interrupted } else { Exit::Done })
}

/// Simulates the beginning of every built-in scenario, and compares the hashes.
pub fn hashes() -> Result<Exit> {
    let computed = hashes::computed()?;
    let committed: BTreeSet<_> = hashes::committed().lines().collect();
    let differing: Vec<_> = computed.lines().filter(|line| !committed.contains(line)).collect();
    tell(&json!({
        "measured": differing.len(),
        "differing": differing,
        "scenarios": computed.lines().count(),
    }))?;
    Ok(if differing.is_empty() { Exit::Done } else { Exit::Mismatch })
}

fn tell(number: &Value) -> Result<()> {
    output::print(&format!("{number}\n"))
}
