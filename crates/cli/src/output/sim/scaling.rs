//! Output of `sim scaling`.

use std::fmt::Write as _;

use anyhow::Result;
use nodeward_experiments::scaling::{ScaledBy, ScalingPoint, ScalingResult};
use serde_json::{Value, json};

use crate::output::plot::{self, ChartLine, LineChart};

/// The beginning of the page.
const HEAD: &str = include_str!("scaling_head.md");

/// Formats the curves as text.
pub fn text(results: &[ScalingResult]) -> String {
    let mut text = String::new();
    for result in results {
        let _ = writeln!(text, "{}: {}", result.curve.name, result.curve.about);
        let _ = writeln!(
            text,
            "  {:>15}     GB/s  times  unmap us  copy us   map us  published",
            result.curve.by.name()
        );
        for point in &result.points {
            let step = point.step_ns;
            let published = point.published_gb_per_s.map(|speed| format!("{speed:.1}"));
            let _ = writeln!(
                text,
                "  {:>15} {:>8.1} {:>6.2} {:>9.2} {:>8.2} {:>8.2}  {:>9}{}",
                point.count,
                point.gb_per_s,
                times(result, point),
                step.unmap / 1e3,
                step.copy / 1e3,
                step.map / 1e3,
                published.unwrap_or_default(),
                if result.curve.is_too_fast(point.gb_per_s) { "  too fast" } else { "" },
            );
        }
    }
    text
}

/// Returns the curves as JSON.
pub fn json(results: &[ScalingResult]) -> Value {
    let point = |result: &ScalingResult, point: &ScalingPoint| {
        json!({
            "count": point.count,
            "gb_per_s": point.gb_per_s,
            "times_first": times(result, point),
            "unmap_ns": point.step_ns.unmap,
            "copy_ns": point.step_ns.copy,
            "map_ns": point.step_ns.map,
            "is_too_fast": result.curve.is_too_fast(point.gb_per_s),
            "published_gb_per_s": point.published_gb_per_s,
            "command": result.curve.command(point.count),
        })
    };
    let curve = |result: &ScalingResult| {
        json!({
            "name": result.curve.name,
            "about": result.curve.about,
            "by": result.curve.by.name(),
            "fitted": result.curve.fitted,
            "carried_gb_per_s": result.curve.carried_gb_per_s,
            "points": result.points.iter().map(|one| point(result, one)).collect::<Vec<_>>(),
        })
    };
    json!({
        "schema": "nodeward.scaling/1",
        "curves": results.iter().map(curve).collect::<Vec<_>>(),
    })
}

/// Returns the page of the documentation and its picture, by file name.
pub fn docs(results: &[ScalingResult]) -> Result<[(&'static str, String); 2]> {
    let mut page = HEAD.to_owned();
    for result in results {
        let curve = result.curve;
        let _ = writeln!(page, "\n## {}\n\n{}.\n", curve.name, capitalized(curve.about));
        page += &table(result);
        if let Some(last) = result.points.last() {
            let _ = writeln!(page, "\n    {}", wrapped(&curve.command(last.count)));
        }
    }
    Ok([("scaling.md", page), ("scaling.svg", svg(results)?)])
}

fn table(result: &ScalingResult) -> String {
    let curve = result.curve;
    let published = !curve.published.is_empty();
    let (more, rule) = match published {
        true => (" published GB/s | error |", "---:|---:|"),
        false => ("", ""),
    };
    let by = curve.by.name();
    let mut table = format!("| {by} | GB/s | times one | unmap us | copy us | map us |{more}\n");
    let _ = writeln!(table, "|---:|---:|---:|---:|---:|---:|{rule}");
    for point in &result.points {
        let step = point.step_ns;
        let _ = write!(
            table,
            "| {} | {:.1}{} | {:.2} | {:.2} | {:.2} | {:.2} |",
            point.count,
            point.gb_per_s,
            if curve.is_too_fast(point.gb_per_s) { ", too fast" } else { "" },
            times(result, point),
            step.unmap / 1e3,
            step.copy / 1e3,
            step.map / 1e3
        );
        if let Some(speed) = point.published_gb_per_s {
            let error = (point.gb_per_s / speed - 1.0) * 100.0;
            let fitted = if curve.fitted.contains(&point.count) { ", fitted" } else { "" };
            let _ = write!(table, " {speed:.1} | {error:+.0} %{fitted} |");
        }
        table.push('\n');
    }
    table
}

/// Returns a speed as a multiple of that of the first point.
fn times(result: &ScalingResult, point: &ScalingPoint) -> f64 {
    result.points.first().map_or(1.0, |first| point.gb_per_s / first.gb_per_s)
}

/// Draws the curves of workers in one chart, and those of copying threads in another, beside what
/// was published. Points that are too fast are left out.
pub fn svg(results: &[ScalingResult]) -> Result<String> {
    let charts = [ScaledBy::Workers, ScaledBy::Copiers].map(|by| {
        let of_chart = results.iter().filter(|result| result.curve.by == by);
        let lines = of_chart.enumerate().flat_map(|(colour, result)| lines(colour, result));
        LineChart {
            title: format!("speed of moves by {}", by.name()),
            x_label: by.name().to_owned(),
            unit: "GB/s",
            lines: lines.collect(),
            marks: Vec::new(),
        }
    });
    let charts: Vec<_> = charts.into_iter().filter(|chart| !chart.lines.is_empty()).collect();
    plot::svg(&[], &charts)
}

fn lines(colour: usize, result: &ScalingResult) -> Vec<ChartLine> {
    let name = result.curve.name;
    let fit = |point: &&ScalingPoint| !result.curve.is_too_fast(point.gb_per_s);
    let ours = result.points.iter().filter(fit);
    let ours = ours.map(|point| (f64::from(point.count), point.gb_per_s));
    let theirs = result.curve.published.iter().map(|&(count, speed)| (f64::from(count), speed));
    let published = ChartLine {
        name: format!("{name}, published"),
        colour: colour + 4,
        points: theirs.collect(),
    };
    let simulated = ChartLine { name: name.to_owned(), colour, points: ours.collect() };
    let published = (!published.points.is_empty()).then_some(published);
    [simulated].into_iter().chain(published).collect()
}

fn capitalized(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

/// Breaks a command before options where its line would be longer than a page is wide.
fn wrapped(command: &str) -> String {
    let mut lines = String::new();
    let mut width = 4;
    for (index, part) in command.split(" --").enumerate() {
        let part = if index == 0 { part.to_owned() } else { format!(" --{part}") };
        if width + part.len() > 110 {
            lines += " \\\n     ";
            width = 6;
        }
        width += part.len();
        lines += &part;
    }
    lines
}
