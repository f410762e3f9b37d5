//! Code for tests.

use crate::CodeReader;

/// Code at an address, with nothing mapped around it.
#[derive(Clone, Debug)]
pub struct CodeAt {
    pub start: u64,
    pub bytes: Vec<u8>,
}

impl CodeReader for CodeAt {
    fn read(&mut self, address: u64, into: &mut [u8]) -> usize {
        let offset = address.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let bytes = offset.and_then(|at| self.bytes.get(at..)).unwrap_or(&[]);
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        length
    }
}
