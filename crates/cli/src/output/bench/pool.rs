//! Results of `nodeward bench pool`.

use std::fmt::Write as _;

use anyhow::Result;
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_proof::{
    PeriodVisits, PoolCell, PoolContender, PoolPlan, PoolReport, PoolSample, PoolTimeline,
};
use serde_json::{Value, json};

use super::threads;
use crate::output::plot::{self, BarChart, ChartBar, ChartLine, LineChart};

/// Formats the measurement for people.
pub fn text(plan: &PoolPlan, report: &PoolReport) -> String {
    let mut text = format!(
        "each thread takes {}, touches every page and frees all of it, again and again\n\
         x: times as fast, in turns; VISITS: of the zone, for a million pages; latency: until the \
         first\nword of a run is written, in a pass of its own, {} of it two reads of the clock\n",
        format_bytes(plan.bytes as u64),
        format_ns(report.clock_ns),
    );
    if plan.huge {
        text += "pools have huge pages for all runs\n";
    }
    for missing in &report.not_built_in {
        let _ = writeln!(text, "{missing}: not built in; build nodeward with the feature peers");
    }
    for group in groups(&report.cells) {
        text += &group_text(group);
    }
    for timeline in &report.timelines {
        text += &course_text(timeline);
    }
    for flow in &report.pure {
        let _ = write!(
            text,
            "\n{}: {} pages allocated on one CPU and freed on another\n  pcp_high: {} at first, {} \
             at most\n",
            flow.contender, flow.pages, flow.pcp_high_default, flow.pcp_high_max,
        );
    }
    let dirty = report.dirty_bytes();
    text + &format!("\nbytes that should have been zero and were not: {dirty}\n")
}

/// Formats the measurement for programs.
pub fn json(plan: &PoolPlan, report: &PoolReport) -> Value {
    json!({
        "schema": "nodeward.bench-pool/1",
        "bytes_per_thread": plan.bytes,
        "huge": plan.huge,
        "report": report,
    })
}

/// Draws speeds as bars, and the pages held by pools over time as lines, as SVG.
pub fn svg(report: &PoolReport) -> Result<String> {
    let kinds = |cell: &PoolCell| (cell.order, cell.zeroed);
    let mut cells: Vec<_> = report.cells.iter().collect();
    cells.sort_by_key(|&cell| kinds(cell)); // stable: threads and contenders stay in order
    let bars = cells.chunk_by(|one, other| kinds(one) == kinds(other)).map(bars);
    let lines = report.timelines.iter().map(lines);
    plot::svg(&bars.collect::<Vec<_>>(), &lines.collect::<Vec<_>>())
}

/// Maximum number of points in a line: the width of the picture in pixels.
const POINTS_MAX: usize = 600;

/// Groups cells with the same work.
fn groups(cells: &[PoolCell]) -> impl Iterator<Item = &[PoolCell]> {
    let work = |cell: &PoolCell| (cell.threads, cell.order, cell.zeroed);
    cells.chunk_by(move |one, other| work(one) == work(other))
}

fn runs(cell: &PoolCell) -> String {
    let zeroed = if cell.zeroed { ", zeroed" } else { "" };
    format!("runs of order {}{zeroed}", cell.order)
}

fn group_text(cells: &[PoolCell]) -> String {
    let mut text = String::new();
    if let Some(first) = cells.first() {
        let _ = writeln!(text, "\n{}, {}", threads(first.threads), runs(first));
    }
    let _ = writeln!(
        text,
        "  {:<12}{:>13}{:>9}{:>11}{:>11}{:>9}{:>10}{:>10}",
        "", "SPEED", "xKERNEL", "xMIMALLOC", "xJEMALLOC", "VISITS", "P50", "P99"
    );
    for cell in cells {
        let times = |other| {
            let ratio = cell.times_as_fast.get(&other);
            ratio.map_or("-".to_owned(), |ratio| format!("{:.2}", ratio.median))
        };
        let [kernel, mimalloc, jemalloc] = PoolContender::REFERENCES.map(times);
        let visits = cell.zone_visits_per_million.map_or("-".to_owned(), |v| format!("{v:.0}"));
        let _ = writeln!(
            text,
            "  {:<12}{:>13}{kernel:>9}{mimalloc:>11}{jemalloc:>11}{visits:>9}{:>10}{:>10}",
            cell.contender,
            format!("{}/s", format_bytes(cell.bytes_per_s)),
            format_ns(cell.latency.p50_ns),
            format_ns(cell.latency.p99_ns),
        );
    }
    text
}

fn course_text(timeline: &PoolTimeline) -> String {
    let per_million = |visits: &PeriodVisits| format!("{:.0}", visits.per_million);
    let all =
        |visits: &[PeriodVisits]| visits.iter().map(per_million).collect::<Vec<_>>().join(" ");
    let idle = match timeline.idle_periods {
        Some(periods) => format!("{periods:.1} periods after the load"),
        None => "not while it was looked at".to_owned(),
    };
    format!(
        "\n{} over time: {}, runs of order 0, periods of {}\n  \
         visits for a million pages, pass by pass after the first: {}\n  \
         period by period: {}\n  \
         memory: {} held at most, {:.2} of what was in use; let go {idle}\n",
        timeline.contender,
        threads(timeline.threads),
        format_ns(timeline.period_ns),
        all(&timeline.after_one_pass),
        all(&timeline.busy),
        format_bytes(timeline.peak_held_bytes),
        timeline.held_share(),
    )
}

fn bars(cells: &[&PoolCell]) -> BarChart {
    let bar = |cell: &&PoolCell| {
        let gib = cell.bytes_per_s as f64 / f64::from(1 << 30);
        ChartBar {
            value: gib,
            value_label: format!("{gib:.1}"),
            colour: cell.contender as usize,
            labels: vec![cell.contender.to_string(), threads(cell.threads)],
        }
    };
    let of = cells.first().map(|cell| runs(cell)).unwrap_or_default();
    BarChart {
        title: format!("nodeward bench pool: {of}"),
        unit: "GiB/s",
        bars: cells.iter().map(bar).collect(),
    }
}

/// Returns the lines of pages held, in use and pcp_high over time, all as memory.
fn lines(timeline: &PoolTimeline) -> LineChart {
    let every = timeline.looks.len().div_ceil(POINTS_MAX).max(1);
    let line = |colour, name: &str, of: &dyn Fn(&PoolSample) -> u64| ChartLine {
        name: name.to_owned(),
        colour,
        points: timeline
            .looks
            .iter()
            .step_by(every)
            .map(|look| (look.at_ns as f64 / 1e9, of(look) as f64 / f64::from(1 << 20)))
            .collect(),
    };
    LineChart {
        x_label: "seconds".to_owned(),
        title: format!("{} over time, {}", timeline.contender, threads(timeline.threads)),
        unit: "MiB",
        lines: vec![
            line(0, "held", &|look| look.held_bytes),
            line(1, "in use", &|look| look.in_use_bytes),
            line(2, "pcp_high", &|look| look.pcp_high_bytes),
        ],
        marks: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
