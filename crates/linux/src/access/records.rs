//! The records of a ring of perf, as the kernel writes them (`enum perf_event_type` of
//! linux/perf_event.h). A sample has these fields: instruction pointer, process and thread,
//! address, CPU and, if any are wanted, user registers. Other records have no fields of samples.
//!
//! linux-perf-event-reader is not used here: it does not tell registers of 32-bit programs from
//! others, and it panics at a map record with a long build id.

use perf_event_open_sys::bindings::{
    PERF_RECORD_EXIT, PERF_RECORD_FORK, PERF_RECORD_LOST, PERF_RECORD_SAMPLE, PERF_RECORD_THROTTLE,
    PERF_SAMPLE_REGS_ABI_64,
};

/// The state of a thread at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The instruction that was interrupted.
    pub instruction: u64,
    /// The process, as this process sees its number; 0 if it is in another namespace.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The address that the event is about: that of a page fault. 0 for a clock.
    pub address: u64,
    /// The CPU.
    pub cpu: u32,
    /// The registers that were asked for, in the order of their bits; empty for none, and for a
    /// 32-bit program.
    pub registers: &'a [u64],
}

/// A process or thread that started or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadEvent {
    /// Whether it started.
    pub has_started: bool,
    /// Its process, as this process sees its number; 0 if it is in another namespace.
    pub pid: u32,
    /// Itself.
    pub tid: u32,
    /// The process of the thread that started it.
    pub starter_pid: u32,
    /// That thread. At an end its parent is told here.
    pub starter: u32,
    /// When, by the clock of its event, in nanoseconds.
    pub at_ns: u64,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingRecord<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// A process or thread that started or ended.
    Thread(ThreadEvent),
    /// Samples that were lost, with their number, or records that could not be read (one).
    Lost(u64),
    /// A record without a meaning here.
    Other,
}

/// Returns the records in `words`, which begin with a whole record. `registers` is the number of
/// registers in a sample. Ends at a record with an impossible size, which counts as one lost.
pub fn records(words: &[u64], registers: usize) -> impl Iterator<Item = RingRecord<'_>> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let (kind, sizes) = halves(*rest.first()?);
        let [_, size] = quarters(sizes);
        let Some((body, next)) = split_record(rest, usize::from(size)) else {
            rest = &[];
            return Some(RingRecord::Lost(1));
        };
        rest = next;
        Some(read(kind, body, registers))
    })
}

/// Splits the first record, of `bytes` bytes, from the rest; returns it without its header.
fn split_record(words: &[u64], bytes: usize) -> Option<(&[u64], &[u64])> {
    if !bytes.is_multiple_of(size_of::<u64>()) {
        return None;
    }
    let (record, rest) = words.split_at_checked(bytes / size_of::<u64>())?;
    Some((record.get(1..)?, rest))
}

fn read(kind: u32, body: &[u64], registers: usize) -> RingRecord<'_> {
    match (kind, body) {
        (PERF_RECORD_SAMPLE, &[instruction, task, address, cpu, ref rest @ ..]) => {
            let ((pid, tid), (cpu, _)) = (halves(task), halves(cpu));
            let registers = user_registers(rest, registers);
            RingRecord::Sample(Sample { instruction, pid, tid, address, cpu, registers })
        }
        (PERF_RECORD_FORK | PERF_RECORD_EXIT, &[processes, threads, at_ns, ..]) => {
            let ((pid, starter_pid), (tid, starter)) = (halves(processes), halves(threads));
            let has_started = kind == PERF_RECORD_FORK;
            RingRecord::Thread(ThreadEvent { has_started, pid, tid, starter_pid, starter, at_ns })
        }
        (PERF_RECORD_SAMPLE | PERF_RECORD_FORK | PERF_RECORD_EXIT | PERF_RECORD_THROTTLE, _) => {
            RingRecord::Lost(1)
        }
        (PERF_RECORD_LOST, &[_, count, ..]) => RingRecord::Lost(count),
        _ => RingRecord::Other,
    }
}

/// Returns the registers behind the word that names their kind.
fn user_registers(words: &[u64], count: usize) -> &[u64] {
    match words {
        &[abi, ref values @ ..] if abi == u64::from(PERF_SAMPLE_REGS_ABI_64) => {
            values.get(..count).unwrap_or_default()
        }
        _ => &[],
    }
}

/// Splits a word into two numbers of 32 bits, in their order in memory.
fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

