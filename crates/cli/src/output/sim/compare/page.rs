//! The documentation page that the command generates.

use std::fmt::Write as _;

use anyhow::Result;
use nodeward_experiments::compare::{BalancerFigures, BalancerKind, CaseTable};

use super::{figures, goal_text, svg};
use crate::output::paragraph::{command_item, in_lines};

/// Text above the tables.
const HEAD: &str = include_str!("head.md");

/// Headers of the tables.
const SUMMARY: &str = "
| load | nothing | patches of 2012 | kernel | by hand | nodeward |
|---|---|---|---|---|---|
";
const COLUMNS: &str = "\
| balancer | local at the end | 90 % local from | pages moved | a minute, at the end | work | CPU |
|---|---|---|---|---|---|---|
";

/// Returns files by name: the page, and a picture for each load.
pub fn docs(tables: &[CaseTable]) -> Result<Vec<(String, String)>> {
    let mut page = HEAD.to_owned() + &summary(tables);
    let mut files = Vec::new();
    for table in tables {
        let picture = format!("balance-sim-{}.svg", table.name);
        page += &section(table, &picture);
        files.push((picture, svg(std::slice::from_ref(table))?));
    }
    files.push(("balance-sim.md".to_owned(), page));
    Ok(files)
}

/// Formats all loads in one table: local lines, pages and work of each balancer.
fn summary(tables: &[CaseTable]) -> String {
    let mut text = SUMMARY.to_owned();
    for table in tables {
        let cell = |by: &BalancerKind| table.figures_of(*by).map_or_else(|| "-".to_owned(), cell);
        let cells: Vec<_> = BalancerKind::ALL.iter().map(cell).collect();
        let _ = writeln!(text, "| {} | {} |", table.name, cells.join(" | "));
    }
    text
}

fn cell(entry: &BalancerFigures) -> String {
    let [local, home, pages, _, work, _] = figures(&entry.median);
    format!("{local}, {home}, {pages}, x {work}")
}

fn section(table: &CaseTable, picture: &str) -> String {
    let seconds = table.time_ns / 1_000_000_000;
    let about = in_lines(&format!("{}; {seconds} s.", table.about));
    let mut text = format!("\n## {}\n\n{about}\n\n{COLUMNS}", table.name);
    for entry in &table.entries {
        let figures = figures(&entry.median).join(" | ");
        let _ = writeln!(text, "| {} | {figures} |", entry.balancer.name());
    }
    text += "\n";
    for goal in &table.goals {
        let _ = writeln!(text, "- {}", goal_text(goal));
    }
    let _ = writeln!(text, "\n![local lines over time]({picture})\n");
    for entry in &table.entries {
        let more = match entry.balancer {
            BalancerKind::Hand => ", placed at its beginning",
            BalancerKind::Nodeward => ", balanced by `nodeward balance`",
            _ => "",
        };
        text += &command_item(entry.balancer.name(), &entry.command, more);
    }
    text
}
