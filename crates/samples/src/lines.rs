//! Reads lines of text in bounded memory.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use crate::Error;
use crate::limits::LINE_BYTES_MAX;

/// The bytes of one read.
const BUFFER_BYTES: usize = 64 << 10;
/// Limit on the bytes of a line in an error.
const FOUND_BYTES_MAX: usize = 48;

/// Reads the lines of a source one at a time and lends each from a buffer: a list has millions of
/// lines.
#[derive(Debug)]
pub struct LineReader<R> {
    source: R,
    buffer: Box<[u8]>,
    /// The bytes in the buffer that were not consumed yet.
    pending: Range<usize>,
    line: Range<usize>,
    number: u64,
    is_truncated: bool,
    is_unread: bool,
}

impl<R: Read> LineReader<R> {
    /// Returns the lines of this source.
    pub fn new(source: R) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into();
        Self {
            source,
            buffer,
            pending: 0..0,
            line: 0..0,
            number: 0,
            is_truncated: false,
            is_unread: false,
        }
    }

    /// Reads the next line; false at the end.
    pub fn advance(&mut self) -> Result<bool, Error> {
        if std::mem::take(&mut self.is_unread) {
            return Ok(true);
        }
        if std::mem::take(&mut self.is_truncated) {
            self.skip_rest_of_line()?;
        }
        loop {
            let rest = &self.buffer[self.pending.clone()];
            let rest = &rest[..rest.len().min(LINE_BYTES_MAX + 1)];
            match memchr::memchr(b'\n', rest) {
                Some(length) => self.set_line(length, 1),
                None if rest.len() > LINE_BYTES_MAX => {
                    self.is_truncated = true;
                    self.set_line(LINE_BYTES_MAX, 0);
                }
                None if self.refill()? => continue,
                None => {
                    self.set_line(self.pending.len(), 0);
                    self.number -= u64::from(self.line.is_empty());
                    return Ok(!self.line.is_empty());
                }
            }
            return Ok(true);
        }
    }

    /// Makes the next advance stay on this line.
    pub fn unread(&mut self) {
        self.is_unread = true;
    }

    /// Returns the line without its line feed, cut if it is too long.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.line.clone()]
    }

    /// Returns the line up to a `#`, without blanks and carriage returns at either end.
    pub fn content(&self) -> &[u8] {
        let line = self.bytes();
        let end = memchr::memchr(b'#', line).unwrap_or(line.len());
        line[..end].trim_ascii()
    }

    /// Reads on to the next line with content and parses it; `None` at the end. A line that is too
    /// long or invalid is an error.
    pub fn parse_next<T>(
        &mut self,
        expected: &'static str,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        while self.advance()? {
            if self.is_truncated {
                return Err(Error::LongLine { line: self.number, expected });
            }
            let content = self.content();
            if !content.is_empty() {
                return parse(content).map(Some).ok_or_else(|| self.line_error(expected));
            }
        }
        Ok(None)
    }

    /// Returns the error of this line.
    fn line_error(&self, expected: &'static str) -> Error {
        let line = self.bytes();
        let shown = &line[..line.len().min(FOUND_BYTES_MAX)];
        let found = shown.trim_ascii().escape_ascii().to_string();
        Error::Line { line: self.number, expected, found }
    }

    /// Makes a line of the next `length` bytes, and skips the `end` bytes after it.
    fn set_line(&mut self, length: usize, end: usize) {
        self.line = self.pending.start..self.pending.start + length;
        self.pending.start = self.line.end + end;
        self.number += 1;
    }

    /// Reads more bytes after the unconsumed ones; false at the end of the source. There is room,
    /// because the unconsumed bytes are no longer than a line.
    fn refill(&mut self) -> Result<bool, Error> {
        self.buffer.copy_within(self.pending.clone(), 0);
        self.pending = 0..self.pending.len();
        loop {
            match self.source.read(&mut self.buffer[self.pending.end..]) {
                Ok(read) => {
                    self.pending.end += read;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Skips the rest of a line that was cut.
    fn skip_rest_of_line(&mut self) -> Result<(), Error> {
        loop {
            let end = memchr::memchr(b'\n', &self.buffer[self.pending.clone()]);
            self.pending.start = end.map_or(self.pending.end, |end| self.pending.start + end + 1);
            if end.is_some() || !self.refill()? {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn lines(text: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let mut lines = LineReader::new(Trickle(text, false));
        let mut seen = Vec::new();
        while lines.advance().unwrap() {
            seen.push((lines.bytes().to_vec(), lines.is_truncated));
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
        let mut lines = LineReader::new(&b"a\nb\n"[..]);
        assert!(lines.advance().unwrap());
        lines.unread();
        assert!(lines.advance().unwrap() && lines.bytes() == b"a" && lines.number == 1);
        assert!(lines.advance().unwrap() && lines.bytes() == b"b" && lines.number == 2);
    }

    #[test]
    fn an_endless_line_is_refused_in_bounded_memory() {
        let mut lines = LineReader::new(io::repeat(b'7').take(1 << 40));
        let error = lines.parse_next("a word", |_| Some(())).unwrap_err();
        assert_eq!(error.to_string(), "line 1: longer than 1024 bytes, expected a word");
        assert_eq!(lines.source.limit(), (1 << 40) - BUFFER_BYTES as u64, "one read is enough");
    }

    #[test]
    fn lines_lie_across_the_ends_of_the_buffer() {
        // 13 bytes a line do not divide 64 KiB.
        let text: String = (0..20_000).map(|n| format!("{n:012}\n")).collect();
        let mut lines = LineReader::new(text.as_bytes());
        for n in 0..20_000 {
            assert!(lines.advance().unwrap());
            assert_eq!(lines.bytes(), format!("{n:012}").as_bytes());
        }
        assert!(!lines.advance().unwrap());
    }

    /// A source that returns a few bytes at a time and is interrupted by a signal before each read.
    struct Trickle<'a>(&'a [u8], bool);

    impl Read for Trickle<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            let few = to.len().min(3);
            if self.1 { Err(ErrorKind::Interrupted.into()) } else { self.0.read(&mut to[..few]) }
        }
    }
}
