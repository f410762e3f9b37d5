//! Lines of text in bounded memory.

use std::io::{self, BufRead, ErrorKind};

use crate::Error;

/// What a line may hold. Longer ones are cut, and the reader is told.
pub const LINE_BYTES_MAX: usize = 1024;
/// What an error shows of a line.
const FOUND_BYTES_MAX: usize = 48;

/// The lines of a source, one at a time.
#[derive(Debug)]
pub struct Lines<R> {
    source: R,
    line: Vec<u8>,
    number: u64,
    is_cut: bool,
    is_held: bool,
}

impl<R: BufRead> Lines<R> {
    /// The lines of this source.
    pub fn new(source: R) -> Self {
        let line = Vec::with_capacity(LINE_BYTES_MAX);
        Self { source, line, number: 0, is_cut: false, is_held: false }
    }

    /// Reads the next line; false at the end.
    pub fn advance(&mut self) -> Result<bool, Error> {
        if std::mem::take(&mut self.is_held) {
            return Ok(true);
        }
        if std::mem::take(&mut self.is_cut) {
            self.drop_rest()?;
        }
        self.line.clear();
        loop {
            let available = fill(&mut self.source)?;
            if available.is_empty() {
                self.number += u64::from(!self.line.is_empty());
                return Ok(!self.line.is_empty());
            }
            let end = memchr::memchr(b'\n', available);
            let part = &available[..end.unwrap_or(available.len())];
            let taken = part.len().min(LINE_BYTES_MAX - self.line.len());
            self.is_cut = taken < part.len();
            self.line.extend_from_slice(&part[..taken]);
            let is_whole = end.is_some() && !self.is_cut;
            self.source.consume(taken + usize::from(is_whole));
            if is_whole || self.is_cut {
                self.number += 1;
                return Ok(true);
            }
        }
    }

    /// Makes the next advance stay on this line.
    pub fn hold(&mut self) {
        self.is_held = true;
    }

    /// The line without its line feed, cut if it is too long.
    pub fn bytes(&self) -> &[u8] {
        &self.line
    }

    /// The line up to a `#`, without blanks and carriage returns at either end.
    pub fn content(&self) -> &[u8] {
        let end = memchr::memchr(b'#', &self.line).unwrap_or(self.line.len());
        self.line[..end].trim_ascii()
    }

    /// Reads on to the next line with content; false at the end. A line that was cut is an error.
    pub fn advance_to_content(&mut self, expected: &'static str) -> Result<bool, Error> {
        while self.advance()? {
            if self.is_cut {
                return Err(Error::LongLine { line: self.number, expected });
            }
            if !self.content().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The error of this line.
    pub fn wrong(&self, expected: &'static str) -> Error {
        let shown = &self.line[..self.line.len().min(FOUND_BYTES_MAX)];
        let found = shown.trim_ascii().escape_ascii().to_string();
        Error::Line { line: self.number, expected, found }
    }

    fn drop_rest(&mut self) -> Result<(), Error> {
        loop {
            let available = fill(&mut self.source)?;
            let end = memchr::memchr(b'\n', available);
            let dropped = end.map_or(available.len(), |end| end + 1);
            let is_over = end.is_some() || available.is_empty();
            self.source.consume(dropped);
            if is_over {
                return Ok(());
            }
        }
    }
}

/// What the source has next, again after a signal; empty at its end.
pub fn fill(source: &mut impl BufRead) -> io::Result<&[u8]> {
    // The first answer cannot be returned as it is: the borrow would last into the next turn.
    while let Err(error) = source.fill_buf() {
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    source.fill_buf()
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    fn lines(text: &[u8]) -> Vec<(Vec<u8>, bool)> {
        // A buffer of three bytes, so that lines lie across its ends.
        let mut lines = Lines::new(BufReader::with_capacity(3, text));
        let mut seen = Vec::new();
        while lines.advance().unwrap() {
            seen.push((lines.bytes().to_vec(), lines.is_cut));
        }
        assert_eq!(lines.number, seen.len() as u64);
        assert!(!lines.advance().unwrap(), "the end is the end");
        seen
    }

    #[test]
    fn every_line_is_seen_once_whole_or_cut() {
        let whole = |text: &[u8]| (text.to_vec(), false);
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n"), [whole(b"")]);
        assert_eq!(lines(b"abcd\n\ne"), [whole(b"abcd"), whole(b""), whole(b"e")]);
        let full = [b'x'; LINE_BYTES_MAX];
        let long = [&full[..], b"y\nz\n"].concat();
        assert_eq!(lines(&long), [(full.to_vec(), true), whole(b"z")]);
        let fits = [&full[..], b"\nz"].concat();
        assert_eq!(lines(&fits), [whole(&full), whole(b"z")]);
    }

    #[test]
    fn a_line_that_is_held_comes_again() {
        let mut lines = Lines::new(&b"a\nb\n"[..]);
        assert!(lines.advance().unwrap());
        lines.hold();
        assert!(lines.advance().unwrap() && lines.bytes() == b"a" && lines.number == 1);
        assert!(lines.advance().unwrap() && lines.bytes() == b"b" && lines.number == 2);
    }

    #[test]
    fn an_endless_line_is_refused_in_bounded_memory() {
        let mut lines = Lines::new(BufReader::new(io::repeat(b'7').take(1 << 40)));
        let error = lines.advance_to_content("a word").unwrap_err();
        assert_eq!(error.to_string(), "line 1: longer than 1024 bytes, expected a word");
        assert!(lines.line.capacity() < 2 * LINE_BYTES_MAX);
    }

    /// A source that is interrupted by a signal before each read.
    struct Interrupted<'a>(&'a [u8], bool);

    impl Read for Interrupted<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(ErrorKind::Interrupted.into()) } else { self.0.read(to) }
        }
    }

    #[test]
    fn a_signal_is_no_error_and_no_end() {
        let mut lines = Lines::new(BufReader::with_capacity(1, Interrupted(b"ab\n", false)));
        assert!(lines.advance().unwrap());
        assert_eq!(lines.bytes(), b"ab");
    }
}
