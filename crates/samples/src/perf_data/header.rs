//! Reads the header of a perf.data, up to its records (struct perf_file_header in tools/perf/util).

use std::io::BufRead;

use linux_perf_event_reader::Endianness;

use super::formats::{EventFormats, u64_at};
use super::stream::PerfStream;
use crate::Error;

/// The header in a pipe: the magic and this size. Records then describe the events too.
const PIPE_HEADER_BYTES: u64 = 16;
/// The part of a file's header that is read: sizes, and the positions of attributes and records.
const FILE_HEADER_BYTES: u64 = 72;
/// Limit on the bytes before the data: only many events on many CPUs have more, with their
/// identifiers.
const HEADER_BYTES_MAX: u64 = 16 << 20;
/// An offset and a size, after the attributes of each event: the position of its identifiers.
const SECTION_BYTES: usize = 16;

/// Returns the byte order of a file that begins with these bytes.
pub fn byte_order(magic: &[u8]) -> Result<Endianness, Error> {
    match magic.first_chunk() {
        Some(b"PERFILE2") => Ok(Endianness::LittleEndian),
        Some(b"2ELIFREP") => Ok(Endianness::BigEndian),
        Some(b"PERFFILE" | b"ELIFFREP") => Err(Error::PerfVersion),
        _ => Err(Error::Byte { at: 0, expected: "PERFILE2, with which a perf.data begins" }),
    }
}

/// Reads up to the first record: the events, and the offset at which records end if that is before
/// the end of the file.
pub fn read(stream: &mut PerfStream<impl BufRead>) -> Result<(EventFormats, Option<u64>), Error> {
    stream.read(PIPE_HEADER_BYTES)?;
    let order = byte_order(&stream.buffer)?;
    match u64_at(&stream.buffer, 8, order) {
        Some(PIPE_HEADER_BYTES) => Ok((EventFormats::new(order), None)),
        Some(FILE_HEADER_BYTES..) => read_file(stream, order),
        _ => Err(Error::Byte { at: 8, expected: "the size of a header; copy the file whole" }),
    }
}

fn read_file(
    stream: &mut PerfStream<impl BufRead>,
    order: Endianness,
) -> Result<(EventFormats, Option<u64>), Error> {
    stream.read_more(FILE_HEADER_BYTES - PIPE_HEADER_BYTES)?;
    let number = |at| u64_at(&stream.buffer, at, order).unwrap_or_default();
    let (entry_bytes, events) = (number(16), (number(24), number(32)));
    let (data, data_bytes) = (number(40), number(48));
    let expected = "records behind the header and its events, as perf record writes them; hand \
                    over what perf script prints";
    if !(FILE_HEADER_BYTES..=HEADER_BYTES_MAX).contains(&data) {
        return Err(Error::Byte { at: 40, expected });
    }
    let end = data.checked_add(data_bytes).ok_or(Error::Byte { at: 48, expected })?;
    stream.read_more(data - FILE_HEADER_BYTES)?;
    let formats = formats(&stream.buffer, entry_bytes, events, order);
    // perf writes the size of its data when it ends; before, or if it is killed, it is 0.
    Ok((formats.ok_or(Error::Byte { at: 16, expected })??, (data_bytes > 0).then_some(end)))
}

/// Parses the events in the bytes before the data; `None` if they are not where the header claims.
fn formats(
    bytes: &[u8],
    entry_bytes: u64,
    events: (u64, u64),
    order: Endianness,
) -> Option<Result<EventFormats, Error>> {
    let mut formats = EventFormats::new(order);
    let ids_at = usize::try_from(entry_bytes).ok()?.checked_sub(SECTION_BYTES)?;
    let entries = section(bytes, events)?.chunks_exact(ids_at + SECTION_BYTES);
    for (entry, at) in entries.zip((events.0..).step_by(ids_at + SECTION_BYTES)) {
        let (offset, size) = (u64_at(entry, ids_at, order)?, u64_at(entry, ids_at + 8, order)?);
        let ids = section(bytes, (offset, size))?;
        if let Err(error) = formats.add(&entry[..ids_at], ids, at) {
            return Some(Err(error));
        }
    }
    Some(Ok(formats))
}

fn section(bytes: &[u8], (offset, size): (u64, u64)) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(size).ok()?)?)
}
