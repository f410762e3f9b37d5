//! The header, and the nodes.

use ratatui_core::layout::Rect;

use super::painter::{Painter, TextStyle};
use crate::args::SortColumn;
use crate::output::top::{decided_by, figures, local};
use crate::results::top::{NodeFigures, TopSample};
use crate::top::model::Model;
use clap::ValueEnum as _;
use nodeward_model::units::format_bytes;

/// Columns of the nodes: head, first column, width. The history takes the rest.
const COLUMNS: [(&str, u16, u16); 7] = [
    ("NODE", 0, 4),
    ("CPUS", 5, 4),
    ("USED", 10, 9),
    ("FREE", 20, 9),
    ("", 30, 12),
    ("LOCAL", 43, 5),
    ("LISTS", 49, 9),
];
const HISTORY: u16 = 59;

/// Returns how many rows the nodes take: a head, each node, and what moves on the whole machine.
pub fn height(model: &Model, most: u16) -> u16 {
    let nodes = model.sample.as_ref().map_or(0, |sample| sample.nodes.len());
    let nodes = u16::try_from(nodes).unwrap_or(u16::MAX).min(most);
    if nodes == 0 { 0 } else { nodes + 2 }
}

/// Draws the first line: what is looked at.
pub fn draw_header(model: &Model, painter: &mut Painter<'_>, area: Rect) {
    let mut words = vec![format!("nodeward top{}", model.setup.whereabouts)];
    match &model.sample {
        None => words.push("reading ...".to_owned()),
        Some(sample) => words.extend(summary(model, sample)),
    }
    painter.line(area, 0, &words.join(", "), TextStyle::Plain);
}

fn summary(model: &Model, sample: &TopSample) -> Vec<String> {
    let denied = sample.processes.iter().filter(|process| process.denied.is_some()).count();
    let mut words = vec![format!("{} processes", sample.processes.len())];
    if denied > 0 {
        words.push(format!("{denied} not ours"));
    }
    words.push(format!("by {}", column(model.sort)));
    if !model.filter.is_empty() {
        words.push(format!("with '{}'", model.filter));
    }
    if let Some(ppm) = sample.own_cpu_ppm {
        words.push(format!("own {} %", figures::percent(Some(ppm))));
    }
    if let Some(late) = model.late {
        words.push(format!("FIGURES {} s OLD", late.as_secs()));
    }
    words
}

fn column(column: SortColumn) -> String {
    column.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Draws the nodes, and what moves on the machine.
pub fn draw(model: &Model, painter: &mut Painter<'_>, area: Rect) {
    let Some(sample) = model.sample.as_ref().filter(|_| area.height >= 2) else { return };
    for (head, x, width) in COLUMNS {
        painter.put(area, (x, 0), width, &right(head, width), TextStyle::Head);
    }
    painter.put(area, (HISTORY, 0), area.width, "HISTORY OF USE", TextStyle::Head);
    let shown = usize::from(area.height - 2);
    for (y, node) in (1..).zip(sample.nodes.iter().take(shown)) {
        draw_node(model, (node, sample.page_bytes), painter, area, y);
    }
    let machine = machine_line(model, sample, painter);
    let style = if sample.notices.is_empty() { TextStyle::Plain } else { TextStyle::Away };
    painter.line(area, area.height - 1, &machine, style);
}

fn draw_node(
    model: &Model,
    (node, page_bytes): (&NodeFigures, u64),
    painter: &mut Painter<'_>,
    area: Rect,
    y: u16,
) {
    let lists = node.page_lists.map(|lists| lists.pages * page_bytes);
    let cells = [
        node.node.to_string(),
        node.cpus.to_string(),
        format_bytes(node.used_bytes()),
        format_bytes(node.free_bytes),
        painter.bar(node.used_bytes(), node.total_bytes, 12),
        local(node),
        figures::bytes(lists),
    ];
    for ((_, x, width), cell) in COLUMNS.into_iter().zip(cells) {
        painter.put(area, (x, y), width, &right(&cell, width), TextStyle::Plain);
    }
    if let Some(series) = model.history.used.get(&node.node) {
        let room = area.width.saturating_sub(HISTORY);
        let line = painter.sparkline(series.last(room.into()), node.total_bytes);
        painter.put(area, (HISTORY, y), room, &line, TextStyle::Plain);
    }
}

fn machine_line(model: &Model, sample: &TopSample, painter: &Painter<'_>) -> String {
    let most = model.history.migrated.last(20).max().unwrap_or(0);
    let line = painter.sparkline(model.history.migrated.last(20), most);
    let decided = decided_by(sample.decided_by);
    let migrated = figures::bytes(sample.migrated_bytes_per_s);
    let notices = sample.notices.iter().map(|notice| format!("; {notice}"));
    format!("migrated {migrated}/s {line}; {decided}{}", notices.collect::<String>())
}

/// Puts a text to the right of its column.
pub fn right(text: &str, width: u16) -> String {
    format!("{text:>width$}", width = usize::from(width))
}
