//! A list of addresses, as text or binary.
//!
//! Text has one address a line, in hexadecimal as in /proc/PID/maps, with or without `0x`; blank
//! lines and the text after a `#` are ignored. Binary is 8 bytes an address, little-endian. The
//! first bytes tell the two apart.

use std::io::{BufRead, Read};

use crate::lines::LineReader;
use crate::peek::{self, PeekedSource, fill};
use crate::{Error, fields};

const EXPECTED: &str = "an address in hexadecimal, as in /proc/PID/maps";
const EXPECTED_BYTES: &str = "the rest of an address of 8 bytes; a list with a control character \
                              among its first bytes is read as binary";

/// Iterates over the addresses of a list, in its order; duplicates are not removed. Ends after an
/// error.
#[derive(Debug)]
pub struct AddressReader<R> {
    format: AddressFormat<R>,
}

#[derive(Debug)]
enum AddressFormat<R> {
    Text(LineReader<PeekedSource<R>>),
    Binary {
        source: PeekedSource<R>,
        offset: u64,
    },
    /// The end, or this error.
    Ended(Option<Error>),
}

/// Reads a list of addresses: its first bytes at once, the others on demand. An empty list has no
/// addresses and is no error here.
pub fn read<R: BufRead>(source: R) -> AddressReader<R> {
    let form = match peek::peek(source) {
        Ok(source) if peek::is_text(&source) => AddressFormat::Text(LineReader::new(source)),
        Ok(source) => AddressFormat::Binary { source, offset: 0 },
        Err(error) => AddressFormat::Ended(Some(error.into())),
    };
    AddressReader { format: form }
}

impl<R: BufRead> Iterator for AddressReader<R> {
    type Item = Result<u64, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match &mut self.format {
            AddressFormat::Text(lines) => lines.parse_next(EXPECTED, fields::hexadecimal),
            AddressFormat::Binary { source, offset } => next_binary(source, offset),
            AddressFormat::Ended(error) => return error.take().map(Err),
        };
        if !matches!(next, Ok(Some(_))) {
            self.format = AddressFormat::Ended(None);
        }
        next.transpose()
    }
}

fn next_binary(source: &mut impl BufRead, offset: &mut u64) -> Result<Option<u64>, Error> {
    let available = fill(source)?;
    let mut bytes = [0; 8];
    let length = if let Some(whole) = available.first_chunk() {
        bytes = *whole;
        source.consume(bytes.len());
        bytes.len()
    } else {
        read_across(source, &mut bytes)?
    };
    *offset += length as u64;
    match length {
        0 => Ok(None),
        8 => Ok(Some(u64::from_le_bytes(bytes))),
        _ => Err(Error::Byte { at: *offset, expected: EXPECTED_BYTES }),
    }
}

