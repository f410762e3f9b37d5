//! Reads samples of memory accesses as `perf script` prints them.
//!
//! The line of a sample, with optional parts in brackets, is:
//!
//! ```text
//! [COMM] [PID/]TID [CPU] [TIME:] [PERIOD] [EVENT:] ADDRESS [what follows does not matter]
//! ```
//!
//! where the CPU has brackets of its own, as `[003]`. Without a choice of fields perf prints the
//! address for memory events only; for others the first number after the event is the address of
//! the code. The symbol after it gives that away, and such a sample has no address here. (For page
//! faults with `-F +addr,+sym` perf prints a symbol after the data address too. Those are left out
//! as well: better no address than one of code.)

use std::io::BufRead;
use std::iter::Peekable;

use crate::lines::LineReader;
use crate::sample::{SampleFields, SampleTally};
use crate::{Error, PerfSample, UnusableSamples, fields};

/// Smaller numbers are no addresses: nothing is ever mapped there (vm.mmap_min_addr), and a small
/// number in the place of the address is a weight or a latency.
const ADDRESS_MIN: u64 = 4096;

/// Iterates over the samples of a text. Ends after an error; a text without a usable sample ends
/// with one.
#[derive(Debug)]
pub struct PerfText<R> {
    lines: LineReader<R>,
    tally: SampleTally,
    has_ended: bool,
}

/// Reads the output of `perf script`. Lines that are no samples are skipped: headers, call chains,
/// and events that are recorded without a CPU.
pub fn read<R: BufRead>(source: R) -> PerfText<R> {
    from_lines(LineReader::new(source))
}

/// Reads the samples in the following lines.
pub(crate) fn from_lines<R>(lines: LineReader<R>) -> PerfText<R> {
    PerfText { lines, tally: SampleTally::default(), has_ended: false }
}

impl<R> PerfText<R> {
    /// Returns the counts of samples that were left out so far.
    pub fn unusable(&self) -> UnusableSamples {
        self.tally.unusable
    }
}

impl<R: BufRead> Iterator for PerfText<R> {
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

impl<R: BufRead> PerfText<R> {
    fn next_sample(&mut self) -> Result<Option<PerfSample>, Error> {
        while self.lines.advance()? {
            // The part cut off a long line belongs to a symbol.
            let fields = sample(self.lines.bytes());
            if let Some(sample) = fields.and_then(|fields| self.tally.add(fields)) {
                return Ok(Some(sample));
            }
        }
        self.tally.error_at_end().map_or(Ok(None), Err)
    }
}

/// Parses the line of a sample.
fn sample(line: &[u8]) -> Option<SampleFields> {
    let SamplePrefix { pid, tid, cpu, rest } = sample_prefix(line)?;
    let mut words = fields::words(rest).peekable();
    words.next_if(|word| is_time(word));
    let period = period(&mut words);
    words.next_if(|word| word.ends_with(b":"));
    let address = words.next().and_then(fields::hexadecimal);
    let address =
        address.filter(|&at| at >= ADDRESS_MIN && !is_not_data_address(words.peek().copied()));
    Some(SampleFields { pid, tid, cpu: Some(cpu), address, period })
}

/// The thread and the CPU of a sample, and the rest of the line.
struct SamplePrefix<'a> {
    pid: Option<u32>,
    tid: Option<u32>,
    cpu: u32,
    rest: &'a [u8],
}

/// Finds the CPU. The name of a program may look like one (`a 1 [2]`), so one with a time after it
/// is preferred.
fn sample_prefix(line: &[u8]) -> Option<SamplePrefix<'_>> {
    if line.starts_with(b"#") {
        return None;
    }
    let mut starts = memchr::memchr_iter(b'[', line).filter_map(|at| sample_prefix_at(line, at));
    let has_time = |start: &SamplePrefix| fields::words(start.rest).next().is_some_and(is_time);
    starts.clone().find(has_time).or_else(|| starts.next())
}

/// Returns the start, if the bracket that opens here contains the CPU.
fn sample_prefix_at(line: &[u8], bracket: usize) -> Option<SamplePrefix<'_>> {
    let (before, after) = (&line[..bracket], &line[bracket + 1..]);
    let end = after.iter().position(|byte| !byte.is_ascii_digit())?;
    let (cpu, rest) = (number(&after[..end])?, after[end..].strip_prefix(b"]")?);
    let is_word =
        before.last()?.is_ascii_whitespace() && rest.first().is_none_or(u8::is_ascii_whitespace);
    let mut words = before.trim_ascii_end().rsplit(u8::is_ascii_whitespace);
    let thread = words.next().filter(|_| is_word)?;
    let (pid, tid) = match memchr::memchr(b'/', thread) {
        Some(slash) => (task(&thread[..slash])?, task(&thread[slash + 1..])?),
        None => (None, task(thread)?),
    };
    Some(SamplePrefix { pid, tid, cpu, rest })
}

/// Parses the id of a process or a thread; `Some(None)` for the -1 of one that was exiting.
fn task(word: &[u8]) -> Option<Option<u32>> {
    if word == b"-1" { Some(None) } else { number(word).map(Some) }
}

fn number(word: &[u8]) -> Option<u32> {
    fields::decimal(word).and_then(|number| number.try_into().ok())
}

/// Returns true for seconds with decimals and a colon.
fn is_time(word: &[u8]) -> bool {
    let Some((b':', time)) = word.split_last() else { return false };
    let mut parts = time.split(|&byte| byte == b'.').map(fields::decimal);
    matches!((parts.next(), parts.next(), parts.next()), (Some(Some(_)), Some(Some(_)), None))
}

/// Takes the period: a decimal number, but not the last number, which is the address.
fn period<'a>(words: &mut Peekable<impl Iterator<Item = &'a [u8]> + Clone>) -> Option<u64> {
    let mut ahead = words.clone();
    let period = fields::decimal(ahead.next()?)?;
    let next = ahead.next()?;
    let is_period = next.ends_with(b":") || fields::hexadecimal(next).is_some();
    if is_period {
        words.next();
    }
    is_period.then_some(period)
}

/// Returns true if the word after a number shows that the number is no address of data. After a
/// data address come more numbers or nothing; after the address of an instruction its symbol; and
/// after a `|` the words for the meaning of the number as a source of data.
fn is_not_data_address(next: Option<&[u8]>) -> bool {
    next.is_some_and(|word| fields::hexadecimal(word).is_none())
}

#[cfg(test)]
mod tests;
