//! Formats the table as text.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table as Grid};

use crate::median_range::MedianRange;
use crate::table::{CompareRow, CompareTable, RowFigures};

const HEADS: [&str; 10] = [
    "workload",
    "balancer",
    "local %",
    "over time",
    "at the end %",
    "90 % after s",
    "pages moved",
    "CPU %",
    "took s",
    "work",
];
/// Levels from none to all of the misses.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Most bytes of a line of a document.
const LINE_MAX: usize = 118;

/// Formats the table for a terminal, with notes below it.
pub fn text(table: &CompareTable) -> String {
    let notes = notes(table).iter().map(|note| format!("{note}\n")).collect::<String>();
    format!("{}\n{notes}", grid(table, NOTHING))
}

/// Formats the table in the style of a preset.
pub fn grid(table: &CompareTable, preset: &str) -> Grid {
    let mut grid = Grid::new();
    grid.load_preset(preset).set_header(HEADS);
    for column in grid.column_iter_mut().skip(2).filter(|column| column.index != 3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in &table.rows {
        grid.add_row(cells_of(row));
    }
    grid
}

/// Breaks a line of a list between words.
pub fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && line.len() + 1 + word.len() > LINE_MAX {
            lines += &line;
            lines += "\n";
            line = " ".to_owned(); // what goes on in a list is indented by two
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines + &line
}

/// Returns the notes below the table: invalid runs, and why.
pub fn notes(table: &CompareTable) -> Vec<String> {
    table.rows.iter().flat_map(|row| [idle(row), failed(row), disagreed(row)]).flatten().collect()
}

fn idle(row: &CompareRow) -> Option<String> {
    let CompareRow { workload, balancer, runs, idle_runs, .. } = row;
    let note = format!("{workload}, {balancer}: moved no page in {idle_runs} of {runs} runs");
    (*idle_runs > 0).then_some(note)
}

fn failed(row: &CompareRow) -> Option<String> {
    let CompareRow { workload, balancer, failure, .. } = row;
    let last = failure.as_ref()?.lines().last().unwrap_or_default();
    Some(format!("{workload}, {balancer}: failed: {last}"))
}

fn disagreed(row: &CompareRow) -> Option<String> {
    let CompareRow { workload, balancer, cells, .. } = row;
    let cells = cells.as_ref()?;
    let more = cells.told_more.filter(|more| more.least != 0.0 || more.most != 0.0)?;
    let more = spread(more, 0);
    Some(format!("{workload}, {balancer}: says that it moved {more} more pages than the kernel"))
}

fn cells_of(row: &CompareRow) -> Vec<String> {
    let mut words = vec![row.workload.clone(), row.balancer.clone()];
    if let Some(cells) = &row.cells {
        words.extend(figures(cells));
    }
    words
}

fn figures(cells: &RowFigures) -> [String; 8] {
    let maybe = |figure: Option<MedianRange>, digits| {
        figure.map_or_else(|| "-".to_owned(), |figure| spread(figure, digits))
    };
    [
        maybe(cells.local, 1),
        cells.parts.iter().map(|&part| level(part)).collect(),
        maybe(cells.settled, 1),
        maybe(cells.to_90_s, 1),
        spread(cells.pages, 0),
        spread(cells.cpu, 1),
        spread(cells.took_s, 1),
        maybe(cells.work, 2),
    ]
}

/// Formats `median (least-most)`, or one figure if they are equal.
fn spread(spread: MedianRange, digits: usize) -> String {
    let shown = |figure: f64| match figure.is_finite() {
        true => format!("{figure:.digits$}"),
        false => "never".to_owned(),
    };
    let [median, least, most] = [spread.median, spread.least, spread.most].map(shown);
    match least == most {
        true => median,
        false => format!("{median} ({least}-{most})"),
    }
}

/// Returns a bar with the height of a percentage.
pub fn level(percent: Option<f64>) -> char {
    let step = |percent: f64| (percent / 100.0 * LEVELS.len() as f64) as usize;
    percent.map_or('·', |percent| LEVELS[step(percent).min(LEVELS.len() - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::sample;

    /// Goal: the table and its notes read as they should.
    #[test]
    fn a_table() {
        insta::assert_snapshot!(text(&sample().1));
    }

    /// Goal: bars cover the whole range.
    #[test]
    fn bars() {
        let bars = [None, Some(0.0), Some(12.0), Some(50.0), Some(99.0), Some(100.0)];
        assert_eq!(bars.map(level), ['·', '▁', '▁', '▅', '█', '█']);
    }
}
