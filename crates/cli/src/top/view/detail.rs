//! One process: what is decided about it and why, and its memory part by part.

use std::collections::BTreeMap;

use nodeward_model::units::format_bytes;
use nodeward_model::{NodeId, Pid};
use ratatui_core::layout::Rect;

use super::painter::{Painter, TextStyle};
use crate::output::top::figures;
use crate::results::top::{MemoryPart, ProcessDetail, ProcessFigures};
use crate::top::model::Model;

/// Cells of a sparkline.
const SPARK_CELLS: usize = 24;

/// Draws it.
pub fn draw(model: &Model, pid: Pid, painter: &mut Painter<'_>, heads: Rect, area: Rect) {
    painter.line(heads, 0, &head(model, pid, painter), TextStyle::Head);
    let lines = lines(model, pid);
    let shown = lines.iter().skip(model.first).take(area.height.into());
    for (y, line) in (0..).zip(shown) {
        painter.line(area, y, line, TextStyle::Plain);
    }
}

/// Formats the process in a line, with its last minutes.
fn head(model: &Model, pid: Pid, painter: &Painter<'_>) -> String {
    let Some(process) = model.process(pid) else { return format!("process {pid} is gone") };
    let mut words =
        format!("process {pid} {}  cpu {} %", process.name, figures::percent(process.cpu_ppm));
    if let Some(series) = model.history.of(pid, process.started_ticks) {
        let line = |figures: Vec<u64>| {
            let most = figures.iter().copied().max().unwrap_or(0);
            painter.sparkline(figures.into_iter(), most)
        };
        words += &format!(
            " {}  away {} {}",
            line(series.cpu.last(SPARK_CELLS).collect()),
            figures::bytes(process.bytes_away()),
            line(series.away.last(SPARK_CELLS).collect())
        );
    }
    words
}

/// Returns all lines about a process, of which a screen may show some.
pub fn lines(model: &Model, pid: Pid) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(process) = model.process(pid) {
        lines.push(memory_line(process));
    }
    let Some(detail) = &model.detail else {
        lines.push("looking ...".to_owned());
        return lines;
    };
    lines.extend(detail.explanation.lines().map(str::to_owned));
    if let Some(error) = &detail.error {
        lines.push(format!("its memory cannot be looked at: {error}"));
    }
    if !detail.parts.is_empty() {
        lines.push(parts_head(model, detail));
        lines.extend(detail.parts.iter().map(part_line));
    }
    if detail.parts_left > 0 {
        lines.push(format!("and {} smaller ranges of addresses", detail.parts_left));
    }
    lines
}

fn memory_line(process: &ProcessFigures) -> String {
    let residency = process.residency.as_ref().map(|residency| &residency.bytes);
    format!(
        "memory {} on nodes {}; threads on nodes {}",
        figures::bytes(process.memory_bytes),
        residency.map_or_else(|| figures::UNKNOWN.to_owned(), by_node),
        figures::by_node(process.threads.iter().map(|(node, count)| (*node, *count)))
    )
}

fn parts_head(model: &Model, detail: &ProcessDetail) -> String {
    let now_ns = model.sample.as_ref().map_or(detail.at_ns, |sample| sample.at_ns);
    format!("memory by part, {} old:", figures::age(now_ns, Some(detail.at_ns)))
}

fn part_line(part: &MemoryPart) -> String {
    format!("  {:<42} {:<28} {}", part.what, by_node(&part.bytes), part.path)
}

fn by_node(bytes: &BTreeMap<NodeId, u64>) -> String {
    figures::by_node(bytes.iter().map(|(node, bytes)| (*node, format_bytes(*bytes))))
}
