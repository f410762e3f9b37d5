//! Cuts the bytes that come in over one connection into messages.

use crate::errors::CallError;
use crate::limits::MESSAGE_BYTES_MAX;

/// Bytes that came in and were not taken yet: messages, each with a zero byte behind it, and the
/// beginning of a further message.
#[derive(Debug, Default)]
pub struct MessageBuffer {
    bytes: Vec<u8>,
    /// Bytes at the front that were taken.
    taken: usize,
    /// Number of untaken bytes in which no end of a message was found.
    searched: usize,
}

impl MessageBuffer {
    /// Adds what came. The caller adds nothing while a message waits to be taken, so that the
    /// buffer holds a message and one read at most.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next complete message, without its zero byte.
    ///
    /// # Errors
    /// If it is longer than the limit, also before it is complete.
    pub fn take(&mut self) -> Result<Option<&[u8]>, CallError> {
        let start = self.taken;
        let rest = &self.bytes[start..];
        let end = rest[self.searched..].iter().position(|&byte| byte == 0);
        let length = end.map_or(rest.len(), |end| self.searched + end);
        if length > MESSAGE_BYTES_MAX {
            let message = format!("a message has more than {MESSAGE_BYTES_MAX} bytes");
            return Err(CallError::BadMessage { message });
        }
        if end.is_none() {
            self.searched = length;
            return Ok(None);
        }
        (self.taken, self.searched) = (start + length + 1, 0);
        Ok(Some(&self.bytes[start..start + length]))
    }

    /// Returns whether a message has begun and is not complete, as far as [`Self::take`] saw.
    pub fn is_partial(&self) -> bool {
        self.taken < self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: half a message is none; a message that never ends is refused at the limit.
    #[test]
    fn messages_end_with_a_zero() {
        let mut buffer = MessageBuffer::default();
        buffer.push(b"{\"a\"");
        assert_eq!(buffer.take(), Ok(None));
        assert!(buffer.is_partial());
        buffer.push(b":1}\0{}\0x");
        assert_eq!(buffer.take(), Ok(Some(&b"{\"a\":1}"[..])));
        assert_eq!(buffer.take(), Ok(Some(&b"{}"[..])));
        assert_eq!(buffer.take(), Ok(None));
        buffer.push(&vec![b'x'; MESSAGE_BYTES_MAX]);
        assert!(buffer.take().is_err(), "one byte more than the limit");
    }

    proptest! {
        /// Goal: however the bytes are cut into reads, the same messages come out.
        #[test]
        fn reads_may_be_cut_anywhere(
            bytes in proptest::collection::vec(0_u8..4, 0..300),
            read in 1_usize..20,
        ) {
            let mut buffer = MessageBuffer::default();
            let mut found: Vec<Vec<u8>> = Vec::new();
            for piece in bytes.chunks(read) {
                buffer.push(piece);
                while let Some(message) = buffer.take().unwrap() {
                    found.push(message.to_vec());
                }
            }
            let mut expected: Vec<Vec<u8>> =
                bytes.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
            expected.pop(); // what is behind the last zero is no message yet
            prop_assert_eq!(found, expected);
        }
    }
}
