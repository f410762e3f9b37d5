//! Goal: captured files give the samples that perf prints; files that are composed, truncated, or
//! broken in any way are read or refused, without a panic and without more memory than they have
//! bytes.

use std::fs;
use std::path::Path;

use linux_perf_event_reader::Endianness;
use nodeward_model::{Access, Accessor, CpuId};
use proptest::prelude::*;

use super::*;
use crate::perf_text;

fn fixture(name: &str) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/perf");
    fs::read(directory.join(name)).unwrap()
}

/// Returns the samples before the error, and the error.
fn samples_and_error(bytes: &[u8]) -> (Vec<PerfSample>, Option<Error>) {
    let mut read = match read(bytes) {
        Ok(read) => read,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut samples = Vec::new();
    for sample in read.by_ref() {
        match sample {
            Ok(sample) => samples.push(sample),
            Err(error) => return (samples, Some(error)),
        }
    }
    assert!(read.next().is_none(), "the end is the end");
    (samples, None)
}

fn valid_samples(bytes: &[u8]) -> Vec<PerfSample> {
    let (samples, error) = samples_and_error(bytes);
    assert!(error.is_none(), "{error:?}");
    samples
}

fn error(bytes: &[u8]) -> Error {
    samples_and_error(bytes).1.unwrap()
}

#[test]
fn captured_files_say_what_perf_says_of_them() {
    // 96 = 48 faults of two events each, of which one does not record the time.
    for (name, samples) in [("faults", 49), ("faults-pipe", 50), ("faults-two", 96)] {
        let mut ours = valid_samples(&fixture(&format!("{name}.data")));
        let text = fixture(&format!("{name}.txt"));
        let mut perfs: Vec<PerfSample> = perf_text::read(&text[..]).map(Result::unwrap).collect();
        assert_eq!(ours.len(), samples, "{name}");
        // perf prints in the order of time; samples without a time come first.
        for samples in [&mut ours, &mut perfs] {
            samples.sort_by_key(|sample| (sample.access.address, sample.access.accessor));
        }
        assert_eq!(ours, perfs, "{name}");
    }
}

#[test]
fn a_file_that_cannot_help_says_what_to_record() {
    let plain = error(&fixture("faults-plain.data"));
    assert!(matches!(plain, Error::NoAddresses { samples: 48 }), "{plain:?}");
    let no_cpu = error(&fixture("faults-nocpu.data"));
    assert!(matches!(no_cpu, Error::NoCpus { samples: 49 }), "{no_cpu:?}");
    for error in [plain, no_cpu] {
        assert!(error.to_string().contains("`perf record -d --sample-cpu`"), "{error}");
    }
    let compressed = error(&fixture("faults-zstd.data"));
    assert!(matches!(compressed, Error::PerfCompressed { at: 0x228 }), "{compressed:?}");
    assert!(matches!(error(b"PERFFILE\x68\0\0\0\0\0\0\0"), Error::PerfVersion));
    assert!(matches!(error(b"ELIFFREP\0\0\0\0\0\0\0\x68"), Error::PerfVersion));
    let shown = error(&[7; 100]).to_string();
    assert!(shown.starts_with("byte 0: expected PERFILE2"), "{shown}");
}

#[test]
fn a_file_whose_perf_was_killed_is_read_to_its_end() {
    let mut bytes = fixture("faults.data");
    let whole = valid_samples(&bytes);
    bytes[48..56].fill(0); // the size of the data, which perf fills in when it ends
    assert_eq!(valid_samples(&bytes), whole);
}

#[test]
fn a_file_that_is_cut_anywhere_has_fewer_samples_or_an_error() {
    for name in ["faults.data", "faults-pipe.data", "faults-two.data"] {
        let bytes = fixture(name);
        let whole = valid_samples(&bytes);
        let is_pipe = bytes[8] == 16;
        for length in 0..bytes.len() {
            let (samples, error) = samples_and_error(&bytes[..length]);
            assert!(whole.starts_with(&samples), "{name} cut at {length}");
            assert!(is_pipe || error.is_some(), "{name} cut at {length}");
            assert!(error.is_some() || !samples.is_empty(), "{name} cut at {length}");
        }
    }
}

#[test]
fn the_error_of_a_file_that_is_cut_names_its_end() {
    let bytes = fixture("faults.data");
    let shown = error(&bytes[..bytes.len() - 1]).to_string();
    let expected = format!("byte {}: expected more, but the file ends", bytes.len() - 1);
    assert!(shown.starts_with(&expected), "{shown}");
}

// Bits of sample_type in include/uapi/linux/perf_event.h.
const IP: u64 = 1;
const TID: u64 = 2;
const ADDR: u64 = 8;
const CPU: u64 = 0x80;
const PERIOD: u64 = 0x100;
const IDENTIFIER: u64 = 0x1_0000;
const RAW: u32 = 4; // the type of events of a processor

/// Numbers of a file in one of the two byte orders.
#[derive(Clone)]
struct ByteWriter(Endianness, Vec<u8>);

impl ByteWriter {
    fn u16(self, number: u16) -> Self {
        self.extend(&number.to_le_bytes())
    }

    fn u32(self, number: u32) -> Self {
        self.extend(&number.to_le_bytes())
    }

    fn u64(self, number: u64) -> Self {
        self.extend(&number.to_le_bytes())
    }

    fn extend(mut self, little: &[u8]) -> Self {
        match self.0 {
            Endianness::LittleEndian => self.1.extend(little),
            Endianness::BigEndian => self.1.extend(little.iter().rev()),
        }
        self
    }

    fn record(mut self, kind: u32, body: &ByteWriter) -> Self {
        let size = u16::try_from(8 + body.1.len()).unwrap();
        self = self.u32(kind).u16(0).u16(size);
        self.1.extend(&body.1);
        self
    }
}

/// The attributes of an event in their first published size, 64 bytes.
fn attributes(order: Endianness, sample_type: u64, period: u64) -> ByteWriter {
    let start = ByteWriter(order, Vec::new()).u32(RAW).u32(64).u64(0x1cd).u64(period);
    start.u64(sample_type).u64(0).u64(0).u32(0).u32(0).u64(0)
}

/// Returns a file with events of (sample_type, period, identifier).
fn file(order: Endianness, events: &[(u64, u64, u64)], records: &ByteWriter) -> Vec<u8> {
    let magic = match order {
        Endianness::LittleEndian => b"PERFILE2",
        Endianness::BigEndian => b"2ELIFREP",
    };
    let count = events.len() as u64;
    let (events_at, ids_at) = (104, 104 + 80 * count); // 80 = 64 + an offset and a size
    let data_at = ids_at + 8 * count;
    let mut bytes = ByteWriter(order, magic.to_vec()).u64(104).u64(80);
    bytes = bytes.u64(events_at).u64(80 * count).u64(data_at).u64(records.1.len() as u64);
    bytes = bytes.u64(0).u64(0).u64(0).u64(0).u64(0).u64(0);
    for (index, &(sample_type, period, _)) in events.iter().enumerate() {
        bytes.1.extend(attributes(order, sample_type, period).1);
        bytes = bytes.u64(ids_at + 8 * index as u64).u64(8);
    }
    bytes = events.iter().fold(bytes, |bytes, event| bytes.u64(event.2));
    bytes.1.extend(&records.1);
    bytes.1
}

fn expected(pid: Option<u32>, tid: u32, cpu: u32, address: u64, count: u64) -> PerfSample {
    PerfSample { pid, tid, access: Access { address, accessor: Accessor::Cpu(CpuId(cpu)), count } }
}

#[test]
fn both_orders_of_bytes_are_read() {
    for order in [Endianness::LittleEndian, Endianness::BigEndian] {
        let body = ByteWriter(order, Vec::new()).u64(0x55).u32(4711).u32(4713).u64(0x7f00_1234);
        let records = ByteWriter(order, Vec::new()).record(9, &body.u32(3).u32(0).u64(200));
        let bytes = file(order, &[(IP | TID | ADDR | CPU | PERIOD, 0, 1)], &records);
        assert_eq!(
            valid_samples(&bytes),
            [expected(Some(4711), 4713, 3, 0x7f00_1234, 200)],
            "{order:?}"
        );
    }
}

const LITTLE: Endianness = Endianness::LittleEndian;

fn empty() -> ByteWriter {
    ByteWriter(LITTLE, Vec::new())
}

#[test]
fn each_sample_is_read_as_its_event_says() {
    let events = [(IDENTIFIER | TID | ADDR | CPU, 1000, 7), (IDENTIFIER | TID | IP | CPU, 0, 8)];
    let first = empty().u64(7).u32(1).u32(2).u64(0x7f00).u32(5).u32(0);
    let second = empty().u64(8).u64(0x55).u32(1).u32(2).u32(5).u32(0);
    let unknown = empty().u64(9).u32(1).u32(2).u64(0x7f00).u32(5).u32(0);
    let records = empty().record(9, &second).record(9, &first).record(9, &unknown);
    let bytes = file(LITTLE, &events, &records);
    let mut read = read(&bytes[..]).unwrap();
    // The period is the event's, because the sample does not contain it.
    assert_eq!(read.next().unwrap().unwrap(), expected(Some(1), 2, 5, 0x7f00, 1000));
    assert_eq!(
        read.unusable(),
        UnusableSamples { without_address: 1, ..UnusableSamples::default() }
    );
    let shown = read.next().unwrap().unwrap_err().to_string();
    assert!(shown.contains("a sample of a known event"), "{shown}");
}

#[test]
fn samples_that_name_nobody_are_counted() {
    let body = |tid: u32, cpu, address| empty().u32(tid).u32(tid).u64(address).u32(cpu).u32(0);
    let records = empty()
        .record(9, &body(u32::MAX, 0, 0x7f00)) // -1: the thread was ending
        .record(9, &body(1, u32::MAX, 0x7f00))
        .record(9, &body(1, 0, 0))
        .record(9, &body(1, 0, 0x7f00));
    let bytes = file(LITTLE, &[(TID | ADDR | CPU, 1, 1)], &records);
    let mut read = read(&bytes[..]).unwrap();
    assert_eq!(read.by_ref().map(Result::unwrap).count(), 1);
    let unusable = UnusableSamples { without_address: 1, without_cpu: 1, without_thread: 1 };
    assert_eq!(read.unusable(), unusable);
}

#[test]
fn events_that_cannot_be_told_apart_are_refused() {
    let events = [(TID | ADDR | CPU, 1, 7), (TID | ADDR | CPU | IP, 1, 8)];
    let body = empty().u32(7).u32(0).u64(0x7f00).u32(5).u32(0);
    let bytes = file(LITTLE, &events, &empty().record(9, &body));
    assert!(matches!(error(&bytes), Error::Byte { .. }));
}

#[test]
fn the_trace_of_hardware_is_passed_over() {
    let sample = empty().u32(1).u32(1).u64(0x7f00).u32(0).u32(0);
    let trace = |bytes: u64| empty().record(AUXTRACE, &empty().u64(bytes).u64(0).u64(0));
    let mut records = trace(100);
    records.1.extend([9; 100]);
    let event = [(TID | ADDR | CPU, 1, 1)];
    assert!(matches!(error(&file(LITTLE, &event, &records)), Error::PerfTrace));
    assert_eq!(valid_samples(&file(LITTLE, &event, &records.record(9, &sample))).len(), 1);
    let endless = trace(u64::MAX);
    assert!(matches!(error(&file(LITTLE, &event, &endless)), Error::Byte { at: 192, .. }));
}

#[test]
fn a_pipe_names_its_events_as_it_goes() {
    let event = |id| ByteWriter(LITTLE, attributes(LITTLE, TID | ADDR | CPU, 3).1).u64(id);
    let sample = empty().u32(1).u32(1).u64(0x7f00).u32(0).u32(0);
    let start = ByteWriter(LITTLE, b"PERFILE2".to_vec()).u64(16);
    let whole = start.clone().record(HEADER_ATTR, &event(1)).record(9, &sample);
    assert_eq!(valid_samples(&whole.1), [expected(Some(1), 1, 0, 0x7f00, 3)]);
    let too_early = start.clone().record(9, &sample);
    assert!(matches!(error(&too_early.1), Error::Byte { at: 16, .. }));
    // Tracepoints come with a description of them, which follows its record.
    let mut described = start.record(HEADER_TRACING_DATA, &empty().u32(16));
    described.1.extend([9; 16]);
    let described = described.record(HEADER_ATTR, &event(1)).record(9, &sample);
    assert_eq!(valid_samples(&described.1).len(), 1);
}

#[test]
fn events_without_end_are_refused() {
    let start = ByteWriter(LITTLE, b"PERFILE2".to_vec()).u64(16);
    let different = (0..100).fold(start, |bytes, period| {
        bytes.record(HEADER_ATTR, &attributes(LITTLE, TID | ADDR | CPU, period))
    });
    let shown = error(&different.1).to_string();
    assert!(shown.ends_with("expected fewer events; record one at a time"), "{shown}");
}

proptest! {
    /// Goal: with any bit flipped, the file is read or refused, in no more steps than it has bytes.
    #[test]
    fn wrong_bits_do_no_harm(
        name in proptest::sample::select(&["faults.data", "faults-pipe.data", "faults-two.data"]),
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), 0..8), 1..9),
        within in prop_oneof![Just(300), Just(usize::MAX)], // the header has most to say
    ) {
        let mut bytes = fixture(name);
        let length = bytes.len().min(within);
        for (at, bit) in flips {
            bytes[at.index(length)] ^= 1_u8 << bit;
        }
        prop_assert!(samples_and_error(&bytes).0.len() <= bytes.len() / 8);
    }

    /// Goal: the same with any sizes and offsets.
    #[test]
    fn wrong_numbers_do_no_harm(
        word in 1..40_usize,
        number in prop_oneof![any::<u64>(), 0..20_000_u64, u64::MAX - 99..],
    ) {
        let mut bytes = fixture("faults-two.data");
        bytes[8 * word..8 * word + 8].copy_from_slice(&number.to_le_bytes());
        let mut read = match read(&bytes[..]) {
            Ok(read) => read,
            Err(_) => return Ok(()),
        };
        prop_assert!(read.by_ref().count() <= bytes.len() / 8);
        prop_assert!(read.stream.buffer.capacity() <= 2 * bytes.len());
    }
}
