//! Output of `nodeward reproduce`, as text, as JSON, as pictures and as a page.

mod page;
mod plot;

use std::fmt::Write as _;

use nodeward_experiments::reproduce::{
    Basis, Expected, FigureUnit, ImprovementResult, RowKind, RowResult, StepResult, TableResult,
};
use serde_json::{Value, json};

pub use page::docs;
pub use plot::svg;

/// Formats the tables for programs.
pub fn json(results: &[TableResult]) -> Value {
    json!({ "schema": "nodeward.reproduce/1", "tables": results })
}

/// Formats the tables for people.
pub fn text(results: &[TableResult]) -> String {
    let tables: Vec<_> = results.iter().map(table).collect();
    tables.join("\n")
}

fn table(table: &TableResult) -> String {
    let mut text = format!(
        "{}: {}\n  {:<52}{:>16}{:>12}{:>8}  {:<12}{}\n",
        table.name, table.title, "", "SEED", "OURS", "RATIO", "", "VERDICT"
    );
    for row in &table.rows {
        text += &row_text(row);
    }
    for fitted in &table.fitted {
        let _ =
            writeln!(text, "  fitted: {} = {}, on {}", fitted.parameter, fitted.value, fitted.on);
    }
    text + &table.beyond.as_ref().map_or(String::new(), improvement_text)
}

fn row_text(row: &RowResult) -> String {
    let mut text = format!(
        "  {:<52}{:>16}{:>12}{:>7.2}x  {:<12}{}\n",
        row.name,
        expected(row.expected, row.unit),
        figure(row.ours, row.unit),
        row.ratio,
        basis(row),
        row.verdict.word(),
    );
    if let Some((seed, ours)) = row.from {
        let [seed, ours] = [seed, ours].map(|value| figure(value, row.unit));
        let _ = writeln!(text, "    {:<50}{seed:>16}{ours:>12}", "before");
    }
    for words in [row.counter.as_str(), row.why].into_iter().filter(|words| !words.is_empty()) {
        let _ = writeln!(text, "    {words}");
    }
    if let Some(lacks) = row.lacks {
        let _ = writeln!(text, "    the model lacks: {lacks}");
    }
    text
}

fn improvement_text(beyond: &ImprovementResult) -> String {
    let mut text = format!("  beyond the seed: {}\n", beyond.figure);
    for step in &beyond.steps {
        let _ = writeln!(
            text,
            "    {:<50}{:>16}{:>12}  {}",
            step.name,
            figure(step.ours, beyond.unit),
            gain(step),
            step.why
        );
    }
    let reached = if beyond.reached { "reached" } else { "NOT REACHED" };
    let goal = figure(beyond.goal.figure, beyond.unit);
    let _ = writeln!(text, "    goal: {goal}, {}: {reached}", beyond.goal.what);
    text
}

/// Formats the improvement over the step before.
fn gain(step: &StepResult) -> String {
    step.gain.map_or(String::new(), |gain| format!("{gain:.2}x"))
}

/// Returns the basis of a figure, in a word.
fn basis(row: &RowResult) -> &'static str {
    match (row.kind, row.basis) {
        (_, Basis::Calibrated(_)) => "calibrated",
        (RowKind::HoldOut, _) => "hold-out",
        _ => "predicted",
    }
}

fn expected(expected: Expected, unit: FigureUnit) -> String {
    match expected {
        Expected::One(value) => figure(value, unit),
        Expected::Between(least, most) => {
            format!("{}-{}", digits(least), figure(most, unit))
        }
    }
}

fn figure(value: f64, unit: FigureUnit) -> String {
    let sign = unit.symbol();
    let gap = if matches!(unit, FigureUnit::Times | FigureUnit::Count) { "" } else { " " };
    format!("{}{gap}{sign}", digits(value))
}

/// Formats a number with at least three digits.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.places$}")
}
