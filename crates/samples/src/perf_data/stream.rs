//! Reads bytes of a file that may claim more than it has.

use std::io::{self, BufRead, Read};

use crate::Error;

/// The expected content at the end of a truncated file.
const EXPECTED_MORE_BYTES: &str =
    "more, but the file ends; copy it whole, or end perf record with Ctrl-C";

/// A source, the offset in it, and the bytes that are held.
#[derive(Debug)]
pub struct PerfStream<R> {
    pub source: R,
    pub offset: u64,
    pub buffer: Vec<u8>,
}

impl<R: BufRead> PerfStream<R> {
    /// Reads the next bytes in place of those before.
    pub fn read(&mut self, count: u64) -> Result<(), Error> {
        self.buffer.clear();
        self.read_more(count)
    }

    /// Reads the next bytes, after those before. Memory grows with the bytes that exist, not with
    /// the count that a file claims.
    pub fn read_more(&mut self, count: u64) -> Result<(), Error> {
        let read = self.source.by_ref().take(count).read_to_end(&mut self.buffer)?;
        self.advance(read as u64, count)
    }

    /// Skips the next bytes.
    pub fn skip(&mut self, count: u64) -> Result<(), Error> {
        let passed = io::copy(&mut self.source.by_ref().take(count), &mut io::sink())?;
        self.advance(passed, count)
    }

    fn advance(&mut self, by: u64, wanted: u64) -> Result<(), Error> {
        self.offset += by;
        if by == wanted {
            Ok(())
        } else {
            Err(Error::Byte { at: self.offset, expected: EXPECTED_MORE_BYTES })
        }
    }
}
