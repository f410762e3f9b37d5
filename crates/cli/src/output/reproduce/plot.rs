//! Charts of our figures beside the seeds', and of nodeward's additions.

use anyhow::Result;
use nodeward_experiments::reproduce::{
    Basis, ImprovementResult, RowKind, RowResult, RowVerdict, TableResult,
};

use super::{figure, gain};
use crate::output::plot::{self, BarChart, ChartBar};

/// Characters in a label line below a bar.
const WIDTH: usize = 11;
/// Bars in a chart.
const BARS: usize = 12;
/// The highest bar: larger ratios would make the others small.
const RATIO_MAX: f64 = 3.0;
/// Colours of bars, as on the page: blue, green, sky blue, vermilion.
const CALIBRATED: usize = 0;
const PREDICTED: usize = 2;
const HOLD_OUT: usize = 4;
const FAR_OFF: usize = 3;

/// Draws all tables in one picture.
pub fn svg(results: &[TableResult]) -> Result<String> {
    let bars: Vec<_> = results.iter().flat_map(charts).collect();
    plot::svg(&bars, &[])
}

/// Returns the charts of a table: figures relative to the seed's, and the additions.
pub fn charts(table: &TableResult) -> Vec<BarChart> {
    let rows = table.rows.chunks(BARS).map(|rows| BarChart {
        title: format!("{}: ours as a multiple of what was measured", table.title),
        unit: "times",
        bars: rows.iter().map(row_bar).collect(),
    });
    let additions = table.beyond.iter().map(|beyond| additions(table, beyond));
    rows.chain(additions).collect()
}

fn row_bar(row: &RowResult) -> ChartBar {
    let shown = figure(row.ours, row.unit);
    let colour = match (row.verdict, row.kind, row.basis) {
        (RowVerdict::Explained | RowVerdict::Outside, ..) => FAR_OFF,
        (_, _, Basis::Calibrated(_)) => CALIBRATED,
        (_, RowKind::HoldOut, _) => HOLD_OUT,
        _ => PREDICTED,
    };
    ChartBar {
        value: row.ratio.min(RATIO_MAX),
        value_label: shown,
        colour,
        labels: words(&row.name),
    }
}

fn additions(table: &TableResult, beyond: &ImprovementResult) -> BarChart {
    let bars = beyond.steps.iter().enumerate().map(|(index, step)| ChartBar {
        value: step.ours,
        value_label: format!("{} {}", figure(step.ours, beyond.unit), gain(step)),
        colour: if index == 0 { CALIBRATED } else { PREDICTED },
        labels: words(step.name),
    });
    BarChart {
        title: format!("{}: beyond the seed, {}", table.title, beyond.figure),
        unit: beyond.unit.symbol(),
        bars: bars.collect(),
    }
}

/// Wraps a label into lines that fit below a bar, four at most.
fn words(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut().filter(|line| line.len() + word.len() < WIDTH) {
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines.truncate(4);
    lines
}
