//! Charts of a run: locality, bandwidth and migrations over one time axis.

use anyhow::Result;
use nodeward_scenario::Scenario;
use nodeward_sim::{Point, SimReport, describe_action};

use crate::output::plot::{self, ChartLine, LineChart};

/// Draws three charts as SVG; actions are marked in all of them.
pub fn svg(scenario: &Scenario, report: &SimReport) -> Result<String> {
    let points = &report.curves.points;
    let marks = |words: bool| {
        let done = scenario.actions.iter().filter(|action| action.at_ns <= report.virtual_ns);
        let mark = |action: &nodeward_scenario::Action| {
            (seconds(action.at_ns), if words { describe_action(action) } else { String::new() })
        };
        done.map(mark).collect::<Vec<_>>()
    };
    let chart = |title: &str, unit, lines| LineChart {
        title: format!("{}: {title}", report.scenario),
        x_label: "seconds".to_owned(),
        unit,
        lines,
        marks: marks(false),
    };
    let mut locality = chart("lines from the own node", "%", vec![locality(points)]);
    locality.marks = marks(true);
    let bandwidth = chart("what memory delivers", "GB/s", bandwidth(report, points));
    let migrated = migrated(points, report.machine.page_bytes);
    let migrations = chart("memory that migrates", "MiB/s", vec![migrated]);
    plot::svg(&[], &[locality, bandwidth, migrations])
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Returns a line of differences between successive points; without points where a value is
/// unknown.
fn steps(points: &[Point], of: impl Fn(&Point, &Point) -> Option<f64>) -> Vec<(f64, f64)> {
    let step = |pair: &[Point]| Some((seconds(pair[1].at_ns), of(&pair[0], &pair[1])?));
    // All charts cover the whole axis: from the first point to the last.
    let first = points.first().zip(points.get(1));
    let begin = first.map(|(first, next)| (seconds(first.at_ns), of(first, next).unwrap_or(0.0)));
    begin.into_iter().chain(points.windows(2).filter_map(step)).collect()
}

fn locality(points: &[Point]) -> ChartLine {
    let share = |from: &Point, to: &Point| {
        let local = to.local_lines - from.local_lines;
        let all = local + to.remote_lines - from.remote_lines;
        (all > 0).then(|| local as f64 * 100.0 / all as f64)
    };
    ChartLine { name: "local".to_owned(), colour: 0, points: steps(points, share) }
}

fn bandwidth(report: &SimReport, points: &[Point]) -> Vec<ChartLine> {
    let line = |(colour, node): (usize, &nodeward_sim::NodeReport)| ChartLine {
        name: format!("node {}", node.node),
        colour,
        points: points
            .iter()
            .map(|point| (seconds(point.at_ns), point.nodes[colour].bytes_per_s as f64 / 1e9))
            .collect(),
    };
    report.nodes.iter().enumerate().map(line).collect()
}

fn migrated(points: &[Point], page_bytes: u64) -> ChartLine {
    let rate = |from: &Point, to: &Point| {
        let bytes = (to.migrated_pages - from.migrated_pages) * page_bytes;
        let took = seconds((to.at_ns - from.at_ns).max(1));
        Some(bytes as f64 / f64::from(1 << 20) / took)
    };
    ChartLine { name: "migrated".to_owned(), colour: 3, points: steps(points, rate) }
}
