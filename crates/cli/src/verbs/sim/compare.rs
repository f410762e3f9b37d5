//! `nodeward sim compare`: the same loads under one balancer after the other.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use nodeward_experiments::compare::steady::{self, SteadyOutcome};
use nodeward_experiments::compare::{
    BalancerKind, CASES, CaseTable, CompareCase, Requirement, evaluate_case, run as simulate,
};
use nodeward_experiments::parallel::{ParallelProgress, parallel_map};
use nodeward_files::Visibility;
use nodeward_model::Escape as _;
use serde_json::{Value, json};

use crate::args::CompareArgs;
use crate::exit::Exit;
use crate::output;
use crate::output::sim::compare as out;
use crate::progress::{self, ProgressSource};
use crate::verbs::bench::rounded;

/// One number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareFigure {
    /// Per cent of lines that are local in the end, of the load of 2012 where that is least
    Local,
    /// Work as a part of that without a balancer, of the load where that is least
    Work,
    /// Pages as a part of those that the kernel moves for the load of 2012, where that is most
    Pages,
    /// Pages that move in a minute on drawn machines with loads that stay as they are, once all is
    /// at home
    Static,
}

impl CompareFigure {
    /// Returns whether the figure needs a run of a balancer.
    fn needs(self, by: BalancerKind) -> bool {
        match self {
            Self::Local => by == BalancerKind::Nodeward,
            Self::Work => matches!(by, BalancerKind::Nodeward | BalancerKind::Nothing),
            Self::Pages => matches!(by, BalancerKind::Nodeward | BalancerKind::Kernel),
            Self::Static => false,
        }
    }
}

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
        output::print(&format!("{}\n", number(figure, &tables)))?;
        return Ok(Exit::Done);
    }
    if let Some(path) = &args.plot {
        write(path, &out::svg(&tables)?)?;
    }
    if let Some(directory) = &args.docs {
        for (name, text) in out::docs(&tables)? {
            write(&directory.join(name), &text)?;
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
    let is_meant = |case: &&CompareCase| {
        args.cases.is_empty() || args.cases.iter().any(|name| name == case.name)
    };
    let needs = |by: &BalancerKind| args.figure.is_none_or(|figure| figure.needs(*by));
    let cases: Vec<_> = CASES.iter().filter(is_meant).collect();
    let of = |case: &&'static CompareCase| {
        let case: &CompareCase = case;
        case.balancers().filter(needs).map(|by| (case, by)).collect::<Vec<_>>()
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

/// Formats a number with its unit, if it has one, as SPEC.md's checks read it.
fn number(figure: CompareFigure, tables: &[CaseTable]) -> Value {
    let of_2012 = |table: &&CaseTable| {
        let case = CASES.iter().find(|case| case.name == table.name);
        let is_of_2012 = |case: &CompareCase| {
            matches!(case.requirement, Requirement::LocalMemory | Requirement::LocalByMovingThreads)
        };
        figure == CompareFigure::Work || case.is_some_and(is_of_2012)
    };
    let one = |table: &CaseTable| {
        let ours = table.figures_of(BalancerKind::Nodeward)?;
        let value = match figure {
            CompareFigure::Local => ours.local_milli as f64 / 10.0,
            CompareFigure::Work => ours.work_milli as f64 / 1e3,
            _ => ours.pages as f64 / table.figures_of(BalancerKind::Kernel)?.pages.max(1) as f64,
        };
        Some((table.name, rounded(value)))
    };
    let cases: BTreeMap<_, _> = tables.iter().filter(of_2012).filter_map(one).collect();
    let values = cases.values().copied();
    let worst = match figure {
        CompareFigure::Pages => values.fold(0.0, f64::max),
        _ => values.fold(f64::INFINITY, f64::min),
    };
    let mut told = json!({ "measured": worst, "cases": cases });
    if figure == CompareFigure::Local {
        told["unit"] = json!("%");
    }
    told
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

fn write(path: &Path, text: &str) -> Result<()> {
    nodeward_files::write(path, text, Visibility::Everyone)
        .with_context(|| format!("cannot write {}", path.escaped()))
}