/// Splits a number into two of 16 bits, in their order in memory.
fn quarters(half: u32) -> [u16; 2] {
    let [a, b, c, d] = half.to_ne_bytes();
    [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(first: u32, second: u32) -> u64 {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&first.to_ne_bytes());
        bytes[4..].copy_from_slice(&second.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    }

    /// Returns the words of a record whose header tells `bytes`.
    fn record(kind: u32, bytes: u16, body: &[u64]) -> Vec<u64> {
        let mut sizes = [0; 4];
        sizes[2..].copy_from_slice(&bytes.to_ne_bytes());
        let mut words = vec![pair(kind, u32::from_ne_bytes(sizes))];
        words.extend(body);
        words
    }

    fn whole(kind: u32, body: &[u64]) -> Vec<u64> {
        record(kind, 8 + 8 * body.len() as u16, body)
    }

    /// Goal: samples with and without registers, threads, losses, throttling and other records are
    /// told apart, each with its size. A 32-bit program (kind 1) shows no registers.
    #[test]
    fn each_record_is_told_from_others() {
        let task = [0x401000, pair(7, 8), 0x7000, pair(3, 0)];
        let with = |abi| [&task[..], &[abi, 11, 12]].concat();
        let words = [
            whole(PERF_RECORD_SAMPLE, &task),
            whole(PERF_RECORD_SAMPLE, &with(2)),
            whole(PERF_RECORD_SAMPLE, &with(1)),
            whole(PERF_RECORD_LOST, &[99, 5]),
            whole(PERF_RECORD_THROTTLE, &[1, 2, 3]),
            whole(3, &[pair(7, 8), 0]),
            whole(PERF_RECORD_FORK, &[pair(7, 6), pair(9, 8), 55]),
            whole(PERF_RECORD_EXIT, &[pair(7, 7), pair(9, 7), 66]),
        ];
        let sample = |registers| {
            RingRecord::Sample(Sample {
                instruction: 0x401000,
                pid: 7,
                tid: 8,
                address: 0x7000,
                cpu: 3,
                registers,
            })
        };
        let thread = |has_started, starter_pid, starter, at_ns| {
            let (pid, tid) = (7, 9);
            RingRecord::Thread(ThreadEvent { has_started, pid, tid, starter_pid, starter, at_ns })
        };
        let words = words.concat();
        let found: Vec<_> = records(&words, 2).collect();
        let expected = [
            sample(&[]),
            sample(&[11, 12]),
            sample(&[]),
            RingRecord::Lost(5),
            RingRecord::Lost(1),
            RingRecord::Other,
            thread(true, 6, 8, 55),
            thread(false, 7, 7, 66),
        ];
        assert_eq!(found, expected);
    }

    /// Goal: sizes that no record can have end the walk, count as lost once, and what came before
    /// is kept: none, a header's half, one that is no multiple of 8, and one beyond the end.
    #[test]
    fn impossible_sizes_end_the_walk() {
        for bytes in [0, 4, 12, 48] {
            let words = [whole(3, &[1]), record(PERF_RECORD_SAMPLE, bytes, &[1, 2, 3, 4])].concat();
            let found: Vec<_> = records(&words, 16).collect();
            assert_eq!(found, [RingRecord::Other, RingRecord::Lost(1)], "{bytes}");
        }
    }

    /// Goal: a sample that is too short for its fields is lost, not misread; one that is too short
    /// for its registers has none.
    #[test]
    fn short_samples_are_not_misread() {
        for short in [whole(PERF_RECORD_SAMPLE, &[1, 2, 3]), whole(PERF_RECORD_FORK, &[1, 2])] {
            assert_eq!(records(&short, 16).collect::<Vec<_>>(), [RingRecord::Lost(1)]);
        }
        let few = whole(PERF_RECORD_SAMPLE, &[1, pair(2, 3), 0, pair(4, 0), 2, 5, 6]);
        let found: Vec<_> = records(&few, 3).collect();
        assert!(
            matches!(found[..], [RingRecord::Sample(Sample { registers: [], .. })]),
            "{found:?}"
        );
    }

    proptest! {
        /// Goal: any words are read without a panic, and as at most one record each.
        #[test]
        fn any_words_are_read(words: Vec<u64>, registers in 0..64_usize) {
            prop_assert!(records(&words, registers).count() <= words.len());
        }

        /// Goal: records that follow each other are all found, whatever is in them.
        #[test]
        fn whole_records_are_all_found(bodies: Vec<(u32, Vec<u64>)>) {
            let words: Vec<u64> =
                bodies.iter().flat_map(|(kind, body)| whole(*kind, body)).collect();
            prop_assert_eq!(records(&words, 16).count(), bodies.len());
        }
    }
}
