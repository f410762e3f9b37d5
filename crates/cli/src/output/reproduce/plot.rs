//! Ours beside the seeds', and what nodeward adds.

use anyhow::Result;
use nodeward_reproduce::{BeyondResult, RowResult, TableResult};

use super::{figure, gain};
use crate::output::plot::{self, Bar, Bars};

/// Letters of a row of words below a bar.
const WIDTH: usize = 11;
/// Colours of what the seed has, and of what is ours.
const SEED: usize = 0;
const OURS: usize = 2;

/// All tables in one picture.
pub fn svg(results: &[TableResult]) -> Result<String> {
    let bars: Vec<_> = results.iter().flat_map(charts).collect();
    plot::svg(&bars, &[])
}

/// A table as charts: figures as parts of the seed's, and the additions.
pub fn charts(table: &TableResult) -> Vec<Bars> {
    let rows = table.rows.iter().map(row_bar).collect();
    let rows = Bars {
        title: format!("{}: ours as a multiple of the figure that was measured", table.title),
        unit: "times",
        bars: rows,
    };
    let additions = table.beyond.iter().map(|beyond| additions(table, beyond));
    [rows].into_iter().chain(additions).collect()
}

fn row_bar(row: &RowResult) -> Bar {
    let shown = figure(row.ours, row.unit);
    Bar { value: row.ratio.min(3.0), shown, colour: OURS, words: words(&row.name) }
}

fn additions(table: &TableResult, beyond: &BeyondResult) -> Bars {
    let bars = beyond.steps.iter().enumerate().map(|(index, step)| Bar {
        value: step.ours,
        shown: format!("{} {}", figure(step.ours, beyond.unit), gain(step)),
        colour: if index == 0 { SEED } else { OURS },
        words: words(step.name),
    });
    Bars {
        title: format!("{}: beyond the seed, {}", table.title, beyond.figure),
        unit: beyond.unit.sign(),
        bars: bars.collect(),
    }
}

/// Words in lines that fit below a bar, four at most.
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
