//! Samples of memory accesses as `perf script` prints them.
//!
//! A line of a sample is, with what may be absent in brackets:
//!
//! ```text
//! [COMM] [PID/]TID [CPU] [TIME:] [PERIOD] [EVENT:] ADDRESS [what follows does not matter]
//! ```
//!
//! where the CPU stands in brackets of its own, as `[003]`. Without a choice of fields perf prints
//! the address for memory events only; for others the first number behind the event tells where the
//! code is. What gives that away is the symbol behind it, and such a sample has no address here.
//! (For page faults with `-F +addr,+sym` perf puts a symbol behind the address, too. Those are left
//! out as well: better no address than one of code.)

use std::io::BufRead;
use std::iter::Peekable;

use crate::lines::Lines;
use crate::sample::{Fields, Tally};
use crate::{Error, Sample, Unusable, fields};

/// Addresses below are none: nothing is ever mapped there (vm.mmap_min_addr), and a small number in
/// the place of the address is a weight or a latency.
const ADDRESS_MIN: u64 = 4096;

/// The samples of a text. Ends after an error; a text without a sample of use ends with one.
#[derive(Debug)]
pub struct PerfText<R> {
    lines: Lines<R>,
    tally: Tally,
    is_over: bool,
}

/// Reads the output of `perf script`. Lines that are no samples are skipped: headers, call chains,
/// and events that are recorded without a CPU.
pub fn read<R: BufRead>(source: R) -> PerfText<R> {
    of(Lines::new(source))
}

/// The samples in the lines that follow.
pub(crate) fn of<R>(lines: Lines<R>) -> PerfText<R> {
    PerfText { lines, tally: Tally::default(), is_over: false }
}

impl<R> PerfText<R> {
    /// The samples that were left out so far.
    pub fn unusable(&self) -> Unusable {
        self.tally.unusable
    }
}

impl<R: BufRead> Iterator for PerfText<R> {
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

impl<R: BufRead> PerfText<R> {
    fn next_sample(&mut self) -> Result<Option<Sample>, Error> {
        while self.lines.advance()? {
            // What was cut off a long line is part of a symbol.
            let fields = sample(self.lines.bytes());
            if let Some(sample) = fields.and_then(|fields| self.tally.enter(fields)) {
                return Ok(Some(sample));
            }
        }
        self.tally.verdict().map_or(Ok(None), Err)
    }
}

/// What a line says, if it is that of a sample.
fn sample(line: &[u8]) -> Option<Fields> {
    let Start { pid, tid, cpu, rest } = start(line)?;
    let mut words = fields::words(rest).peekable();
    words.next_if(|word| is_time(word));
    let period = period(&mut words);
    words.next_if(|word| word.ends_with(b":"));
    let address = words.next().and_then(fields::hexadecimal);
    let address = address.filter(|&at| at >= ADDRESS_MIN && !is_no_data(words.peek().copied()));
    Some(Fields { pid, tid, cpu: Some(cpu), address, period })
}

/// The thread and the CPU of a sample, and the line behind them.
struct Start<'a> {
    pid: Option<u32>,
    tid: Option<u32>,
    cpu: u32,
    rest: &'a [u8],
}

/// Finds the CPU. The name of a program may look like one (`a 1 [2]`), so that one with a time
/// behind it goes before one without.
fn start(line: &[u8]) -> Option<Start<'_>> {
    if line.starts_with(b"#") {
        return None;
    }
    let mut starts = memchr::memchr_iter(b'[', line).filter_map(|at| start_at(line, at));
    let has_time = |start: &Start| fields::words(start.rest).next().is_some_and(is_time);
    starts.clone().find(has_time).or_else(|| starts.next())
}

/// The start, if the CPU stands in the bracket that opens here.
fn start_at(line: &[u8], bracket: usize) -> Option<Start<'_>> {
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
    Some(Start { pid, tid, cpu, rest })
}

/// A process or a thread; `Some(None)` for the -1 of one that was ending.
fn task(word: &[u8]) -> Option<Option<u32>> {
    if word == b"-1" { Some(None) } else { number(word).map(Some) }
}

fn number(word: &[u8]) -> Option<u32> {
    fields::decimal(word).and_then(|number| number.try_into().ok())
}

/// Seconds with decimals and a colon.
fn is_time(word: &[u8]) -> bool {
    let Some((b':', time)) = word.split_last() else { return false };
    let mut parts = time.split(|&byte| byte == b'.').map(fields::decimal);
    matches!((parts.next(), parts.next(), parts.next()), (Some(Some(_)), Some(Some(_)), None))
}

/// Takes the period off: a decimal number, but not the last one, for that is the address.
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

/// Whether the word behind a number tells that the number is no address of data. Behind such an
/// address stand more numbers or nothing; behind an instruction's, its symbol; and behind a `|` the
/// words for what the number means as a source of data.
fn is_no_data(next: Option<&[u8]>) -> bool {
    next.is_some_and(|word| fields::hexadecimal(word).is_none())
}

#[cfg(test)]
mod tests;
