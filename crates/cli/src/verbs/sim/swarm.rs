//! `nodeward sim swarm`: machines drawn from seeds, and the findings of checkers on them.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;
use nodeward_experiments::swarm::generator::SwarmCase;
use nodeward_experiments::swarm::{Swarm, planted_bugs};
use nodeward_scenario::Bug;
use serde_json::json;

use crate::args::SwarmArgs;
use crate::args::bug_name;
use crate::figures::SwarmFigure;
use crate::message::exit::Exit;
use crate::output::swarm::{self as out, SwarmOutput};
use crate::progress::{ProgressSource, StoppableWork};
use crate::stop_signals::Grace;
use crate::{output, progress};

/// Runs seeds, or prints their cases.
pub fn run(args: &SwarmArgs) -> Result<Exit> {
    let seeds = match args.seed {
        Some(seed) => seed..seed + 1,
        None => args.from..args.from + args.seeds,
    };
    match args.figure {
        _ if args.print => print(seeds, args.bug),
        Some(SwarmFigure::Canary) => find_planted_bugs(args.from),
        figure => swarm(seeds, args, figure),
    }
}

fn generate_case(seed: u64, bug: Option<Bug>) -> SwarmCase {
    let case = SwarmCase::generate(seed);
    match bug {
        Some(bug) => case.with_bug(bug),
        None => case,
    }
}

fn print(mut seeds: Range<u64>, bug: Option<Bug>) -> Result<Exit> {
    seeds.try_for_each(|seed| output::print(&generate_case(seed, bug).to_toml()))?;
    Ok(Exit::Done)
}

fn swarm(seeds: Range<u64>, args: &SwarmArgs, figure: Option<SwarmFigure>) -> Result<Exit> {
    let jobs = args.jobs.count();
    let swarm = Swarm::new(seeds.clone());
    let began = Instant::now();
    let summary = progress::run_with_progress(&swarm, args.progress.mode(), || {
        swarm.run(jobs, |seed| generate_case(seed, args.bug))
    })?;
    let wall_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let is_whole = summary.cases == seeds.end - seeds.start;
    let bug = args.bug.map(bug_name);
    let told = SwarmOutput { summary: &summary, seeds, wall_ns, bug };
    output::print(&match figure {
        Some(figure) => format!("{}\n", figure.value(&summary, wall_ns)),
        None if args.output.json => format!("{}\n", out::json(&told)),
        None => out::text(&told),
    })?;
    Ok(match summary.findings.is_empty() {
        false => Exit::CheckFailed,
        true if is_whole => Exit::Done,
        true => Exit::Interrupted,
    })
}

/// Plants each bug in machine after machine until it is found.
fn find_planted_bugs(from: u64) -> Result<Exit> {
    let first = |(name, bug)| (name, bug, planted_bugs::first_found(bug, from));
    let found: Vec<_> = Bug::ALL.into_iter().map(first).collect();
    let is_right = |bug, checker| planted_bugs::expected_checker(bug) == checker;
    let right = found.iter().filter(|(_, bug, first)| {
        first.as_ref().is_some_and(|(_, finding)| is_right(*bug, finding.checker))
    });
    let right = right.count();
    let by_name = found.iter().map(|(name, _, first)| {
        let first = first.as_ref();
        let of = |(seed, finding): &(u64, nodeward_experiments::swarm::check::CheckFinding)| {
            json!({ "seed": seed, "checker": finding.checker.name() })
        };
        ((*name).to_owned(), first.map_or(json!(null), of))
    });
    let number = json!({
        "measured": right,
        "planted": found.len(),
        "found": by_name.collect::<serde_json::Map<_, _>>(),
    });
    output::print(&format!("{number}\n"))?;
    Ok(if right == found.len() { Exit::Done } else { Exit::CheckFailed })
}

impl ProgressSource for Swarm {
    fn done_of_total(&self) -> (u64, u64) {
        Self::done_of_total(self)
    }

    fn message(&self, _elapsed: Duration) -> String {
        let (done, total) = Self::done_of_total(self);
        format!("{done} of {total} machines, {} with findings", self.failed())
    }
}

impl StoppableWork for Swarm {
    const GRACE: Grace = Grace::Second;

    fn stop(&self) {
        Self::stop(self);
    }
}
