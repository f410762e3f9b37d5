//! Output of `nodeward sim compare`.

mod page;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use nodeward_experiments::compare::{
    BalancerFigures, CaseTable, CompareGoal, GoalMeasure, RunFigures,
};
use nodeward_model::{Escape as _, units};
use serde_json::{Value, json};

use crate::output::plot::{self, ChartLine, LineChart};

pub use page::docs;

/// Formats the tables for programs, with the file of nodeward's settings if there is one.
pub fn json(tables: &[CaseTable], settings: Option<&Path>) -> Value {
    let mut all = json!({ "schema": "nodeward.sim.compare/1", "cases": tables });
    if let Some(path) = settings {
        all["settings"] = path.escaped().to_string().into();
    }
    all
}

/// Formats the tables for people.
pub fn text(tables: &[CaseTable]) -> String {
    let tables: Vec<_> = tables.iter().map(table).collect();
    tables.join("\n")
}

fn table(table: &CaseTable) -> String {
    let mut text = format!("{}, {}\n", title(table), limit(table.time_ns));
    let columns = ["LOCAL", "TO 90 %", "PAGES", "A MIN, END", "WORK", "CPU"];
    text += &row("", &columns.map(str::to_owned));
    for entry in &table.entries {
        text += &row(entry.balancer.name(), &figures(&entry.median));
        if let Some(span) = &entry.span {
            text += &row("  least", &figures(&span.least));
            text += &row("  most", &figures(&span.most));
        }
    }
    if let Some(span) = table.entries.iter().find_map(|entry| entry.span) {
        let _ = writeln!(text, "  medians of {} seeds", span.runs);
    }
    for goal in &table.goals {
        let _ = writeln!(text, "  {}", goal_text(goal));
    }
    text
}

/// Formats a simulated time: most are whole seconds.
fn limit(ns: u64) -> String {
    match ns.is_multiple_of(1_000_000_000) {
        true => format!("{} s", ns / 1_000_000_000),
        false => units::format_ns(ns),
    }
}

/// Returns the name of a load, and what it is if it says that.
fn title(table: &CaseTable) -> String {
    match table.about.is_empty() {
        true => table.name.escaped().to_string(),
        false => format!("{}: {}", table.name.escaped(), table.about.escaped()),
    }
}

fn row(name: &str, figures: &[String; 6]) -> String {
    let [local, home, pages, end, work, cpu] = figures;
    format!("  {name:<16}{local:>10}{home:>10}{pages:>12}{end:>12}{work:>9}{cpu:>9}\n")
}

/// Formats the figures of a balancer: local lines, time to 90 %, pages, pages per minute at the
/// end, work, CPU time.
fn figures(entry: &RunFigures) -> [String; 6] {
    [
        permille(entry.local_milli),
        entry.home_ns.map_or_else(|| "never".to_owned(), seconds),
        entry.pages.to_string(),
        entry.pages_per_minute_at_end.to_string(),
        entry.work_milli.map_or_else(|| "-".to_owned(), factor),
        format!("{:.1} %", entry.cpu_ppm as f64 / 1e4),
    ]
}

/// Formats a goal: the required and the actual value, and whether that suffices.
fn goal_text(goal: &CompareGoal) -> String {
    let figure = |value: Option<u64>| match (goal.what, value) {
        (_, None) => "never".to_owned(),
        (
            GoalMeasure::Local | GoalMeasure::LocalAsKernel | GoalMeasure::LocalAsByHand,
            Some(value),
        ) => permille(value),
        (GoalMeasure::HomeAsKernel, Some(value)) => seconds(value),
        (GoalMeasure::PagesOfKernel, Some(value)) => value.to_string(),
        (GoalMeasure::Work, Some(value)) => factor(value),
    };
    let [ours, asked] = [goal.ours, goal.asked].map(figure);
    let reached = if goal.reached { "reached" } else { "NOT REACHED" };
    let what = match goal.what {
        GoalMeasure::Local => format!("at least {asked} local"),
        GoalMeasure::LocalAsKernel => format!("at least as local as the kernel's, {asked}"),
        GoalMeasure::LocalAsByHand => format!("at least {asked} local, 2 points less than by hand"),
        GoalMeasure::HomeAsKernel => format!("90 % local no later than the kernel's, {asked}"),
        GoalMeasure::PagesOfKernel => format!("at most {asked} pages, as asked of the kernel's"),
        GoalMeasure::Work => format!("at least {asked} of the work without a balancer"),
    };
    format!("{what}: {ours}, {reached}")
}

fn permille(milli: u64) -> String {
    format!("{:.1} %", milli as f64 / 10.0)
}

fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

fn factor(milli: u64) -> String {
    format!("{:.3}", milli as f64 / 1e3)
}

/// Draws the share of local lines over time, a chart for each case.
pub fn svg(tables: &[CaseTable]) -> Result<String> {
    let charts: Vec<_> = tables.iter().map(chart).collect();
    plot::svg(&[], &charts)
}

fn chart(table: &CaseTable) -> LineChart {
    let line = |entry: &BalancerFigures| ChartLine {
        name: entry.balancer.name().to_owned(),
        colour: entry.balancer as usize,
        points: entry.curve.clone(),
    };
    LineChart {
        title: format!("{}: lines from the own node", table.name.escaped()),
        x_label: "seconds".to_owned(),
        unit: "%",
        lines: table.entries.iter().map(line).collect(),
        marks: Vec::new(),
    }
}
