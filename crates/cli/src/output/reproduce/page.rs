//! The documentation page that the command generates.

use std::fmt::Write as _;

use anyhow::Result;
use nodeward_experiments::reproduce::{ImprovementResult, RowResult, TableResult};

use super::plot::charts;
use super::{basis, expected, figure, gain};
use crate::output::paragraph::{command_item, in_lines};
use crate::output::plot;

/// Text above the tables.
const HEAD: &str = include_str!("head.md");

/// Headers of the tables.
const COLUMNS: &str = "\
| figure | seed | ours | ratio | basis | verdict | what shows the cause | why |
|---|---|---|---|---|---|---|---|
";
const BEYOND_COLUMNS: &str = "\
| with | figure | times as good | what it does |
|---|---|---|---|
";

/// Returns files by name: the page, and a picture for each table.
pub fn docs(results: &[TableResult]) -> Result<Vec<(String, String)>> {
    let mut page = HEAD.to_owned();
    let mut files = Vec::new();
    for table in results {
        let picture = format!("reproduce-{}.svg", table.name);
        page += &table_text(table, &picture);
        files.push((picture, plot::svg(&charts(table), &[])?));
    }
    files.push(("reproduce.md".to_owned(), page));
    Ok(files)
}

fn table_text(table: &TableResult, picture: &str) -> String {
    let mut text = format!(
        "\n## {}\n\n`nodeward reproduce {}`\n\n{}\n\n{COLUMNS}",
        table.title,
        table.name,
        in_lines(table.about)
    );
    for row in &table.rows {
        text += &row_text(row);
    }
    text += "\n";
    for fitted in &table.fitted {
        let _ = writeln!(
            text,
            "- fitted: `{}` = {}, on *{}*",
            fitted.parameter, fitted.value, fitted.on
        );
    }
    text += &table.beyond.as_ref().map_or(String::new(), improvement_section);
    let _ = writeln!(text, "\n![figures and additions]({picture})\n\nRuns:\n");
    for run in &table.runs {
        let driven = if run.driven { ", driven by the table" } else { "" };
        text += &command_item(run.name, &run.command, driven);
    }
    text
}

fn row_text(row: &RowResult) -> String {
    let [mut seed, mut ours] = [expected(row.expected, row.unit), figure(row.ours, row.unit)];
    if let Some((seed_before, ours_before)) = row.from {
        seed = format!("{} -> {seed}", figure(seed_before, row.unit));
        ours = format!("{} -> {ours}", figure(ours_before, row.unit));
    }
    let lacks = row.lacks.map_or(String::new(), |lacks| format!(" The model lacks: {lacks}"));
    format!(
        "| {} | {seed} | {ours} | {:.2} | {} | {} | {} | {}{lacks} |\n",
        row.name,
        row.ratio,
        basis(row),
        row.verdict.word(),
        row.counter,
        row.why,
    )
}

fn improvement_section(beyond: &ImprovementResult) -> String {
    let figure_of = in_lines(&format!("Beyond the seed: {}", beyond.figure));
    let mut text = format!("\n{figure_of}\n\n{BEYOND_COLUMNS}");
    for step in &beyond.steps {
        let figure = figure(step.ours, beyond.unit);
        let _ = writeln!(text, "| {} | {figure} | {} | {} |", step.name, gain(step), step.why);
    }
    let reached = if beyond.reached { "reached" } else { "not reached" };
    let goal = figure(beyond.goal.figure, beyond.unit);
    let goal = in_lines(&format!("Goal: {goal}, {}: {reached}.", beyond.goal.what));
    let _ = writeln!(text, "\n{goal}");
    text
}
