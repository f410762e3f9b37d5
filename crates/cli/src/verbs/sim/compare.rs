//! `nodeward sim compare`: the same loads under one balancer after the other.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nodeward_experiments::compare::steady::{self, SteadyOutcome};
use nodeward_experiments::compare::{
    BalancerKind, CASES, CaseTable, CompareCase, evaluate_case, run as simulate,
};
use nodeward_experiments::parallel::{ParallelProgress, parallel_map};
use serde_json::json;

use crate::args::CompareArgs;
use crate::figures::{CompareFigure, rounded};
use crate::message::exit::Exit;
use crate::output;
use crate::output::sim::compare as out;
use crate::progress::{self, ProgressSource};

/// Progress: how many of all runs have ended.
struct CompareProgress {
    watch: ParallelProgress,
    total: usize,
}

impl ProgressSource for CompareProgress {
    fn done_of_total(&self) -> (u64, u64) {
        (self.watch.completed() as u64, self.total as u64)
    }

    fn message(&self, _elapsed: Duration) -> String {
        format!("{} of {} simulations", self.watch.completed(), self.total)
    }

    fn stop(&self) {
        self.watch.stop();
    }
}

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
        true => format!("{}\n", out::json(&tables)),
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
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(here, usize::from);
    let live = CompareProgress { watch: ParallelProgress::default(), total: items.len() };
    let done = progress::run_with_progress(&live, args.progress.mode(), || {
        parallel_map(items, jobs, &live.watch, work)
    })?;
    let ended = done.iter().flatten().count();
    if ended < items.len() {
        bail!("stopped after {ended} of {} simulations", items.len());
    }
    done.into_iter().flatten().collect()
}

fn tables(args: &CompareArgs) -> Result<Vec<CaseTable>> {
    let is_meant = |case: &&CompareCase| match args.cases.is_empty() {
        true => args.figure.is_none_or(|figure| figure.is_of(case)),
        false => args.cases.iter().any(|name| name == case.name),
    };
    let cases: Vec<_> = CASES.iter().filter(is_meant).collect();
    let of = |case: &&'static CompareCase| {
        let case: &CompareCase = case;
        let balancers: Vec<_> = match args.figure {
            Some(figure) => figure.balancers().to_vec(),
            None => case.balancers().collect(),
        };
        balancers.into_iter().map(|by| (case, by)).collect::<Vec<_>>()
    };
    let runs: Vec<_> = cases.iter().flat_map(of).collect();
    let outcomes = in_parallel(args, &runs, |&(case, by)| {
        simulate(case, by, args.limit).with_context(|| format!("{} under {}", case.name, by.name()))
    })?;
    let mut by_case: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for ((case, by), outcome) in runs.into_iter().zip(outcomes) {
        by_case.entry(case.name).or_default().insert(by, outcome);
    }
    Ok(cases.into_iter().map(|case| evaluate_case(case, &by_case[case.name])).collect())
}

fn seeds(args: &CompareArgs) -> Range<u64> {
    args.from..args.from.saturating_add(args.seeds)
}

/// Prints the machines with constant loads, each with the command that shows its rounds.
fn print_machines(args: &CompareArgs) -> Result<Exit> {
    let seconds = (steady::CONVERGED_NS + steady::OBSERVED_NS) / 1_000_000_000;
    for seed in seeds(args) {
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
    let seeds: Vec<_> = seeds(args).collect();
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
