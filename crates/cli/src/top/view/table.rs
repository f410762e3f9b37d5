//! Rows of processes, and of groups.

use std::collections::BTreeMap;

use nodeward_model::NodeId;
use ratatui_core::layout::Rect;

use super::nodes::right;
use super::painter::{Painter, TextStyle};
use crate::output::top::figures::{self, UNKNOWN};
use crate::output::top::{reasons, why};
use crate::results::top::{
    DecisionFigures, GroupFigures, ProcessFigures, SampledResidency, TopSample,
};
use crate::top::model::Model;

/// Cells of the bar of a node, on narrow and on wide terminals.
const BAR_CELLS: [u16; 2] = [5, 8];
/// From so many columns on a terminal is wide.
const WIDE: u16 = 100;
/// Of more nodes than this only the largest shares are told, as text in so many columns.
const BARS_MAX: usize = 4;
const SHARES_WIDTH: u16 = 18;

/// A column of the table.
struct TableColumn {
    head: String,
    width: u16,
    is_right: bool,
}

impl TableColumn {
    fn left(head: &str, width: u16) -> Self {
        Self { head: head.to_owned(), width, is_right: false }
    }

    fn right(head: &str, width: u16) -> Self {
        Self { head: head.to_owned(), width, is_right: true }
    }

    fn text(&self, cell: &str) -> String {
        if self.is_right { right(cell, self.width) } else { cell.to_owned() }
    }
}

/// Draws the processes.
pub fn draw_processes(model: &Model, painter: &mut Painter<'_>, heads: Rect, area: Rect) {
    let Some(sample) = &model.sample else { return };
    let columns = columns(&["PID", "NAME", "CPU%"], sample, area.width);
    draw_heads(&columns, painter, heads);
    let rows = model.rows();
    let shown = rows.iter().skip(model.first).take(area.height.into());
    for (y, process) in (0..).zip(shown) {
        let moving = model.moving.as_ref().filter(|moving| moving.pid == Some(process.pid));
        let cells = process_cells(process, sample, painter, area.width);
        let why = match moving {
            Some(moving) => moving.progress(),
            None => why(process),
        };
        draw_row(&columns, cells.into_iter().chain([why]), painter, area, y);
        painter.restyle(area, y, row_style(process, model, usize::from(y)));
    }
}

/// Draws the groups.
pub fn draw_groups(model: &Model, painter: &mut Painter<'_>, heads: Rect, area: Rect) {
    let Some(sample) = &model.sample else { return };
    let columns = columns(&["PROCS", "GROUP", ""], sample, area.width);
    draw_heads(&columns, painter, heads);
    let shown = sample.groups.iter().skip(model.first).take(area.height.into());
    for (y, group) in (0..).zip(shown) {
        let cells = group_cells(group, sample, painter, area.width);
        draw_row(&columns, cells.into_iter().chain([reasons(&group.decision)]), painter, area, y);
        let is_here = model.first + usize::from(y) == model.cursor;
        painter.restyle(area, y, if is_here { TextStyle::Selected } else { TextStyle::Plain });
    }
    if sample.groups.is_empty() {
        painter.line(
            area,
            0,
            "no groups: nodeward help group tells how to make some",
            TextStyle::Dim,
        );
    }
}

fn columns(first: &[&str; 3], sample: &TopSample, width: u16) -> Vec<TableColumn> {
    let [number, name, cpu] = first;
    let mut columns = vec![
        TableColumn::right(number, 7),
        TableColumn::left(name, if width >= WIDE { 18 } else { 15 }),
        TableColumn::right(cpu, 5),
        TableColumn::right("MEMORY", 8),
        TableColumn::right("HOME", 4),
        TableColumn::right("ASTRAY", 6),
    ];
    columns.extend(match bar_cells(sample, width) {
        Some(cells) => {
            let bar = |node: &_| TableColumn::left(&format!("ON {node}"), cells);
            sample.nodes.iter().map(|figures| bar(&figures.node)).collect()
        }
        None => vec![TableColumn::left("MEMORY ON", SHARES_WIDTH)],
    });
    columns.extend([TableColumn::right("AGE", 3), TableColumn::left("NOW, AND WHY", width)]);
    columns
}

fn bar_cells(sample: &TopSample, width: u16) -> Option<u16> {
    let cells = BAR_CELLS[usize::from(width >= WIDE)];
    (sample.nodes.len() <= BARS_MAX).then_some(cells)
}

