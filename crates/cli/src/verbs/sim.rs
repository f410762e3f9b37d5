//! `nodeward sim`: a machine in virtual time.

mod compare;
mod figure;
mod own_machine;
mod scaling;
mod setup;
mod swarm;
mod sweep;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use nodeward_files::{Visibility, create};
use nodeward_model::Escape as _;
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_scenario::{BUILT_IN, Scenario};
use nodeward_sim::{Observer, Perfetto, Section};

use crate::args::{SimArgs, SimVerb};
use crate::figures::SimFigure;
use crate::machines::simulation::{self, SimulationProgress};
use crate::message::exit::Exit;
use crate::output;
use crate::output::sim::{self as out, SimOutput};
use crate::progress;
use crate::results::simulation::EndReason;

/// Simulates, prints, and reports by the exit code whether the run was cut short.
pub fn run(args: &SimArgs) -> Result<Exit> {
    if let Some(verb) = &args.verb {
        return match verb {
            SimVerb::Sweep(args) => sweep::run(args),
            SimVerb::Swarm(args) => swarm::run(args),
            SimVerb::Compare(args) => compare::run(args),
            SimVerb::Scaling(args) => scaling::run(args),
        };
    }
    if args.of_this_machine {
        return own_machine::run();
    }
    match (&args.scenario, args.figure) {
        (_, Some(SimFigure::Hashes)) => figure::hashes(),
        (Some(name), Some(figure)) => figure::of(&load_scenario(name, args)?, args, figure),
        (Some(name), None) => simulate(&load_scenario(name, args)?, args),
        (None, Some(_)) => bail!("SCENARIO is missing; `nodeward sim --list` names some"),
        (None, None) => list(args),
    }
}

/// Returns the scenario with the changes of the command line.
fn load_scenario(name: &str, args: &SimArgs) -> Result<Scenario> {
    let mut scenario = Scenario::find_with(name, &args.set)?;
    scenario.time_ns = args.limit.unwrap_or(scenario.time_ns);
    Ok(scenario)
}

fn simulate(scenario: &Scenario, args: &SimArgs) -> Result<Exit> {
    let sections = sections(scenario);
    let setup = match args.balance {
        true => Some(setup::nodeward(args.settings.as_deref())?),
        false => None,
    };
    setup.as_ref().map(|setup| setup::check(setup, scenario)).transpose()?;
    args.plot.as_deref().map(output::check_result).transpose()?;
    if args.trace.is_some() && args.trace == args.plot {
        bail!("--trace and --plot name the same file; give two");
    }
    let trace = args.trace.as_deref().map(|path| trace(path, scenario, args)).transpose()?;
    let live = SimulationProgress::new(scenario.time_ns);
    let observer = trace.clone().map(|trace| -> Box<dyn Observer> { Box::new(trace) });
    let (run, again) = progress::run_with_progress(&live, args.progress.mode(), || {
        let run = simulation::run(scenario, args, setup.as_ref(), observer, &live)?;
        let twice = args.check_determinism && run.ended == EndReason::VirtualTime;
        let again = || simulation::run(scenario, args, setup.as_ref(), None, &live);
        anyhow::Ok((run, twice.then(again).transpose()?))
    })??;
    if let (Some(trace), Some(path)) = (trace, &args.trace) {
        end_trace(&trace, path, run.report.virtual_ns)?;
    }
    if let Some(path) = &args.plot {
        output::write_result(path, &out::svg(scenario, &run.report)?)?;
    }
    let same = again.as_ref().map(|again| again.report == run.report);
    let told = SimOutput { run: &run, is_deterministic: same, sections: &sections };
    output::print(&match args.output.json {
        true => format!("{}\n", out::json(&told)),
        false => out::text(&told),
    })?;
    if let Some(again) = again.filter(|_| same == Some(false)) {
        let hashes = [&run.report.trace_hash, &again.report.trace_hash];
        say!(
            "nodeward: two runs of seed {} differ (traces {} and {}); this is a bug of the \
             simulator: report it with the scenario",
            args.seed,
            hashes[0],
            hashes[1],
        );
        return Ok(Exit::Mismatch);
    }
    Ok(if run.ended == EndReason::Interrupted { Exit::Interrupted } else { Exit::Done })
}

/// Returns the sections of the report, in order.
fn sections(scenario: &Scenario) -> Vec<Section> {
    if scenario.report.is_empty() {
        return Section::ALL.to_vec();
    }
    scenario.report.iter().filter_map(|word| Section::from_name(word)).collect()
}

type Trace = Arc<Mutex<Perfetto<BufWriter<File>>>>;

fn trace(path: &Path, scenario: &Scenario, args: &SimArgs) -> Result<Trace> {
    let file = create(path, Visibility::Everyone);
    let file = file.with_context(|| format!("cannot write {}", path.escaped()))?;
    let out = BufWriter::new(file);
    Ok(Arc::new(Mutex::new(Perfetto::new(out, scenario, args.trace_max))))
}

fn end_trace(trace: &Trace, path: &Path, at_ns: u64) -> Result<()> {
    let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
    let end = trace.end(at_ns).with_context(|| format!("cannot write {}", path.escaped()))?;
    if let Some(cut_at) = end.cut_at_ns {
        say!(
            "nodeward: the trace ends at {}, with {}; --trace-max allows more",
            format_ns(cut_at),
            format_bytes(end.bytes),
        );
    }
    Ok(())
}

/// Lists the built-in scenarios.
fn list(args: &SimArgs) -> Result<Exit> {
    let all = BUILT_IN.iter().map(|(name, _)| Scenario::find(name));
    let all = all.collect::<Result<Vec<_>, _>>()?;
    output::print(&match args.output.json {
        true => format!("{}\n", out::list_json(&all)),
        false => out::list(&all),
    })?;
    Ok(Exit::Done)
}
