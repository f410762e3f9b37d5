//! `nodeward sim compare`: the same loads under one balancer after the other.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use nodeward_contest::steady::{self, Stayed};
use nodeward_contest::{Asked, Balancer, CASES, Case, Judged, judge, run as simulate};
use nodeward_files::For;
use nodeward_model::Escape as _;
use nodeward_swarm::crew::{Watch, each};
use serde_json::{Value, json};

use crate::args::CompareArgs;
use crate::exit::Exit;
use crate::output;
use crate::output::sim::compare as out;
use crate::progress::{self, Shown};
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
    fn needs(self, by: Balancer) -> bool {
        match self {
            Self::Local => by == Balancer::Nodeward,
            Self::Work => matches!(by, Balancer::Nodeward | Balancer::Nothing),
            Self::Pages => matches!(by, Balancer::Nodeward | Balancer::Kernel),
            Self::Static => false,
        }
    }
}

/// Progress: how many of all runs have ended.
struct Live {
    watch: Watch,
    total: usize,
}

impl Shown for Live {
    fn done_of_total(&self) -> (u64, u64) {
        (self.watch.done() as u64, self.total as u64)
    }

    fn words(&self, _elapsed: Duration) -> String {
        format!("{} of {} simulations", self.watch.done(), self.total)
    }

    fn stop(&self) {
        self.watch.stop();
    }
}

/// Simulates, prints, and reports by the exit code whether nodeward reaches all goals.
pub fn run(args: &CompareArgs) -> Result<Exit> {
    match args.figure {
        Some(CompareFigure::Static) if args.print => return print_machines(args),
        Some(CompareFigure::Static) => return still(args),
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
    let is_missed = tables.iter().any(|table| table.missed().next().is_some());
    Ok(if is_missed { Exit::Differs } else { Exit::Done })
}

/// Runs `items` in parallel, as many at a time as requested.
fn in_parallel<T: Sync, R: Send>(
    args: &CompareArgs,
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync + Send,
) -> Result<Vec<R>> {
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(here, usize::from);
    let live = Live { watch: Watch::default(), total: items.len() };
    let done =
        progress::watch(&live, args.progress.when(), || each(items, jobs, &live.watch, work))?;
    let ended = done.iter().flatten().count();
    if ended < items.len() {
        bail!("stopped after {ended} of {} simulations", items.len());
    }
    done.into_iter().flatten().collect()
}

fn tables(args: &CompareArgs) -> Result<Vec<Judged>> {
    let is_meant =
        |case: &&Case| args.cases.is_empty() || args.cases.iter().any(|name| name == case.name);
    let needs = |by: &Balancer| args.figure.is_none_or(|figure| figure.needs(*by));
    let cases: Vec<_> = CASES.iter().filter(is_meant).collect();
    let of = |case: &&'static Case| {
        let case: &Case = case;
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
    Ok(cases.into_iter().map(|case| judge(case, &by_case[case.name])).collect())
}

/// Formats a number with its unit, if it has one, as SPEC.md's checks read it.
fn number(figure: CompareFigure, tables: &[Judged]) -> Value {
    let of_2012 = |table: &&Judged| {
        let case = CASES.iter().find(|case| case.name == table.name);
        let is_of_2012 = |case: &Case| matches!(case.asked, Asked::Local | Asked::Threads);
        figure == CompareFigure::Work || case.is_some_and(is_of_2012)
    };
    let one = |table: &Judged| {
        let ours = table.of(Balancer::Nodeward)?;
        let value = match figure {
            CompareFigure::Local => ours.local_milli as f64 / 10.0,
            CompareFigure::Work => ours.work_milli as f64 / 1e3,
            _ => ours.pages as f64 / table.of(Balancer::Kernel)?.pages.max(1) as f64,
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
    let seconds = (steady::CONVERGED_NS + steady::WATCHED_NS) / 1_000_000_000;
    for seed in seeds(args) {
        let text = nodeward_swarm::text::of(&steady::drawn(seed));
        let command = "nodeward balance --machine sim:FILE";
        output::print(&format!("# {command} --seed {seed} --for {seconds}s --json\n{text}"))?;
    }
    Ok(Exit::Done)
}

/// Measures constant loads.
fn still(args: &CompareArgs) -> Result<Exit> {
    let began = Instant::now();
    let seeds: Vec<_> = seeds(args).collect();
    let stayed = in_parallel(args, &seeds, |&seed| {
        let watched = steady::watch(seed, Balancer::Nodeward);
        watched.with_context(|| format!("the machine of seed {seed}"))
    })?;
    let of = |is: fn(&Stayed) -> bool| {
        let some = seeds.iter().zip(&stayed).filter(move |(_, stayed)| is(stayed));
        some.map(|(seed, _)| *seed).collect::<Vec<_>>()
    };
    let sums = stayed.iter().map(|stayed| match stayed {
        Stayed::Home { before, after } => [*before, *after],
        Stayed::OnTheWay | Stayed::Restless => [0; 2],
    });
    let [before, after] = sums.fold([0; 2], |sum, more| [sum[0] + more[0], sum[1] + more[1]]);
    let restless = of(|stayed| *stayed == Stayed::Restless);
    let moved = of(|stayed| matches!(stayed, Stayed::Home { after: 1.., .. }));
    let number = json!({
        "measured": after + restless.len() as u64,
        "machines": of(|stayed| matches!(stayed, Stayed::Home { .. })).len(),
        "came_home": of(|stayed| matches!(stayed, Stayed::Home { before: 1.., .. })).len(),
        "pages_before": before,
        "moved": moved,
        "restless": restless,
        "on_the_way": of(|stayed| *stayed == Stayed::OnTheWay),
        "wall_s": rounded(began.elapsed().as_secs_f64()),
    });
    output::print(&format!("{number}\n"))?;
    Ok(if after == 0 && restless.is_empty() { Exit::Done } else { Exit::Differs })
}

fn write(path: &Path, text: &str) -> Result<()> {
    nodeward_files::write(path, text, For::Everyone)
        .with_context(|| format!("cannot write {}", path.escaped()))
}
