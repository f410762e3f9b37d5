//! Reads samples of memory accesses in a perf.data, as `perf record` writes it to a file or to a
//! pipe.
//!
//! linux-perf-event-reader decodes the samples. The file format is read here, because the crate for
//! it (linux-perf-data 0.13) has three flaws: it reserves as much memory as the file claims, so
//! that 6 KB can abort the program; it sorts all samples in memory; and it seeks. This reader holds
//! one record at a time (64 KiB at most), and of the header only the description of the events.

use std::io::BufRead;

use linux_perf_event_reader::RecordType;

use crate::peek::fill;
use crate::sample::SampleTally;
use crate::{Error, PerfSample, UnusableSamples};
use formats::{EventFormats, u16_at, u32_at, u64_at};
use stream::PerfStream;

mod formats;
mod header;
mod stream;

/// Records of perf itself, from PERF_RECORD_HEADER_ATTR in tools/lib/perf/include/perf/event.h.
const HEADER_ATTR: u32 = 64;
const HEADER_TRACING_DATA: u32 = 66;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// Bytes of the head of a record: its kind, some flags, its size.
const RECORD_HEADER_BYTES: u64 = 8;

/// Iterates over the samples of a file. Ends after an error; a file without a usable sample ends
/// with one.
#[derive(Debug)]
pub struct PerfData<R> {
    stream: PerfStream<R>,
    /// The end of the records; `None` if they end with the file.
    end: Option<u64>,
    formats: EventFormats,
    tally: SampleTally,
    has_trace: bool,
    has_ended: bool,
}

/// Returns true if these first bytes of a file are those of a perf.data, of any version.
pub fn is_perf_data(head: &[u8]) -> bool {
    !matches!(header::byte_order(head), Err(Error::Byte { .. }))
}

/// Reads the header of a file at once, and its samples on demand, in the order in which they were
/// written.
pub fn read<R: BufRead>(source: R) -> Result<PerfData<R>, Error> {
    let mut stream = PerfStream { source, offset: 0, buffer: Vec::new() };
    let (formats, end) = header::read(&mut stream)?;
    let tally = SampleTally::default();
    Ok(PerfData { stream, end, formats, tally, has_trace: false, has_ended: false })
}

impl<R> PerfData<R> {
    /// Returns the counts of samples that were left out so far.
    pub fn unusable(&self) -> UnusableSamples {
        self.tally.unusable
    }
}

impl<R: BufRead> Iterator for PerfData<R> {
    type Item = Result<PerfSample, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.next_sample();
        self.has_ended = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

impl<R: BufRead> PerfData<R> {
    fn next_sample(&mut self) -> Result<Option<PerfSample>, Error> {
        loop {
            let at = self.stream.offset;
            let Some(kind) = self.next_record()? else { break };
            let body = &self.stream.buffer;
            if kind == RecordType::SAMPLE.0 {
                let fields = self.formats.decode(body, at)?;
                if let Some(sample) = self.tally.add(fields) {
                    return Ok(Some(sample));
                }
            } else if kind == HEADER_ATTR {
                self.formats.add_record(body, at)?;
            } else if kind == COMPRESSED || kind == COMPRESSED2 {
                return Err(Error::PerfCompressed { at });
            }
        }
        match self.tally.error_at_end() {
            Some(Error::NoSamples) if self.has_trace => Err(Error::PerfTrace),
            verdict => verdict.map_or(Ok(None), Err),
        }
    }

    /// Reads the body of the next record, and skips data that may follow it; returns its kind.
    fn next_record(&mut self) -> Result<Option<u32>, Error> {
        let at = self.stream.offset;
        let is_end = match self.end {
            Some(end) => end == at,
            None => fill(&mut self.stream.source)?.is_empty(),
        };
        if is_end {
            return Ok(None);
        }
        let order = self.formats.byte_order();
        self.stream.read(RECORD_HEADER_BYTES)?;
        let kind = u32_at(&self.stream.buffer, 0, order);
        let size = u16_at(&self.stream.buffer, 6, order);
        let body = size.and_then(|size| u64::from(size).checked_sub(RECORD_HEADER_BYTES));
        self.stream.read(self.within_data(body, at)?)?;
        let follows = match kind {
            Some(AUXTRACE) => u64_at(&self.stream.buffer, 0, order),
            Some(HEADER_TRACING_DATA) => u32_at(&self.stream.buffer, 0, order).map(u64::from),
            _ => Some(0),
        };
        self.stream.skip(self.within_data(follows, at)?)?;
        self.has_trace |= kind == Some(AUXTRACE);
        Ok(kind)
    }

    /// Returns a count of bytes that follow, if they end within the data.
    fn within_data(&self, count: Option<u64>, record_at: u64) -> Result<u64, Error> {
        let expected = "a record that ends within the data; copy the file whole";
        let ends = |count: &u64| self.stream.offset.checked_add(*count);
        let is_within = |count: &u64| ends(count).is_some_and(|to| to <= self.end.unwrap_or(to));
        count.filter(is_within).ok_or(Error::Byte { at: record_at, expected })
    }
}

#[cfg(test)]
mod tests;