/// Reads an address that crosses the end of the buffer; returns its bytes.
fn read_across(source: &mut impl BufRead, bytes: &mut [u8; 8]) -> Result<usize, Error> {
    let mut rest = Vec::with_capacity(bytes.len());
    source.take(bytes.len() as u64).read_to_end(&mut rest)?;
    bytes[..rest.len()].copy_from_slice(&rest);
    Ok(rest.len())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{self, BufReader, Seek, SeekFrom, Write};

    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<u64>, Error> {
        read(bytes).collect()
    }

    #[track_caller]
    fn check_error(bytes: &[u8], expected: &str) {
        let error = all(bytes).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn text_may_have_comments_blanks_and_any_line_ends() {
        let text =
            "# hot pages\r\n\r\n7f0012345000\n  0x7f0012346000 # twice\r\n\t7F0012346000\n\nff";
        let expected = [0x7f00_1234_5000, 0x7f00_1234_6000, 0x7f00_1234_6000, 0xff];
        assert_eq!(all(text.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn a_comment_may_be_in_any_encoding() {
        assert_eq!(all(b"10 # caf\xe9, caf\xc3\xa9\n").unwrap(), [0x10]);
    }

    #[test]
    fn nothing_has_no_addresses() {
        assert_eq!(all(b"").unwrap(), []);
        assert_eq!(all(b"\n# none today\n").unwrap(), []);
    }

    #[test]
    fn a_wrong_line_is_named_and_ends_the_list() {
        check_error(b"1000\nhello\n", "line 2: expected an address in hexadecimal");
        check_error(b"\n#\n7f00 1\n", "line 3: expected an address");
        check_error(b"1000-2000\n", "line 1:");
        check_error(b"10000000000000000\n", "line 1:"); // 17 digits
        let mut addresses = read(&b"1\nx\n2\n"[..]);
        assert_eq!(addresses.next().unwrap().unwrap(), 1);
        assert!(addresses.next().unwrap().is_err());
        assert!(addresses.next().is_none());
    }

    #[test]
    fn what_an_error_shows_is_short_and_printable() {
        let line = [b"\x80\xff\x80".repeat(300), b"\n".to_vec()].concat();
        let error = all(&line).unwrap_err().to_string();
        assert!(error.is_ascii() && error.len() < 300, "{error}");
    }

    #[test]
    fn a_binary_list_of_odd_length_names_its_end() {
        let whole = 0x7f00_1234_5000_u64.to_le_bytes();
        assert_eq!(all(&whole).unwrap(), [0x7f00_1234_5000]);
        for length in 9..16 {
            let bytes = [whole, whole].concat();
            check_error(
                &bytes[..length],
                &format!("byte {length}: expected the rest of an address"),
            );
        }
    }

    #[test]
    fn an_endless_list_is_read_as_far_as_one_likes() {
        let mut text = read(BufReader::new(Endless(b"7f00\n")));
        assert!(text.by_ref().take(100_000).all(|address| address.unwrap() == 0x7f00));
        let mut zeros = read(BufReader::new(io::repeat(0)));
        assert!(zeros.by_ref().take(100_000).all(|address| address.unwrap() == 0));
    }

    /// A source that repeats its bytes.
    struct Endless(&'static [u8]);

    impl Read for Endless {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let length = to.len().min(self.0.len()); // never less than a line: buffers are 8 KiB
            to[..length].copy_from_slice(&self.0[..length]);
            Ok(length)
        }
    }

    #[test]
    fn a_sparse_terabyte_is_not_read_at_once() {
        let mut file: File = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all(&0x1000_u64.to_le_bytes()).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut addresses = read(BufReader::new(&file)).map(Result::unwrap);
        assert_eq!(addresses.next(), Some(0x1000));
        assert!(addresses.take(10_000).all(|address| address == 0));
        // 80 KB were used; reading ahead by 1 MiB would mean that the reader collects the list.
        assert!(file.stream_position().unwrap() < 1 << 20);
    }

    #[test]
    fn a_source_that_fails_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::open(directory.path()).unwrap();
        let addresses: Result<Vec<u64>, Error> = read(BufReader::new(file)).collect();
        assert!(matches!(addresses, Err(Error::Read(_))), "{addresses:?}");
    }

    proptest! {
        /// Goal: a list written in either form is read back, across the ends of any buffer.
        #[test]
        fn both_forms_say_the_same(
            addresses in proptest::collection::vec(0..u64::MAX >> 8, 1..50),
            buffer in 1..64_usize,
        ) {
            let text: String = addresses.iter().map(|address| format!("{address:x}\n")).collect();
            let binary: Vec<u8> = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
            for bytes in [text.as_bytes(), &binary] {
                let source = BufReader::with_capacity(buffer, bytes);
                let read: Vec<u64> = read(source).collect::<Result<_, _>>().unwrap();
                prop_assert_eq!(&read, &addresses);
            }
        }

        /// Goal: random bytes are read or refused; text never yields more addresses than it has
        /// lines.
        #[test]
        fn garbage_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let source = peek::peek(&bytes[..]).unwrap();
            let lines = bytes.split(|&byte| byte == b'\n').count();
            let most = if peek::is_text(&source) { lines } else { bytes.len() / 8 };
            prop_assert!(read(&bytes[..]).filter(Result::is_ok).count() <= most);
        }
    }
}
