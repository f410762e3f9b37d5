//! Questions, the last line, and the keys.

use ratatui_core::layout::Rect;

use super::painter::{Painter, TextStyle};
use crate::top::model::{Ask, Look, Model};

/// The keys, and what each does.
const KEYS: [(&str, &str); 13] = [
    ("up, down, k, j", "another row; page up and down, home and end"),
    ("Enter", "look at the process: why it is decided so, its memory by mapping"),
    ("Esc", "back; in the list: no filter"),
    ("Tab, g", "groups, processes"),
    ("/", "type a part of pid, name or home:NODES"),
    ("s", "sort by the next column"),
    ("m", "move memory of the process: FROM TO, a plan, and a question"),
    ("c", "stop the move"),
    ("u", "take the last move of this screen back"),
    ("Ctrl-L", "draw everything anew"),
    ("q, Ctrl-C", "end"),
    ("", "AGE is how old the bars of a row are; ? is what is not known."),
    ("", "ASTRAY is how many threads are away from home, of all."),
];

/// Draws the keys.
pub fn draw_help(painter: &mut Painter<'_>, heads: Rect, area: Rect) {
    painter.line(heads, 0, "KEYS", TextStyle::Head);
    for (y, (keys, what)) in (0..).zip(KEYS) {
        painter.line(area, y, &format!("{keys:<16}{what}"), TextStyle::Plain);
    }
}

/// Draws a question over the last rows.
pub fn draw_question(model: &Model, painter: &mut Painter<'_>, area: Rect) {
    let lines = question(model);
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(area.height);
    let top = area.height - height;
    for (y, line) in (top..area.height).zip(&lines) {
        painter.blank(area, y, TextStyle::Question);
        painter.line(area, y, &format!(" {line}"), TextStyle::Question);
    }
}

/// Returns the lines of a question; none if nothing is asked.
pub fn question(model: &Model) -> Vec<String> {
    match &model.ask {
        None | Some(Ask::Filter | Ask::Nodes(_) | Ask::Planning) => Vec::new(),
        Some(Ask::Carry(proposal)) => proposal.lines.clone(),
        Some(Ask::Cancel) => {
            vec!["Stop the move? What has moved stays there, and u takes it back.".to_owned()]
        }
        Some(Ask::Quit) => vec![
            "A move is under way. Stop it, and end?".to_owned(),
            "What has moved stays there; nodeward undo takes it back.".to_owned(),
        ],
    }
}

/// Draws the last line.
pub fn draw(model: &Model, painter: &mut Painter<'_>, area: Rect) {
    painter.line(area, 0, &bottom_text(model), TextStyle::Plain);
}

fn bottom_text(model: &Model) -> String {
    match &model.ask {
        Some(Ask::Filter) => format!("filter: {}_  (Enter keeps it, Esc ends it)", model.filter),
        Some(Ask::Nodes(order)) => {
            format!(
                "move memory of {} FROM TO: {}_  (Enter plans, Esc ends)",
                order.pid, order.nodes
            )
        }
        Some(Ask::Planning) => "planning ...  (Esc ends)".to_owned(),
        Some(Ask::Carry(_) | Ask::Cancel | Ask::Quit) => "y yes  n no".to_owned(),
        None => idle_text(model),
    }
}

fn idle_text(model: &Model) -> String {
    if let Some(message) = &model.message {
        return message.replace('\n', " ");
    }
    if let Some(moving) = &model.moving {
        return format!("{}: {}  (c stops it)", moving.what, moving.progress());
    }
    match model.look {
        Look::Processes => "q end  ? keys  / filter  s sort  Enter look  m move  u undo  g groups",
        Look::Groups => "q end  ? keys  g processes",
        Look::Detail(_) => "q end  ? keys  Esc back  m move  u undo",
        Look::Help => "q end  Esc back",
    }
    .to_owned()
}