fn draw_heads(columns: &[TableColumn], painter: &mut Painter<'_>, area: Rect) {
    let mut x = 0;
    for column in columns {
        painter.put(area, (x, 0), column.width, &column.text(&column.head), TextStyle::Head);
        x += column.width + 1;
    }
}

fn draw_row(
    columns: &[TableColumn],
    cells: impl Iterator<Item = String>,
    painter: &mut Painter<'_>,
    area: Rect,
    y: u16,
) {
    let mut x = 0;
    for (column, cell) in columns.iter().zip(cells) {
        painter.put(area, (x, y), column.width, &column.text(&cell), TextStyle::Plain);
        x = x.saturating_add(column.width + 1);
    }
}

fn process_cells(
    process: &ProcessFigures,
    sample: &TopSample,
    painter: &Painter<'_>,
    width: u16,
) -> Vec<String> {
    let mut cells = vec![
        process.pid.to_string(),
        process.name.to_string(),
        figures::percent(process.cpu_ppm),
        figures::bytes(process.memory_bytes),
        home_cell(process.decision.as_ref()),
        figures::astray(process.threads_astray(), &process.threads),
    ];
    cells.extend(memory_cells(process.residency.as_ref(), sample, painter, width));
    let at_ns = process.residency.as_ref().and_then(|residency| residency.at_ns);
    cells.push(figures::age(sample.at_ns, at_ns));
    cells
}

/// The nodes of the home: there is no room for its kind.
fn home_cell(decision: Option<&DecisionFigures>) -> String {
    let nodes = decision.map(|decision| &decision.home_nodes).filter(|nodes| !nodes.is_empty());
    nodes.map_or_else(|| "-".to_owned(), ToString::to_string)
}

fn group_cells(
    group: &GroupFigures,
    sample: &TopSample,
    painter: &Painter<'_>,
    width: u16,
) -> Vec<String> {
    let bytes = group.residency.bytes.values().sum();
    let astray = group.decision.threads_astray(&group.threads);
    let mut cells = vec![
        group.processes.len().to_string(),
        group.name.clone(),
        String::new(),
        figures::bytes(Some(bytes)),
        home_cell(Some(&group.decision)),
        figures::astray(astray, &group.threads),
    ];
    cells.extend(memory_cells(Some(&group.residency), sample, painter, width));
    cells.push(figures::age(sample.at_ns, group.residency.at_ns));
    cells
}

/// Where memory is: a bar for each node, or the largest shares.
fn memory_cells(
    residency: Option<&SampledResidency>,
    sample: &TopSample,
    painter: &Painter<'_>,
    width: u16,
) -> Vec<String> {
    let known = residency.map(|residency| &residency.bytes);
    match (bar_cells(sample, width), known) {
        (Some(_), None) => sample.nodes.iter().map(|_| UNKNOWN.to_owned()).collect(),
        (None, None) => vec![UNKNOWN.to_owned()],
        (None, Some(bytes)) => vec![largest_shares(bytes)],
        (Some(cells), Some(bytes)) => {
            let all = bytes.values().sum();
            let on = |node| bytes.get(node).copied().unwrap_or(0);
            sample.nodes.iter().map(|node| painter.bar(on(&node.node), all, cells)).collect()
        }
    }
}

/// Formats the largest shares, such as `12:75% 3:20%`.
fn largest_shares(bytes: &BTreeMap<NodeId, u64>) -> String {
    let all = u128::from(bytes.values().sum::<u64>().max(1));
    let mut shares: Vec<_> = bytes.iter().map(|(node, bytes)| (*bytes, *node)).collect();
    shares.sort_by_key(|&(bytes, node)| (std::cmp::Reverse(bytes), node));
    let share = |(bytes, node)| format!("{node}:{}%", u128::from(bytes) * 100 / all);
    shares.into_iter().take(3).map(share).collect::<Vec<_>>().join(" ")
}

fn row_style(process: &ProcessFigures, model: &Model, y: usize) -> TextStyle {
    if model.first + y == model.cursor {
        TextStyle::Selected
    } else if process.denied.is_some() {
        TextStyle::Dim
    } else if process.bytes_away() > Some(0) || process.threads_astray() > Some(0) {
        TextStyle::Away
    } else {
        TextStyle::Plain
    }
}
