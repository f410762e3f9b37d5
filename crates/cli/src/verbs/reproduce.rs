//! `nodeward reproduce`: simulations of what five documents measured.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use nodeward_experiments::reproduce::{DocumentTable, TableResult, documents, run_all};

use crate::args::ReproduceArgs;
use crate::figures::ReproduceFigure;
use crate::message::exit::Exit;
use crate::output;
use crate::output::reproduce as out;
use crate::progress::{self, SeriesProgress};

/// Simulates, prints, and reports by the exit code whether all figures are within their tolerance.
pub fn run(args: &ReproduceArgs) -> Result<Exit> {
    if args.figure == Some(ReproduceFigure::Beyond) && args.tables.len() != 1 {
        bail!("name one table with --figure beyond, such as 2004");
    }
    let began = Instant::now();
    let results = results(args)?;
    if let Some(figure) = args.figure {
        output::print(&format!(
            "{}\n",
            figure.value(&results, &missed_goals(&results), began.elapsed())
        ))?;
        return Ok(Exit::Done);
    }
    if let Some(path) = &args.plot {
        output::write_result(path, &out::svg(&results)?)?;
    }
    if let Some(directory) = &args.docs {
        write_docs(directory, &results)?;
    }
    output::print(&match args.output.json {
        true => format!("{}\n", out::json(&results)),
        false => out::text(&results),
    })?;
    Ok(if missed_goals(&results).is_empty() { Exit::Done } else { Exit::Mismatch })
}

fn results(args: &ReproduceArgs) -> Result<Vec<TableResult>> {
    let is_meant = |table: &DocumentTable| {
        args.tables.is_empty() || args.tables.iter().any(|name| name == table.name)
    };
    let tables: Vec<_> = documents::all().into_iter().filter(is_meant).collect();
    let total = tables.iter().map(|table| table.runs.len() as u64).sum();
    let live = SeriesProgress::new(total);
    let jobs = args.jobs.count();
    let runs = progress::show_progress(&live, args.progress.mode(), || {
        run_all(&tables, jobs, &live.watch)
    })??;
    Ok(tables.iter().zip(&runs).map(|(table, runs)| table.judge(runs)).collect())
}

/// Returns the rows outside their tolerance and the missed goals, by name.
fn missed_goals(results: &[TableResult]) -> Vec<String> {
    let of = |table: &TableResult| {
        let rows = table.rows_outside().map(|row| format!("{}: {}", table.name, row.name));
        let goal = table.beyond.iter().filter(|beyond| !beyond.reached);
        let goal = goal.map(|beyond| format!("{}: {}", table.name, beyond.goal.what));
        rows.chain(goal).collect::<Vec<_>>()
    };
    results.iter().flat_map(of).collect()
}

fn write_docs(directory: &Path, results: &[TableResult]) -> Result<()> {
    for (name, text) in out::docs(results)? {
        output::write_result(&directory.join(name), &text)?;
    }
    Ok(())
}
