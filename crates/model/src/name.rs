//! Names of processes, files and control groups, which other programs choose. They are bytes, need
//! not be UTF-8, and may try to deceive a person who reads them on a terminal or in a log.
//!
//! All output shows them [`Escaped`]. That form is unambiguous: bytes that are no printable text
//! appear as bytes (`\x1b`), characters that are invisible or change the writing direction appear
//! by their number (`\u{202e}`), and a backslash appears as two.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use bstr::{BStr, BString, ByteSlice as _};
use serde::de::{Deserializer, Error, Visitor};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

/// A name that another program chose, as bytes.
///
/// Output shows it [`Escaped`]. Files store its bytes, which are those of the text if it is UTF-8.
/// In JSON it is a string ([`in_json`] adds the bytes if it is not UTF-8).
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(BString);

impl Name {
    /// Returns its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the name as the operating system takes it.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if it is UTF-8, as nearly all names are.
    pub fn is_text(&self) -> bool {
        self.0.to_str().is_ok()
    }

    /// Returns true if it begins with `beginning`.
    pub fn starts_with(&self, beginning: &str) -> bool {
        self.0.starts_with(beginning.as_bytes())
    }

    /// Returns its JSON string: the name itself, or its escaped form if it is not UTF-8.
    fn text(&self) -> String {
        self.0.to_str().map_or_else(|_| self.escaped().to_string(), str::to_owned)
    }
}

impl From<&[u8]> for Name {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<Vec<u8>> for Name {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<OsString> for Name {
    fn from(text: OsString) -> Self {
        Self(text.into_vec().into())
    }
}

impl From<&Path> for Name {
    fn from(path: &Path) -> Self {
        path.as_os_str().as_bytes().into()
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, text: &str) -> bool {
        self.0 == text
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, text: &&str) -> bool {
        self.0 == *text
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.escaped().fmt(f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escaped())
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.serialize_str(&self.text()),
            false => serializer.serialize_bytes(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_str(NameVisitor),
            false => deserializer.deserialize_bytes(NameVisitor),
        }
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Name, E> {
        Ok(text.into())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Name, E> {
        Ok(bytes.into())
    }
}

/// Serializes the field `name` of a JSON object and, for a name that is not UTF-8, the field
/// `name_bytes` with its bytes as numbers. For `#[serde(flatten, serialize_with = "in_json")]`.
///
/// # Errors
/// Those of the serializer.
pub fn in_json<S: Serializer>(name: &Name, serializer: S) -> Result<S::Ok, S::Error> {
    let mut fields = serializer.serialize_map(None)?;
    fields.serialize_entry("name", name)?;
    if !name.is_text() {
        fields.serialize_entry("name_bytes", name.as_bytes())?;
    }
    fields.end()
}

/// Displays bytes of foreign origin on one line, in one writing direction, without characters that
/// a terminal interprets.
#[derive(Clone, Copy)]
pub struct Escaped<'a>(&'a BStr);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(self.0.len());
        for (start, end, c) in self.0.char_indices() {
            let bytes = &self.0[start..end];
            // Invalid bytes are decoded as this character, which can also occur as itself.
            let is_text = c != char::REPLACEMENT_CHARACTER || bytes == "\u{fffd}".as_bytes();
            match c {
                '\\' => text.push_str("\\\\"),
                c if is_text => write_char(&mut text, c),
                _ => write_bytes(&mut text, bytes),
            }
        }
        f.pad(&text)
    }
}

/// A type that holds a name of foreign origin.
pub trait Escape {
    /// Returns the name in its escaped form.
    fn escaped(&self) -> Escaped<'_>;
}

impl Escape for [u8] {
    fn escaped(&self) -> Escaped<'_> {
        Escaped(self.as_bstr())
    }
}

impl Escape for str {
    fn escaped(&self) -> Escaped<'_> {
        self.as_bytes().escaped()
    }
}

impl Escape for OsStr {
    fn escaped(&self) -> Escaped<'_> {
        self.as_bytes().escaped()
    }
}

impl Escape for Path {
    fn escaped(&self) -> Escaped<'_> {
        self.as_os_str().escaped()
    }
}

impl Escape for Name {
    fn escaped(&self) -> Escaped<'_> {
        self.as_bytes().escaped()
    }
}

/// Removes the characters that a terminal interprets from a text of nodeward's own, or JSON, which
/// may contain foreign names. It is a last resort that all output passes. Line ends stay, and so
/// does text that is already escaped. Other unsafe characters are written as in JSON (`\u009b`), so
/// the meaning of JSON does not change.
pub fn sanitize_for_terminal(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => told.push(c),
            c if is_printable(c) => told.push(c),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(told, "\\u{unit:04x}");
            }),
        }
    }
    told
}

