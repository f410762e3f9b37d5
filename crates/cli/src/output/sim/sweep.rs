//! Output of a sweep: its points, its rows, and a picture.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use nodeward_model::Escape as _;
use nodeward_model::Name;
use nodeward_model::units::{self, format_ns};
use nodeward_scenario::Axis;
use serde_json::{Map, Value, json};

use crate::output::plot::{self, ChartLine, LineChart};
use crate::results::sweep::{IDENTITY_COLUMNS, SweepPlan, SweepResult, SweepRow, value};

/// Maximum number of lines in a picture: more cannot be distinguished.
const LINES_MAX: usize = 12;
/// Columns that are the same in all rows, or that only files have.
const NOT_SHOWN: [&str; 2] = ["of", "sweep"];

/// Formats a sweep for people: its rows, if they are not in a file, and a summary.
pub fn text(plan: &SweepPlan, swept: &SweepResult, file: Option<&Path>) -> String {
    let there = swept.rows.len();
    let table = if file.is_none() { table(&plan.columns, &swept.rows) } else { String::new() };
    let more = match swept.resumed_rows {
        0 => String::new(),
        held => format!(", {held} of them before"),
    };
    let place = file.map_or(String::new(), |file| format!(": {}", file.escaped()));
    let resume = match (there < swept.total, file) {
        (false, _) => "",
        (true, None) => "interrupted; ",
        (true, Some(_)) => "interrupted, --resume goes on; ",
    };
    let took = format_ns(swept.wall_ns);
    let (total, jobs) = (swept.total, swept.jobs);
    format!("{table}{resume}{there} of {total} points{more}, in {took} with --jobs {jobs}{place}\n")
}

/// Formats a sweep for programs.
pub fn json(plan: &SweepPlan, swept: &SweepResult, file: Option<&Path>) -> Value {
    json!({
        "schema": "nodeward.sim-sweep/1",
        "sweep": plan.id,
        "points": plan.grid.points(),
        "selected": swept.total,
        "done": swept.rows.len(),
        "done_before": swept.resumed_rows,
        "jobs": swept.jobs,
        "wall_ns": swept.wall_ns,
        "file": file.map(Name::from),
        "rows": if file.is_none() { objects(&plan.columns, &swept.rows) } else { Value::Null },
    })
}

/// Formats the points of a sweep that does not run.
pub fn points(plan: &SweepPlan, points: &[SweepRow]) -> String {
    let table = table(&plan.columns[..plan.first_measure()], points);
    let measures = plan.columns[plan.first_measure()..].join(", ");
    format!("{table}{} of {} points; figures: {measures}\n", points.len(), plan.grid.points())
}

/// Formats the points for programs.
pub fn points_json(plan: &SweepPlan, points: &[SweepRow]) -> Value {
    json!({
        "schema": "nodeward.sim-sweep-points/1",
        "sweep": plan.id,
        "points": objects(&plan.columns[..plan.first_measure()], points),
        "measures": &plan.columns[plan.first_measure()..],
    })
}

fn objects(columns: &[String], rows: &[SweepRow]) -> Value {
    let object = |row: &SweepRow| {
        let fields = columns.iter().zip(row).map(|(name, cell)| (name.clone(), value(name, cell)));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    rows.iter().map(object).collect()
}

/// Formats rows below the names of their columns, without columns that are always empty.
fn table(columns: &[String], rows: &[SweepRow]) -> String {
    let is_shown = |&place: &usize| {
        let name = columns[place].as_str();
        !NOT_SHOWN.contains(&name) && rows.iter().any(|row| !row[place].is_empty())
    };
    let shown: Vec<_> = (0..columns.len()).filter(is_shown).collect();
    let width = |place: usize| {
        let cells = rows.iter().map(|row| row[place].chars().count());
        cells.chain([columns[place].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<_> = shown.iter().map(|&place| width(place)).collect();
    let line = |row: &SweepRow| {
        let cells = shown.iter().zip(&widths).map(|(&place, &width)| {
            let cell = if row[place].is_empty() { "-" } else { &row[place] };
            format!("{cell:>width$}")
        });
        cells.collect::<Vec<_>>().join("  ") + "\n"
    };
    if rows.is_empty() {
        return String::new();
    }
    line(&columns.to_vec()) + &rows.iter().map(line).collect::<String>()
}

/// Checks that a picture would be readable.
///
/// # Errors
/// If it would have too many lines.
pub fn check_plot(plan: &SweepPlan) -> Result<()> {
    let lines: usize = plan.grid.axes().iter().skip(1).map(|axis| axis.values().len()).product();
    ensure!(
        lines <= LINES_MAX,
        "--plot would draw {lines} lines; expected {LINES_MAX} at most: fewer values for the keys \
         after the first"
    );
    Ok(())
}

/// Draws the first figure over the first key: a line for each combination of the other keys, each
/// point the mean of the available seeds.
pub fn svg(plan: &SweepPlan, rows: &[SweepRow]) -> Result<String> {
    let (first, measure) = (IDENTITY_COLUMNS.len(), plan.first_measure());
    let axes = plan.grid.axes();
    let Some(across) = axes.first() else { return plot::svg(&[], &[]) };
    let places = x_positions(across);
    let mut lines: BTreeMap<usize, BTreeMap<usize, Vec<f64>>> = BTreeMap::new();
    let others: usize = axes.iter().skip(1).map(|axis| axis.values().len()).product();
    for row in rows {
        let (Ok(number), Ok(height)) = (row[0].parse::<usize>(), row[measure].parse()) else {
            continue;
        };
        let combination = number / plan.grid.seeds().len();
        let line = lines.entry(combination % others).or_default();
        line.entry(combination / others).or_default().push(height);
    }
    let mean = |heights: &Vec<f64>| heights.iter().sum::<f64>() / heights.len() as f64;
    let lines = lines.into_iter().map(|(other, points)| {
        let values = plan.identity(other * plan.grid.seeds().len());
        let names = axes.iter().zip(&values[first..]).skip(1);
        let names: Vec<_> = names.map(|(axis, value)| format!("{}={value}", axis.key())).collect();
        let mut points: Vec<_> =
            points.iter().map(|(&place, heights)| (places[place], mean(heights))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        ChartLine { name: names.join(" "), colour: other, points }
    });
    let chart = LineChart {
        title: format!("{} over {}", plan.columns[measure], across.key()),
        x_label: across.key().to_owned(),
        unit: "",
        lines: lines.collect(),
        marks: Vec::new(),
    };
    plot::svg(&[], &[chart])
}

/// Returns the positions of an axis's values: as numbers, bytes or nanoseconds, whichever fits all
/// of them, or else consecutively from 1.
fn x_positions(axis: &Axis) -> Vec<f64> {
    let all = |read: fn(&str) -> Option<f64>| {
        axis.values().iter().map(|value| read(value)).collect::<Option<Vec<_>>>()
    };
    all(|value| value.parse().ok().filter(|number: &f64| number.is_finite()))
        .or_else(|| all(|value| units::parse_rate(value).ok().map(|bytes| bytes as f64)))
        .or_else(|| all(|value| units::parse_duration_ns(value).ok().map(|ns| ns as f64)))
        .unwrap_or_else(|| (1..=axis.values().len()).map(|place| place as f64).collect())
}
