//! The first bytes of a source, from which its format is told.

use std::io::{self, BufRead, Chain, Cursor, ErrorKind, Read};

/// How much is looked at. A pipe may hand over its first bytes one by one, so they are collected.
const HEAD_BYTES: usize = 4096;

/// A source whose first bytes were looked at: what is read of it begins with them again.
pub type Head<R> = Chain<Cursor<Vec<u8>>, R>;

/// Collects the first bytes.
pub fn of<R: BufRead>(mut source: R) -> io::Result<Head<R>> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES);
    source.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(Cursor::new(bytes).chain(source))
}

/// What a source has next, again after a signal; empty at its end.
pub fn fill(source: &mut impl BufRead) -> io::Result<&[u8]> {
    // The first answer cannot be returned as it is: the borrow would last into the next turn.
    while let Err(error) = source.fill_buf() {
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
    source.fill_buf()
}

/// The first bytes of a source that was not read yet.
pub fn bytes<R>(head: &Head<R>) -> &[u8] {
    head.get_ref().0.get_ref()
}

/// Whether the first bytes look like text: no NUL and no other control character but tabs and line
/// ends. Bytes beyond ASCII count as text, because a comment may hold them in any encoding, and an
/// address that is no text has a zero byte at its end.
pub fn is_text<R>(head: &Head<R>) -> bool {
    let is_text = |byte: &u8| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\r' | b'\n');
    bytes(head).iter().all(is_text)
}
