//! `nodeward sim compare`: the same loads under one balancer after the other.

mod loads;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nodeward_experiments::compare::steady::{self, SteadyOutcome};
use nodeward_experiments::compare::{
    BalancerKind, CaseTable, CompareCase, NodewardSetup, Outcomes, RunOptions, SEED, evaluate_case,
    run_with,
};
use nodeward_experiments::parallel::parallel_map;
use nodeward_model::Escape as _;
use nodeward_scenario::Scenario;
use serde_json::json;

use super::setup;
use crate::args::CompareArgs;
use crate::figures::{CompareFigure, rounded};
use crate::message::exit::Exit;
use crate::output;
use crate::output::sim::compare as out;
use crate::progress::{self, SeriesProgress};
use loads::NamedLoad;

/// The number of drawn machines, unless another is given.
const MACHINES: u64 = 100;

/// Simulates, prints, and reports by the exit code whether nodeward reaches all goals.
pub fn run(args: &CompareArgs) -> Result<Exit> {
    match args.figure {
        Some(CompareFigure::Static) if args.print => return print_machines(args),
        Some(CompareFigure::Static) => return measure_static(args),
        _ if args.print => bail!("--print shows the machines of --figure static; name that"),
        _ => {}
    }
    let tables = tables(args)?;
    if let Some(figure) = args.figure {
        output::print(&format!("{}\n", figure.value(&tables)))?;
        return Ok(Exit::Done);
    }
    if let Some(path) = &args.plot {
        output::write_result(path, &out::svg(&tables)?)?;
    }
    if let Some(directory) = &args.docs {
        for (name, text) in out::docs(&tables)? {
            output::write_result(&directory.join(name), &text)?;
        }
    }
    output::print(&match args.output.json {
        true => format!("{}\n", out::json(&tables, args.settings.as_deref())),
        false => out::text(&tables),
    })?;
    let is_missed = tables.iter().any(|table| table.missed_goals().next().is_some());
    Ok(if is_missed { Exit::Mismatch } else { Exit::Done })
}

/// Runs `items` in parallel, as many at a time as requested.
fn in_parallel<T: Sync, R: Send>(
    args: &CompareArgs,
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync + Send,
) -> Result<Vec<R>> {
    let jobs = args.jobs.count();
    let live = SeriesProgress::new(items.len() as u64);
    let done = progress::show_progress(&live, args.progress.mode(), || {
        parallel_map(items, jobs, &live.watch, work)
    })?;
    done.into_iter().collect()
}

fn tables(args: &CompareArgs) -> Result<Vec<CaseTable>> {
    let sets: Vec<_> = args.set.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    let loads = loads::named(args, &sets)?;
    let cases: Vec<_> = loads.iter().map(NamedLoad::case).collect();
    let setup = setup::nodeward(args.settings.as_deref())?;
    check(args, &cases, &setup)?;
    let mut runs = Vec::new();
    for case in &cases {
        for by in balancers(args, case) {
            runs.extend(seeds(args, SEED, 1).map(|seed| (case, by, seed)));
        }
    }
    let outcomes = in_parallel(args, &runs, |&(case, by, seed)| {
        let load = || format!("{} under {}", case.name.escaped(), by.name());
        let options = RunOptions { seed, limit_ns: args.limit, setup: &setup };
        run_with(case, by, options).with_context(load)
    })?;
    let mut by_case: BTreeMap<&str, Outcomes> = BTreeMap::new();
    for ((case, by, _), outcome) in runs.iter().zip(outcomes) {
        by_case.entry(case.name).or_default().entry(*by).or_default().push(outcome);
    }
    Ok(cases.iter().map(|case| evaluate_case(case, &by_case[case.name])).collect())
}

/// Reads every scenario as each balancer has it, so that a mistake is told before anything runs.
fn check(args: &CompareArgs, cases: &[CompareCase], setup: &NodewardSetup) -> Result<()> {
    for case in cases {
        for by in balancers(args, case) {
            let scenario = Scenario::find_with(case.scenario, &case.overrides_under(by))?;
            setup::check(setup, &scenario).with_context(|| case.name.escaped().to_string())?;
        }
    }
    Ok(())
}

