//! `nodeward sim sweep`: a scenario at every point of a grid.

mod file;
mod merge;
mod runner;

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use nodeward_model::Escape as _;
use nodeward_scenario::Shard;

use crate::args::SweepArgs;
use crate::message::exit::Exit;
use crate::output::sim::sweep as out;
use crate::results::sweep::{SweepPlan, SweepResult};
use crate::{output, progress};
use file::RowFile;
use runner::SweepProgress;

/// Simulates the remaining points, and prints; or only lists them, or merges files.
pub fn run(args: &SweepArgs) -> Result<Exit> {
    let Some(name) = &args.scenario else {
        let text = merge::merged(&args.merge)?;
        return print_or_write(&text, args.out.as_deref());
    };
    let plan = SweepPlan::new(name, args)?;
    let numbers: Vec<_> = args.shard.unwrap_or(Shard::WHOLE).numbers(plan.grid.points()).collect();
    if args.plot.is_some() {
        out::check_plot(&plan)?;
    }
    if args.dry_run {
        let points: Vec<_> = numbers.iter().map(|&number| plan.identity(number)).collect();
        output::print(&match args.output.json {
            true => format!("{}\n", out::points_json(&plan, &points)),
            false => out::points(&plan, &points),
        })?;
        return Ok(Exit::Done);
    }
    let swept = sweep(&plan, &numbers, args)?;
    if let Some(path) = &args.plot {
        let picture = out::svg(&plan, &swept.rows)?;
        output::write_result(path, &picture)?;
    }
    output::print(&match args.output.json {
        true => format!("{}\n", out::json(&plan, &swept, args.out.as_deref())),
        false => out::text(&plan, &swept, args.out.as_deref()),
    })?;
    Ok(if swept.rows.len() < swept.total { Exit::Interrupted } else { Exit::Done })
}

fn sweep(plan: &SweepPlan, numbers: &[usize], args: &SweepArgs) -> Result<SweepResult> {
    let began = Instant::now();
    let opened = args.out.as_deref().map(|path| RowFile::open(path, plan, numbers, args.resume));
    let (mut file, mut rows) =
        opened.transpose()?.map_or((None, Vec::new()), |(file, rows)| (Some(file), rows));
    let held = rows.len();
    let live = SweepProgress::new(held, numbers.len());
    let jobs = args.jobs.count();
    progress::run_with_progress(&live, args.progress.mode(), || {
        runner::run_in_order(plan, &numbers[held..], jobs, &live, |row| {
            file.as_mut().map_or(Ok(()), |file| file.add(plan, &row))?;
            rows.push(row);
            Ok(())
        })
    })??;
    let wall_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(SweepResult { rows, resumed_rows: held, total: numbers.len(), jobs, wall_ns })
}

/// Writes a new file, never over an existing one, or prints.
fn print_or_write(text: &str, path: Option<&Path>) -> Result<Exit> {
    let Some(path) = path else { return output::print(text).map(|()| Exit::Done) };
    if path.exists() {
        bail!("{} is there; give another --out", path.escaped());
    }
    output::write_result(path, text)?;
    Ok(Exit::Done)
}
