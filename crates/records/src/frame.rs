//! Records in a file that grows by whole records.
//!
//! ```text
//! record = payload length u32, crc32 of the payload u32, crc32 of these 8 bytes u32, payload
//! ```
//!
//! Numbers are little-endian, payloads are encoded by postcard. The head of a record has a checksum
//! of its own, so that a damaged length is told from a truncated record.

use std::io::{self, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes in front of a payload.
pub const RECORD_HEADER_BYTES: u64 = 12;

/// Bytes that cannot be read, with all bytes after them. The records before them are valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{description} at byte {at_byte}")]
pub struct Damage {
    /// The start of the first record that cannot be read.
    pub at_byte: u64,
    /// The kind of the damage.
    pub description: String,
}

impl Damage {
    pub(crate) fn new(at_byte: u64, what: &str) -> Self {
        Self { at_byte, description: what.to_owned() }
    }
}

/// Returns a value as a record.
pub fn framed_value<T: Serialize>(value: &T) -> Vec<u8> {
    framed(&postcard::to_allocvec(value).expect("a record has nothing that cannot be told"))
}

/// Returns a payload after its head. A length of 4 GiB or more does not fit its field, but exceeds
/// every limit, so such a record is refused before it is written.
pub fn framed(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(payload.len() + RECORD_HEADER_BYTES as usize);
    frame.extend(length.to_le_bytes());
    frame.extend(crc32fast::hash(payload).to_le_bytes());
    frame.extend(crc32fast::hash(&frame).to_le_bytes());
    frame.extend(payload);
    frame
}

/// Reads records one after the other. The bytes that the input has bound the memory used, never a
/// length that it claims.
pub struct FrameReader<R> {
    input: R,
    at_byte: u64,
    buffer: Vec<u8>,
}

impl<R: Read> FrameReader<R> {
    pub fn new(input: R) -> Self {
        Self { input, at_byte: 0, buffer: Vec::new() }
    }

    /// Reads bytes that are no record; fewer at the end of the input.
    ///
    /// # Errors
    /// Those of read(2).
    pub fn raw(&mut self, bytes: u64) -> io::Result<&[u8]> {
        self.fill(bytes)?;
        self.at_byte += self.buffer.len() as u64;
        Ok(&self.buffer)
    }

    /// Returns the next record and its start; `None` at the end, and where a record is truncated.
    ///
    /// # Errors
    /// If it is damaged, or cannot be read.
    pub fn next<T: DeserializeOwned>(&mut self) -> Result<Option<(u64, T)>, Damage> {
        let at = self.at_byte;
        let unreadable = |error: io::Error| Damage::new(at, &format!("the disk fails ({error})"));
        if !self.fill(RECORD_HEADER_BYTES).map_err(unreadable)? {
            return Ok(None);
        }
        let head: Vec<u32> = self.buffer.chunks(4).map(number).collect();
        let [length, checksum, own] = head[..] else { return Ok(None) };
        if crc32fast::hash(&self.buffer[..8]) != own {
            return Err(Damage::new(at, "the head of a record is damaged"));
        }
        if !self.fill(length.into()).map_err(unreadable)? {
            return Ok(None);
        }
        if crc32fast::hash(&self.buffer) != checksum {
            return Err(Damage::new(at, "a record is damaged"));
        }
        self.at_byte = at + RECORD_HEADER_BYTES + u64::from(length);
        match postcard::take_from_bytes(&self.buffer) {
            Ok((record, [])) => Ok(Some((at, record))),
            Ok(_) | Err(_) => Err(Damage::new(at, "a record says nothing that we know")),
        }
    }

    /// Reads `bytes` bytes into the buffer; returns false if there were fewer.
    fn fill(&mut self, bytes: u64) -> io::Result<bool> {
        self.buffer.clear();
        let read = self.input.by_ref().take(bytes).read_to_end(&mut self.buffer)?;
        Ok(read as u64 == bytes)
    }
}

/// Decodes a little-endian number; missing bytes are zero.
pub fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte))
}
