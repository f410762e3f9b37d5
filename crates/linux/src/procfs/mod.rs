//! Readers of /proc. Each takes the root under which `proc` lies, so that captured trees can be
//! read. Names stand in these files as the bytes that others chose, so they are read as bytes.

pub mod cpu_time;
pub mod identity;
pub mod maps;
pub mod numa_maps;
pub mod privileges;
pub mod smaps;
pub mod stat;
pub mod status;
pub mod swaps;
pub mod zoneinfo;

use std::str::FromStr;

use bstr::ByteSlice as _;

/// The lines of a file; names may have any byte but a line feed, also a carriage return at the end.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.lines_with_terminator().map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

/// What bytes with blanks around them say, such as a number; `None` if they do not say one.
pub(crate) fn said<T: FromStr>(bytes: &[u8]) -> Option<T> {
    bytes.trim_ascii().to_str().ok()?.parse().ok()
}
