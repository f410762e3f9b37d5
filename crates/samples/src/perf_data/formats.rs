//! The fields of the samples of each event.

use std::collections::BTreeMap;

use byteorder::{BigEndian, LittleEndian};
use linux_perf_event_reader::{
    Endianness, PerfEventAttr, RawData, RecordParseInfo, SampleFormat, SampleRecord, SamplingPolicy,
};

use crate::Error;
use crate::sample::SampleFields;

/// Limit on the formats of samples in one file; perf itself makes two or three.
const FORMATS_MAX: usize = 64;
/// Limit on identifiers of events, one for each event on each CPU or thread: about 50 MB of them.
const IDS_MAX: usize = 1 << 20;

/// The fields of a sample up to its period. The length of the fields after them depends on the
/// sample, and newer kernels have some that the decoder does not know.
const DECODED: SampleFormat = SampleFormat::IDENTIFIER
    .union(SampleFormat::IP)
    .union(SampleFormat::TID)
    .union(SampleFormat::TIME)
    .union(SampleFormat::ADDR)
    .union(SampleFormat::ID)
    .union(SampleFormat::STREAM_ID)
    .union(SampleFormat::CPU)
    .union(SampleFormat::PERIOD);

/// The formats of all events of a file.
#[derive(Debug)]
pub struct EventFormats {
    byte_order: Endianness,
    formats: Vec<EventFormat>,
    by_id: BTreeMap<u64, usize>,
}

impl EventFormats {
    /// Returns an empty set of formats.
    pub fn new(order: Endianness) -> Self {
        Self { byte_order: order, formats: Vec::new(), by_id: BTreeMap::new() }
    }

    /// Returns the byte order of the file.
    pub fn byte_order(&self) -> Endianness {
        self.byte_order
    }

    /// Adds the event of an attribute record, which is at offset `at`.
    pub fn add_record(&mut self, body: &[u8], at: u64) -> Result<(), Error> {
        let ids = u32_at(body, 4, self.byte_order).and_then(|size| body.get(size as usize..));
        self.add(body, ids.unwrap_or_default(), at)
    }

    /// Adds an event: its attributes (struct perf_event_attr) and its identifiers.
    pub fn add(&mut self, attributes: &[u8], ids: &[u8], at: u64) -> Result<(), Error> {
        let attributes = match self.byte_order {
            Endianness::LittleEndian => PerfEventAttr::parse::<_, LittleEndian>(attributes),
            Endianness::BigEndian => PerfEventAttr::parse::<_, BigEndian>(attributes),
        };
        let expected = "an event that this version knows; hand over what perf script prints";
        let (attributes, _) = attributes.map_err(|_| Error::Byte { at, expected })?;
        let format = self.format_index(&attributes);
        let is_too_much =
            format >= FORMATS_MAX || self.by_id.len() + ids.len() / size_of::<u64>() > IDS_MAX;
        if is_too_much {
            let expected = "fewer events; record one at a time";
            return Err(Error::Byte { at, expected });
        }
        let ids =
            ids.chunks_exact(size_of::<u64>()).filter_map(|id| u64_at(id, 0, self.byte_order));
        self.by_id.extend(ids.map(|id| (id, format)));
        Ok(())
    }

    /// Returns the index of a format, which is added if it is new.
    fn format_index(&mut self, attributes: &PerfEventAttr) -> usize {
        let mut info = RecordParseInfo::new(attributes, self.byte_order);
        info.sample_format &= DECODED;
        let period = match attributes.sampling_policy {
            SamplingPolicy::Period(period) => Some(period.get()),
            _ => None,
        };
        let is_same =
            |f: &EventFormat| f.info.sample_format == info.sample_format && f.period == period;
        self.formats.iter().position(is_same).unwrap_or_else(|| {
            self.formats.push(EventFormat { info, period });
            self.formats.len() - 1
        })
    }

    /// Decodes a sample, which is at offset `at`.
    pub fn decode(&self, body: &[u8], at: u64) -> Result<SampleFields, Error> {
        let expected = "a sample of a known event, with all its fields; copy the file whole";
        let wrong = || Error::Byte { at, expected };
        let format = self.format_of(body).ok_or_else(wrong)?;
        let data = RawData::Single(body);
        let sample = match self.byte_order {
            Endianness::LittleEndian => SampleRecord::parse::<LittleEndian>(data, 0, &format.info),
            Endianness::BigEndian => SampleRecord::parse::<BigEndian>(data, 0, &format.info),
        };
        let sample = sample.map_err(|_| wrong())?;
        let task = |id: Option<i32>| id.and_then(|id| u32::try_from(id).ok());
        Ok(SampleFields {
            pid: task(sample.pid),
            tid: task(sample.tid),
            cpu: sample.cpu,
            address: sample.addr,
            period: sample.period.or(format.period),
        })
    }

    /// If formats differ, the sample begins with the identifier of its event.
    fn format_of(&self, body: &[u8]) -> Option<&EventFormat> {
        match &self.formats[..] {
            [only] => Some(only),
            formats => {
                let format = &formats[*self.by_id.get(&u64_at(body, 0, self.byte_order)?)?];
                format.info.sample_format.contains(SampleFormat::IDENTIFIER).then_some(format)
            }
        }
    }
}

/// The format of the samples of some events.
#[derive(Debug)]
struct EventFormat {
    info: RecordParseInfo,
    /// The period, for samples that do not contain it.
    period: Option<u64>,
}

macro_rules! number_at {
    ($name:ident, $number:ty) => {
        /// Reads a number at an offset, if the bytes reach that far.
        pub fn $name(bytes: &[u8], at: usize, order: Endianness) -> Option<$number> {
            let bytes = *bytes.get(at..)?.first_chunk()?;
            Some(match order {
                Endianness::LittleEndian => <$number>::from_le_bytes(bytes),
                Endianness::BigEndian => <$number>::from_be_bytes(bytes),
            })
        }
    };
}

number_at!(u16_at, u16);
number_at!(u32_at, u32);
number_at!(u64_at, u64);