/// Returns true if a character is visible and has no effect on the characters around it.
fn is_printable(c: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
    let kind = c.general_category();
    c.is_ascii_graphic()
        || c == ' '
        || ![Control, Format, LineSeparator, ParagraphSeparator].contains(&kind)
}

fn write_char(text: &mut String, c: char) {
    match c {
        c if is_printable(c) => text.push(c),
        c if c.is_control() => write_bytes(text, c.encode_utf8(&mut [0; 4]).as_bytes()),
        c => text.extend(c.escape_unicode()),
    }
}

fn write_bytes(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(bytes: &[u8]) -> String {
        bytes.escaped().to_string()
    }

    /// Decodes an escaped name into its bytes.
    fn read_back(shown: &str) -> Vec<u8> {
        let (mut bytes, mut rest) = (Vec::new(), shown);
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            let mut whole = [0; 4];
            let (part, length) = match (c, rest.as_bytes().first()) {
                ('\\', Some(b'x')) => (vec![u8::from_str_radix(&rest[1..3], 16).unwrap()], 3),
                ('\\', Some(b'u')) => {
                    let end = rest.find('}').unwrap();
                    let number = u32::from_str_radix(&rest[2..end], 16).unwrap();
                    let c = char::from_u32(number).unwrap();
                    (c.encode_utf8(&mut whole).as_bytes().to_vec(), end + 1)
                }
                ('\\', Some(b'\\')) => (vec![b'\\'], 1),
                ('\\', other) => panic!("{other:?} behind a backslash in {shown}"),
                _ => (c.encode_utf8(&mut whole).as_bytes().to_vec(), 0),
            };
            bytes.extend(part);
            rest = &rest[length..];
        }
        bytes
    }

    /// Goal: characters that a terminal or a log interprets are escaped; all others are shown
    /// unchanged.
    #[test]
    fn nothing_that_is_obeyed_is_shown() {
        for (bytes, expected) in [
            (&b"postgres"[..], "postgres"),
            (
                "Gr\u{fc}n \u{65e5}\u{672c} e\u{301}".as_bytes(),
                "Gr\u{fc}n \u{65e5}\u{672c} e\u{301}",
            ),
            (b"\x1b[31mred\x07", "\\x1b[31mred\\x07"),
            (b"a\n<0>panic\r\t", "a\\x0a<0>panic\\x0d\\x09"),
            (b"\x7f", "\\x7f"),
            ("\u{9b}31m".as_bytes(), "\\xc2\\x9b31m"), // CSI in one character
            (b"\xff\xc3", "\\xff\\xc3"),
            (b"\x9b31m", "\\x9b31m"),
            ("\u{202e}gpj.exe\u{2066}".as_bytes(), "\\u{202e}gpj.exe\\u{2066}"),
            ("a\u{200b}b\u{feff}\u{e0041}".as_bytes(), "a\\u{200b}b\\u{feff}\\u{e0041}"),
            ("\u{2028}\u{2029}".as_bytes(), "\\u{2028}\\u{2029}"),
            ("\u{fffd}".as_bytes(), "\u{fffd}"),
            (br"C:\x1b", r"C:\\x1b"),
        ] {
            assert_eq!(shown(bytes), expected);
        }
        assert_eq!(
            format!("{:<8}|", b"a\x07".escaped()),
            "a\\x07   |",
            "{{:<8}} counts what is seen"
        );
        assert_eq!(Path::new("/a\nb").escaped().to_string(), "/a\\x0ab");
    }

    /// Goal: `sanitize_for_terminal` keeps lines and escapes and removes what a terminal
    /// interprets; the meaning of JSON stays.
    #[test]
    fn a_whole_text_keeps_its_lines() {
        let told = sanitize_for_terminal("a \\x1b\n\tb\x1b[2J\r\u{202e}\n");
        assert_eq!(told, "a \\x1b\n\tb\\u001b[2J\\u000d\\u202e\n");
        let told = sanitize_for_terminal("{\"name\":\"\u{9b}\u{7f}\u{202e}\u{e0041}\u{fc}\"}\n");
        assert_eq!(told, "{\"name\":\"\\u009b\\u007f\\u202e\\udb40\\udc41\u{fc}\"}\n");
    }

    proptest! {
        /// Goal: any bytes are shown without control characters, and their shown form is unique.
        #[test]
        fn any_bytes_are_shown_and_read_back(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                any::<String>().prop_map(String::into_bytes),
                "[\\\\xu{}0-9a-f\u{1b}\u{9b}\u{202e}\n]{0,20}".prop_map(String::into_bytes),
            ],
        ) {
            let shown = shown(&bytes);
            prop_assert!(shown.chars().all(is_printable), "{shown:?}");
            prop_assert_eq!(read_back(&shown), bytes);
            prop_assert_eq!(&sanitize_for_terminal(&shown), &shown);
        }
    }
}