/// Returns the balancers of a load: those that are named, or needed for a figure, or make sense.
fn balancers(args: &CompareArgs, case: &CompareCase) -> Vec<BalancerKind> {
    match (args.figure, args.balancers.is_empty()) {
        (Some(figure), _) => figure.balancers().to_vec(),
        (None, false) => without_repeats(&args.balancers),
        (None, true) => case.balancers().collect(),
    }
}

/// Returns the balancers in their order, each once.
fn without_repeats(named: &[BalancerKind]) -> Vec<BalancerKind> {
    let is_first = |&(index, by): &(usize, &BalancerKind)| !named[..index].contains(by);
    named.iter().enumerate().filter(is_first).map(|(_, &by)| by).collect()
}

/// Returns the seeds of the command line.
fn seeds(args: &CompareArgs, from: u64, count: u64) -> Range<u64> {
    let from = args.from.unwrap_or(from);
    from..from + args.seeds.unwrap_or(count)
}

/// Returns the seeds of drawn machines.
fn machine_seeds(args: &CompareArgs) -> Range<u64> {
    seeds(args, 0, MACHINES)
}

/// Prints the machines with constant loads, each with the command that shows its rounds.
fn print_machines(args: &CompareArgs) -> Result<Exit> {
    let seconds = (steady::CONVERGED_NS + steady::OBSERVED_NS) / 1_000_000_000;
    for seed in machine_seeds(args) {
        let text =
            nodeward_experiments::swarm::scenario_toml::to_toml(&steady::generate_scenario(seed));
        let command = "nodeward balance --machine sim:FILE";
        output::print(&format!("# {command} --seed {seed} --for {seconds}s --json\n{text}"))?;
    }
    Ok(Exit::Done)
}

/// Measures constant loads.
fn measure_static(args: &CompareArgs) -> Result<Exit> {
    let began = Instant::now();
    let seeds: Vec<_> = machine_seeds(args).collect();
    let stayed = in_parallel(args, &seeds, |&seed| {
        let watched = steady::run_steady(seed, BalancerKind::Nodeward);
        watched.with_context(|| format!("the machine of seed {seed}"))
    })?;
    let of = |is: fn(&SteadyOutcome) -> bool| {
        let some = seeds.iter().zip(&stayed).filter(move |(_, stayed)| is(stayed));
        some.map(|(seed, _)| *seed).collect::<Vec<_>>()
    };
    let sums = stayed.iter().map(|stayed| match stayed {
        SteadyOutcome::Converged { moved_before: before, moved_after: after } => [*before, *after],
        SteadyOutcome::StillMoving | SteadyOutcome::Thrashing => [0; 2],
    });
    let [before, after] = sums.fold([0; 2], |sum, more| [sum[0] + more[0], sum[1] + more[1]]);
    let restless = of(|stayed| *stayed == SteadyOutcome::Thrashing);
    let moved = of(|stayed| matches!(stayed, SteadyOutcome::Converged { moved_after: 1.., .. }));
    let came_home = |stayed: &SteadyOutcome| {
        matches!(stayed, SteadyOutcome::Converged { moved_before: 1.., .. })
    };
    let number = json!({
        "measured": after + restless.len() as u64,
        "machines": of(|stayed| matches!(stayed, SteadyOutcome::Converged { .. })).len(),
        "came_home": of(came_home).len(),
        "pages_before": before,
        "moved": moved,
        "restless": restless,
        "on_the_way": of(|stayed| *stayed == SteadyOutcome::StillMoving),
        "wall_s": rounded(began.elapsed().as_secs_f64()),
    });
    output::print(&format!("{number}\n"))?;
    Ok(if after == 0 && restless.is_empty() { Exit::Done } else { Exit::Mismatch })
}
