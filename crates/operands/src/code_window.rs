//! The bytes of code around an address.

use std::hash::{DefaultHasher, Hasher};

use crate::CodeReader;

/// Bytes before the instruction pointer in which instructions are sought. Starts of decoding need
/// some instructions to agree, and eight instructions take some 36 bytes on x86-64.
const BYTES_BEFORE: u64 = 96;
/// Bytes behind the instruction pointer in which branches are sought that lead to those
/// instructions: some 60 instructions. With 1024 bytes no more operands of real programs were
/// right.
const BYTES_AFTER: u64 = 256;
/// The smallest pages that code is mapped in.
const PAGE_BYTES: u64 = 4096;

/// Consecutive bytes of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeWindow {
    start: u64,
    bytes: Vec<u8>,
}

impl CodeWindow {
    /// Reads the code before and after `pc`; only from the page of `pc` on if nothing is mapped
    /// before that.
    pub fn around(code: &mut dyn CodeReader, pc: u64) -> Self {
        let start = pc.saturating_sub(BYTES_BEFORE);
        let window = Self::read(code, start, pc - start + BYTES_AFTER);
        if !window.bytes_from(pc).is_empty() {
            return window;
        }
        let start = start.max(pc / PAGE_BYTES * PAGE_BYTES);
        Self::read(code, start, pc - start + BYTES_AFTER)
    }

    /// Reads the code from an address on.
    pub fn after(code: &mut dyn CodeReader, address: u64) -> Self {
        Self::read(code, address, BYTES_AFTER)
    }

    fn read(code: &mut dyn CodeReader, start: u64, length: u64) -> Self {
        let mut bytes = vec![0; length as usize];
        let read = code.read(start, &mut bytes);
        bytes.truncate(read);
        Self { start, bytes }
    }

    /// Returns the address of the first byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes from an address on; none if the window does not have it.
    pub fn bytes_from(&self, address: u64) -> &[u8] {
        let skipped =
            address.checked_sub(self.start).and_then(|skipped| usize::try_from(skipped).ok());
        skipped.and_then(|skipped| self.bytes.get(skipped..)).unwrap_or(&[])
    }

    /// Returns a number that other code has with a chance of 1 in 2^64.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.start);
        hasher.write(&self.bytes);
        hasher.finish()
    }
}
