//! The first bytes of a source, which tell its format.

use std::io::{self, BufRead, Chain, Cursor, ErrorKind, Read};

/// The number of first bytes. A pipe may return them one by one, so they are collected.
const PEEKED_BYTES: usize = 4096;

/// A source whose first bytes were read: reading it begins with them again.
pub type PeekedSource<R> = Chain<Cursor<Vec<u8>>, R>;

/// Collects the first bytes.
pub fn peek<R: BufRead>(mut source: R) -> io::Result<PeekedSource<R>> {
    let mut bytes = Vec::with_capacity(PEEKED_BYTES);
    source.by_ref().take(PEEKED_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(Cursor::new(bytes).chain(source))
}

/// Returns the next bytes of a source, after retries for signals; empty at its end.
pub fn fill(source: &mut impl BufRead) -> io::Result<&[u8]> {
    // The first result cannot be returned directly: the borrow would last into the next iteration.
    while let Err(error) = source.fill_buf() {
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    source.fill_buf()
}

/// Returns the first bytes of a source that was not read yet.
pub fn peeked_bytes<R>(head: &PeekedSource<R>) -> &[u8] {
    head.get_ref().0.get_ref()
}

/// Returns true if the first bytes look like text: no NUL and no other control character but tabs
/// and line ends. Bytes beyond ASCII count as text, because a comment may hold them in any
/// encoding, and a binary address has a zero byte at its end.
pub fn is_text<R>(head: &PeekedSource<R>) -> bool {
    let is_text = |byte: &u8| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\r' | b'\n');
    peeked_bytes(head).iter().all(is_text)
}
