//! Puts text into cells.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use crate::output::topology::Charset;
use crate::top::model::Setup;

/// How a text looks. Nothing is told by colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextStyle {
    Plain,
    /// Heads of columns.
    Head,
    /// The row under the cursor.
    Selected,
    /// What is away from home.
    Away,
    /// What is not known, or not to be looked at.
    Dim,
    /// A question.
    Question,
}

/// Draws into a buffer.
pub struct Painter<'a> {
    buffer: &'a mut Buffer,
    charset: Charset,
    has_colours: bool,
}

impl<'a> Painter<'a> {
    /// Creates one.
    pub fn new(buffer: &'a mut Buffer, setup: &Setup) -> Self {
        Self { buffer, charset: setup.charset, has_colours: setup.has_colours }
    }

    /// Puts a text into a row of an area, from a column on, `width` columns at most. What is
    /// outside of the area is left out.
    pub fn put(
        &mut self,
        area: Rect,
        (x, y): (u16, u16),
        width: u16,
        text: &str,
        style: TextStyle,
    ) {
        if x >= area.width || y >= area.height {
            return;
        }
        let width = width.min(area.width - x);
        let style = self.style_of(style);
        self.buffer.set_stringn(area.x + x, area.y + y, text, width.into(), style);
    }

    /// Puts a text into a whole row of an area.
    pub fn line(&mut self, area: Rect, y: u16, text: &str, style: TextStyle) {
        self.put(area, (0, y), area.width, text, style);
    }

    /// Lets a row of an area look so, whatever is in it.
    pub fn restyle(&mut self, area: Rect, y: u16, style: TextStyle) {
        if y < area.height {
            let row = Rect { y: area.y + y, height: 1, ..area };
            let style = self.style_of(style);
            self.buffer.set_style(row, style);
        }
    }

    /// Empties a row of an area.
    pub fn blank(&mut self, area: Rect, y: u16, style: TextStyle) {
        self.line(area, y, &" ".repeat(area.width.into()), style);
    }

    /// Returns a bar of so many cells for a part of a whole.
    pub fn bar(&self, part: u64, whole: u64, cells: u16) -> String {
        let (full, empty) = match self.charset {
            Charset::Unicode => ('█', '░'),
            Charset::Ascii => ('#', '.'),
        };
        let filled = scaled(part, whole, cells.into());
        (0..u64::from(cells)).map(|cell| if cell < filled { full } else { empty }).collect()
    }

    /// Returns a sparkline of figures; `most` is as high as it gets.
    pub fn sparkline(&self, figures: impl Iterator<Item = u64>, most: u64) -> String {
        let levels: &[char] = match self.charset {
            Charset::Unicode => &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Charset::Ascii => &['_', '.', ':', '-', '=', '+', '*', '#'],
        };
        let top = levels.len() as u64 - 1;
        let level = |figure| usize::try_from(scaled(figure, most, top)).unwrap_or(0);
        figures.map(|figure| levels[level(figure)]).collect()
    }

    fn style_of(&self, style: TextStyle) -> Style {
        let plain = Style::new();
        let colour = |colour| if self.has_colours { plain.fg(colour) } else { plain };
        match style {
            TextStyle::Plain => plain,
            TextStyle::Head => colour(Color::Cyan).add_modifier(Modifier::BOLD),
            TextStyle::Selected | TextStyle::Question => plain.add_modifier(Modifier::REVERSED),
            TextStyle::Away => colour(Color::Yellow),
            TextStyle::Dim => plain.add_modifier(Modifier::DIM),
        }
    }
}

/// Returns a part of a whole in so many steps, rounded; at least one if there is any part.
fn scaled(part: u64, whole: u64, steps: u64) -> u64 {
    if part == 0 {
        return 0;
    }
    let whole = u128::from(whole.max(1));
    let rounded = (u128::from(part).min(whole) * u128::from(steps) + whole / 2) / whole;
    u64::try_from(rounded.max(1)).unwrap_or(steps).min(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(charset: Charset) -> Setup {
        Setup { whereabouts: String::new(), charset, has_colours: false }
    }

    /// Goal: bars are rounded, never longer than their room, and little is not nothing.
    #[test]
    fn bars_and_sparklines() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 1, 1));
        let painter = Painter::new(&mut buffer, &setup(Charset::Ascii));
        assert_eq!(painter.bar(0, 8, 4), "....");
        assert_eq!(painter.bar(1, 1000, 4), "#...");
        assert_eq!(painter.bar(5, 8, 4), "###."); // 2.5 cells
        assert_eq!(painter.bar(9, 8, 4), "####");
        assert_eq!(painter.bar(1, 0, 2), "##", "a whole of 0 is taken for 1");
        assert_eq!(painter.sparkline([0, 1, 50, 100, 200].into_iter(), 100), "_.=##");
        let painter = Painter::new(&mut buffer, &setup(Charset::Unicode));
        assert_eq!(
            (painter.bar(1, 2, 4), painter.sparkline([7].into_iter(), 7)),
            ("██░░".into(), "█".into())
        );
    }

    /// Goal: what does not fit is left out, wherever it begins.
    #[test]
    fn nothing_is_drawn_outside() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 4, 2));
        let mut painter = Painter::new(&mut buffer, &setup(Charset::Ascii));
        let area = Rect::new(1, 0, 2, 1);
        painter.put(area, (1, 0), 9, "xyz", TextStyle::Plain);
        painter.put(area, (2, 0), 9, "outside", TextStyle::Plain);
        painter.put(area, (0, 1), 9, "below", TextStyle::Plain);
        assert_eq!(buffer, Buffer::with_lines(["  x ", "    "]));
    }
}
