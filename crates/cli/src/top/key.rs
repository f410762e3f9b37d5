//! Keys, from the bytes that a terminal sends.

/// The longest sequence of bytes that may be a key; what is longer is none.
const SEQUENCE_BYTES_MAX: usize = 32;
const ESCAPE: u8 = 0x1b;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Tab.
    Tab,
    /// Backspace.
    Backspace,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-L.
    Redraw,
    /// An arrow up.
    Up,
    /// An arrow down.
    Down,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
}

/// Makes keys of bytes, which may come in pieces.
#[derive(Debug, Default)]
pub struct KeyParser {
    pending: Vec<u8>,
}

/// What the beginning of some bytes is.
enum Parsed {
    /// So many bytes are a key, or nothing that has a meaning here.
    Done(usize, Option<Key>),
    /// The rest is to come.
    Incomplete,
}

impl KeyParser {
    /// Returns the keys that end with these bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Parsed::Done(length, key) = parse(&self.pending) {
            self.pending.drain(..length);
            keys.extend(key);
        }
        keys
    }

    /// Returns whether bytes are left that may be a key, or the beginning of one: whoever presses
    /// Escape sends what other keys begin with.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the key that the bytes are if no more come.
    pub fn time_out(&mut self) -> Option<Key> {
        let pending = std::mem::take(&mut self.pending);
        (pending == [ESCAPE]).then_some(Key::Escape)
    }
}

fn parse(bytes: &[u8]) -> Parsed {
    match bytes {
        [] => Parsed::Incomplete,
        [ESCAPE, rest @ ..] => parse_escape(rest),
        [b'\r' | b'\n', ..] => Parsed::Done(1, Some(Key::Enter)),
        [b'\t', ..] => Parsed::Done(1, Some(Key::Tab)),
        [0x08 | 0x7f, ..] => Parsed::Done(1, Some(Key::Backspace)),
        [0x03, ..] => Parsed::Done(1, Some(Key::Interrupt)),
        [0x0c, ..] => Parsed::Done(1, Some(Key::Redraw)),
        [0..0x20, ..] => Parsed::Done(1, None),
        _ => parse_char(bytes),
    }
}

/// Parses what follows an escape: `[`, parameters and a letter or `~`; `O` and a letter.
fn parse_escape(rest: &[u8]) -> Parsed {
    match rest {
        [] => Parsed::Incomplete,
        [b'[', rest @ ..] => match rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) {
            Some(at) => Parsed::Done(at + 3, control_key(&rest[..at], rest[at])),
            None if rest.len() < SEQUENCE_BYTES_MAX => Parsed::Incomplete,
            None => Parsed::Done(rest.len() + 2, None),
        },
        [b'O', letter, ..] => Parsed::Done(3, control_key(&[], *letter)),
        [b'O'] => Parsed::Incomplete,
        _ => Parsed::Done(1, Some(Key::Escape)),
    }
}

fn control_key(parameters: &[u8], last: u8) -> Option<Key> {
    Some(match (parameters, last) {
        (_, b'A') => Key::Up,
        (_, b'B') => Key::Down,
        (_, b'H') | (b"1" | b"7", b'~') => Key::Home,
        (_, b'F') | (b"4" | b"8", b'~') => Key::End,
        (b"5", b'~') => Key::PageUp,
        (b"6", b'~') => Key::PageDown,
        _ => return None,
    })
}

/// Parses a character of one to four bytes. Bytes that are none have no meaning.
fn parse_char(bytes: &[u8]) -> Parsed {
    let begin = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(begin) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&begin[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => {
            return error
                .error_len()
                .map_or(Parsed::Incomplete, |length| Parsed::Done(length, None));
        }
    };
    match valid.chars().next() {
        Some(c) => Parsed::Done(c.len_utf8(), (!c.is_control()).then_some(Key::Char(c))),
        None => Parsed::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        KeyParser::default().feed(bytes)
    }

    /// Goal: keys are told apart as terminals send them, also several at once.
    #[test]
    fn keys_of_terminals() {
        use Key::*;
        assert_eq!(keys(b"q\r\t\x7f\x03"), [Char('q'), Enter, Tab, Backspace, Interrupt]);
        assert_eq!(keys(b"\x1b[A\x1b[B\x1bOA\x1bOB"), [Up, Down, Up, Down]);
        assert_eq!(keys(b"\x1b[5~\x1b[6~\x1b[H\x1b[4~"), [PageUp, PageDown, Home, End]);
        assert_eq!(keys(b"\x1b[1;5A"), [Up], "with Ctrl");
        assert_eq!(keys("ü€".as_bytes()), [Char('ü'), Char('€')]);
        assert_eq!(keys(b"\x1b[200~x\x1bOP\x01"), [Char('x')], "what has no meaning is none");
        assert_eq!(keys(b"\xff\xc3x"), [Char('x')], "what is no text is none");
    }

    /// Goal: an escape alone is a key once nothing follows it; a sequence may come in pieces.
    #[test]
    fn an_escape_waits_for_what_follows() {
        let mut parser = KeyParser::default();
        assert_eq!(parser.feed(b"\x1b"), []);
        assert!(parser.is_waiting());
        assert_eq!(parser.time_out(), Some(Key::Escape));
        assert!(!parser.is_waiting());
        assert_eq!(
            (parser.feed(b"\x1b["), parser.feed(b"5"), parser.feed(b"~")),
            (vec![], vec![], vec![Key::PageUp])
        );
        assert_eq!(
            (parser.feed(b"\xe2\x82"), parser.feed(b"\xac")),
            (vec![], vec![Key::Char('€')])
        );
        assert_eq!(parser.feed(b"\x1bx"), [Key::Escape, Key::Char('x')]);
    }

    proptest! {
        /// Goal: any bytes are taken, in any pieces; what is kept for later is bounded, and no key
        /// is a control character.
        #[test]
        fn any_bytes_are_taken(pieces in prop::collection::vec(any::<Vec<u8>>(), 0..8)) {
            let mut parser = KeyParser::default();
            for piece in pieces {
                for key in parser.feed(&piece) {
                    prop_assert!(!matches!(key, Key::Char(c) if c.is_control()));
                }
                prop_assert!(parser.pending.len() <= SEQUENCE_BYTES_MAX + 2);
            }
            parser.time_out();
            prop_assert!(!parser.is_waiting());
        }
    }
}
