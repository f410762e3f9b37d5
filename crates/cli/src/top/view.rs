//! The picture of a model: a header, the nodes, rows of processes or groups, and a line at the
//! bottom. What a small terminal has no room for is left out, the rows last.

mod bottom;
mod detail;
mod nodes;
mod painter;
mod table;

use nodeward_model::Pid;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

pub use detail::lines as detail_lines;

use super::model::{Look, Model};
use painter::Painter;

/// From so many rows on there is room for the nodes.
const ROWS_WITH_NODES: u16 = 10;

/// Where the parts of the picture are: numbers of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parts {
    header: u16,
    nodes: u16,
    /// The heads of the columns.
    heads: u16,
    rows: u16,
    bottom: u16,
}

impl Parts {
    fn of(model: &Model) -> Self {
        let (_, height) = model.size;
        let [header, heads, bottom] = [height >= 4, height >= 3, height >= 2].map(u16::from);
        let nodes = match height {
            ROWS_WITH_NODES.. => nodes::height(model, (height - 8) / 2),
            _ => 0,
        };
        let rows = height.saturating_sub(header + nodes + heads + bottom);
        Self { header, nodes, heads, rows, bottom }
    }
}

/// Returns how many rows of a table are on the screen.
pub fn page_rows(model: &Model) -> usize {
    Parts::of(model).rows.into()
}

/// Returns the processes that are on the screen.
pub fn seen(model: &Model) -> Vec<Pid> {
    match model.look {
        Look::Processes => {
            let rows = model.rows();
            let shown = rows.iter().skip(model.first).take(page_rows(model));
            shown.map(|process| process.pid).collect()
        }
        Look::Detail(pid) => vec![pid],
        Look::Groups | Look::Help => Vec::new(),
    }
}

/// Returns whether a question can be read: only then there is an answer to it.
pub fn question_fits(model: &Model) -> bool {
    bottom::question(model).len() <= page_rows(model)
}

/// Draws a model.
pub fn draw(model: &Model, buffer: &mut Buffer) {
    let parts = Parts::of(model);
    let (columns, _) = model.size;
    let mut top = 0;
    let mut next = |height: u16| {
        let area = Rect::new(0, top, columns, height).intersection(buffer.area);
        top += height;
        area
    };
    let [header, nodes, heads, rows, bottom] =
        [parts.header, parts.nodes, parts.heads, parts.rows, parts.bottom].map(&mut next);
    let mut painter = Painter::new(buffer, &model.setup);
    nodes::draw_header(model, &mut painter, header);
    nodes::draw(model, &mut painter, nodes);
    match model.look {
        Look::Processes => table::draw_processes(model, &mut painter, heads, rows),
        Look::Groups => table::draw_groups(model, &mut painter, heads, rows),
        Look::Detail(pid) => detail::draw(model, pid, &mut painter, heads, rows),
        Look::Help => bottom::draw_help(&mut painter, heads, rows),
    }
    bottom::draw_question(model, &mut painter, rows);
    bottom::draw(model, &mut painter, bottom);
}

#[cfg(test)]
mod tests;
