//! Reads samples of memory accesses in a perf.data, as `perf record` writes it to a file or to a
//! pipe.
//!
//! linux-perf-event-reader decodes the samples. The file format is read here, because the crate for
//! it (linux-perf-data 0.13) has three flaws: it reserves as much memory as the file claims, so
//! that 6 KB can abort the program; it sorts all samples in memory; and it seeks. This reader holds
//! one record at a time (64 KiB at most), and of the header only the description of the events.

use std::io::{self, BufRead, Read};

use linux_perf_event_reader::RecordType;

use crate::head::fill;
use crate::sample::Tally;
use crate::{Error, Sample, Unusable};
use formats::{Formats, u16_at, u32_at, u64_at};

mod formats;
mod header;

/// Records of perf itself, from PERF_RECORD_HEADER_ATTR in tools/lib/perf/include/perf/event.h.
const HEADER_ATTR: u32 = 64;
const HEADER_TRACING_DATA: u32 = 66;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// Bytes of the head of a record: its kind, some flags, its size.
const HEAD_BYTES: u64 = 8;

/// Iterates over the samples of a file. Ends after an error; a file without a usable sample ends
/// with one.
#[derive(Debug)]
pub struct PerfData<R> {
    stream: Stream<R>,
    /// The end of the records; `None` if they end with the file.
    end: Option<u64>,
    formats: Formats,
    tally: Tally,
    has_trace: bool,
    is_over: bool,
}

/// Returns true if these first bytes of a file are those of a perf.data, of any version.
pub fn is_perf_data(head: &[u8]) -> bool {
    !matches!(header::byte_order(head), Err(Error::Byte { .. }))
}

/// Reads the header of a file at once, and its samples on demand, in the order in which they were
/// written.
pub fn read<R: BufRead>(source: R) -> Result<PerfData<R>, Error> {
    let mut stream = Stream { source, at: 0, bytes: Vec::new() };
    let (formats, end) = header::read(&mut stream)?;
    let tally = Tally::default();
    Ok(PerfData { stream, end, formats, tally, has_trace: false, is_over: false })
}

impl<R> PerfData<R> {
    /// Returns the counts of samples that were left out so far.
    pub fn unusable(&self) -> Unusable {
        self.tally.unusable
    }
}

impl<R: BufRead> Iterator for PerfData<R> {
    type Item = Result<Sample, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.next_sample();
        self.is_over = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

impl<R: BufRead> PerfData<R> {
    fn next_sample(&mut self) -> Result<Option<Sample>, Error> {
        loop {
            let at = self.stream.at;
            let Some(kind) = self.next_record()? else { break };
            let body = &self.stream.bytes;
            if kind == RecordType::SAMPLE.0 {
                let fields = self.formats.decode(body, at)?;
                if let Some(sample) = self.tally.enter(fields) {
                    return Ok(Some(sample));
                }
            } else if kind == HEADER_ATTR {
                self.formats.add_record(body, at)?;
            } else if kind == COMPRESSED || kind == COMPRESSED2 {
                return Err(Error::PerfCompressed { at });
            }
        }
        match self.tally.verdict() {
            Some(Error::NoSamples) if self.has_trace => Err(Error::PerfTrace),
            verdict => verdict.map_or(Ok(None), Err),
        }
    }

    /// Reads the body of the next record, and skips data that may follow it; returns its kind.
    fn next_record(&mut self) -> Result<Option<u32>, Error> {
        let at = self.stream.at;
        let is_end = match self.end {
            Some(end) => end == at,
            None => fill(&mut self.stream.source)?.is_empty(),
        };
        if is_end {
            return Ok(None);
        }
        let order = self.formats.order();
        self.stream.take(HEAD_BYTES)?;
        let kind = u32_at(&self.stream.bytes, 0, order);
        let size = u16_at(&self.stream.bytes, 6, order);
        let body = size.and_then(|size| u64::from(size).checked_sub(HEAD_BYTES));
        self.stream.take(self.within_data(body, at)?)?;
        let follows = match kind {
            Some(AUXTRACE) => u64_at(&self.stream.bytes, 0, order),
            Some(HEADER_TRACING_DATA) => u32_at(&self.stream.bytes, 0, order).map(u64::from),
            _ => Some(0),
        };
        self.stream.pass(self.within_data(follows, at)?)?;
        self.has_trace |= kind == Some(AUXTRACE);
        Ok(kind)
    }

    /// Returns a count of bytes that follow, if they end within the data.
    fn within_data(&self, count: Option<u64>, record_at: u64) -> Result<u64, Error> {
        let expected = "a record that ends within the data; copy the file whole";
        let ends = |count: &u64| self.stream.at.checked_add(*count);
        let is_within = |count: &u64| ends(count).is_some_and(|to| to <= self.end.unwrap_or(to));
        count.filter(is_within).ok_or(Error::Byte { at: record_at, expected })
    }
}

/// The expected content at the end of a truncated file.
const MORE: &str = "more, but the file ends; copy it whole, or end perf record with Ctrl-C";

/// A source, the offset in it, and the bytes that are held.
#[derive(Debug)]
struct Stream<R> {
    source: R,
    at: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> Stream<R> {
    /// Reads the next bytes in place of those before.
    fn take(&mut self, count: u64) -> Result<(), Error> {
        self.bytes.clear();
        self.take_more(count)
    }

    /// Reads the next bytes, after those before. Memory grows with the bytes that exist, not with
    /// the count that a file claims.
    fn take_more(&mut self, count: u64) -> Result<(), Error> {
        let read = self.source.by_ref().take(count).read_to_end(&mut self.bytes)?;
        self.moved(read as u64, count)
    }

    /// Skips the next bytes.
    fn pass(&mut self, count: u64) -> Result<(), Error> {
        let passed = io::copy(&mut self.source.by_ref().take(count), &mut io::sink())?;
        self.moved(passed, count)
    }

    fn moved(&mut self, by: u64, wanted: u64) -> Result<(), Error> {
        self.at += by;
        if by == wanted { Ok(()) } else { Err(Error::Byte { at: self.at, expected: MORE }) }
    }
}

#[cfg(test)]
mod tests;
