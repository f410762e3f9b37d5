//! Runs the scenarios of all tables in parallel.

use anyhow::{Context as _, Result};

use crate::parallel::{ParallelProgress, parallel_map};
use crate::reproduce::figure_table::DocumentTable;
use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

/// Runs all runs of all tables, `jobs` at a time. Returns the outcomes table by table.
///
/// # Errors
///
/// If a run fails, or after a stop.
pub fn run_all(
    tables: &[DocumentTable],
    jobs: usize,
    watch: &ParallelProgress,
) -> Result<Vec<RunOutcomes>> {
    let whole = |(index, table): (usize, &DocumentTable)| {
        table.runs.iter().map(move |run| (index, run.clone())).collect::<Vec<_>>()
    };
    let queue: Vec<_> = tables.iter().enumerate().flat_map(whole).collect();
    let outcome = |(_, run): &(usize, ScenarioRun)| {
        run.simulate().with_context(|| format!("run {}", run.name))
    };
    let outcomes = parallel_map(&queue, jobs, watch, outcome);
    let mut all: Vec<_> = tables.iter().map(|_| RunOutcomes::default()).collect();
    for ((table, run), outcome) in queue.iter().zip(outcomes) {
        all[*table].insert(run.name, outcome?);
    }
    Ok(all)
}
