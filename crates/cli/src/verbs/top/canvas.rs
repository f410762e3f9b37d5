//! Writes pictures to the terminal: of each only the cells that differ from the one before.
//!
//! ratatui's own backend brings another reader of keys and signals; what is needed of it is this.

use std::io::{self, Write as _};

use anyhow::{Context as _, Result};
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};

/// What the terminal shows.
pub struct Canvas {
    shown: Buffer,
    /// The terminal may show anything else.
    is_stale: bool,
}

impl Canvas {
    /// Takes over a terminal of that size, whatever it shows.
    pub fn new(area: Rect) -> Self {
        Self { shown: Buffer::empty(area), is_stale: true }
    }

    /// Draws everything anew next time.
    pub fn forget(&mut self) {
        self.is_stale = true;
    }

    /// Shows a picture.
    ///
    /// # Errors
    /// If the terminal cannot be written.
    pub fn show(&mut self, draw: impl FnOnce(&mut Buffer)) -> Result<()> {
        let mut next = Buffer::empty(self.shown.area);
        draw(&mut next);
        let mut bytes = Vec::new();
        if std::mem::take(&mut self.is_stale) {
            bytes.extend_from_slice(b"\x1b[0m\x1b[2J");
            self.shown = Buffer::empty(self.shown.area);
        }
        write_cells(self.shown.diff_iter(&next), &mut bytes);
        self.shown = next;
        if bytes.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(&bytes).and_then(|()| out.flush()).context("cannot write to the terminal")
    }
}

/// Appends what brings cells onto a terminal. Between cells that follow each other the cursor moves
/// by itself, and a style holds until it changes.
fn write_cells<'a>(cells: impl Iterator<Item = (u16, u16, &'a Cell)>, into: &mut Vec<u8>) {
    let mut next = None;
    let mut style = None;
    for (x, y, cell) in cells {
        if next != Some((x, y)) {
            into.extend_from_slice(format!("\x1b[{};{}H", y + 1, x + 1).as_bytes());
        }
        let wanted = (cell.fg, cell.modifier);
        if style != Some(wanted) {
            into.extend_from_slice(style_sequence(cell).as_bytes());
        }
        into.extend_from_slice(cell.symbol().as_bytes());
        // A wide character moves the cursor by more; then it is placed anew.
        next = cell.symbol().is_ascii().then_some((x + 1, y));
        style = Some(wanted);
    }
    if style.is_some() {
        into.extend_from_slice(b"\x1b[0m");
    }
}

/// The styles that the picture uses.
fn style_sequence(cell: &Cell) -> String {
    let mut codes = String::from("\x1b[0");
    let modifiers = [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::REVERSED, ";7")];
    for (modifier, code) in modifiers {
        if cell.modifier.contains(modifier) {
            codes += code;
        }
    }
    codes += match cell.fg {
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        _ => "",
    };
    codes + "m"
}

#[cfg(test)]
mod tests {
    use ratatui_core::style::Style;

    use super::*;

    fn written(before: &Buffer, after: &Buffer) -> String {
        let mut bytes = Vec::new();
        write_cells(before.diff_iter(after), &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    /// Goal: only what differs is written, each run with one move of the cursor and each style
    /// once; nothing if nothing differs.
    #[test]
    fn only_what_differs_is_written() {
        let before = Buffer::with_lines(["abcdef", "xyz   "]);
        let mut after = Buffer::with_lines(["abCDef", "xyz!  "]);
        assert_eq!(written(&before, &before), "");
        assert_eq!(written(&before, &after), "\x1b[1;3H\x1b[0mCD\x1b[2;4H!\x1b[0m");
        after.set_string(0, 1, "x", Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD));
        assert!(written(&before, &after).contains("\x1b[2;1H\x1b[0;1;33mx"));
    }

    /// Goal: behind a wide character the cursor is placed anew.
    #[test]
    fn wide_characters_move_the_cursor_by_two() {
        let (before, after) = (Buffer::with_lines(["    "]), Buffer::with_lines(["コa "]));
        assert_eq!(written(&before, &after), "\x1b[1;1H\x1b[0mコ\x1b[1;3Ha\x1b[0m");
    }
}
