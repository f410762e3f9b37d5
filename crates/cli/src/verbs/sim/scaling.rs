//! `nodeward sim scaling`: how moves scale on simulated machines.

use anyhow::Result;
use nodeward_experiments::scaling::{CURVES, ScalingCurve, ScalingResult, run_all};

use crate::args::ScalingArgs;
use crate::message::exit::Exit;
use crate::output;
use crate::output::sim::scaling as out;
use crate::progress::{self, SeriesProgress};

/// Simulates and prints.
pub fn run(args: &ScalingArgs) -> Result<Exit> {
    let results = results(args)?;
    if let Some(path) = &args.plot {
        output::write_result(path, &out::svg(&results)?)?;
    }
    if let Some(directory) = &args.docs {
        for (name, text) in out::docs(&results)? {
            output::write_result(&directory.join(name), &text)?;
        }
    }
    output::print(&match args.output.json {
        true => format!("{}\n", out::json(&results)),
        false => out::text(&results),
    })?;
    Ok(Exit::Done)
}

fn results(args: &ScalingArgs) -> Result<Vec<ScalingResult>> {
    let is_meant = |curve: &&ScalingCurve| {
        args.curves.is_empty() || args.curves.iter().any(|name| name == curve.name)
    };
    let curves: Vec<_> = CURVES.iter().filter(is_meant).collect();
    let mut counts = args.counts.clone();
    counts.sort_unstable();
    counts.dedup();
    let points = curves.iter().map(|curve| curve.counts(&counts).count() as u64);
    let live = SeriesProgress::new(points.sum());
    let jobs = args.jobs.count();
    progress::show_progress(&live, args.progress.mode(), || {
        run_all(&curves, &counts, jobs, &live.watch)
    })?
}
