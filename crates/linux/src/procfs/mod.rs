//! Readers of /proc. Each takes the root directory that contains `proc`, so that captured trees can
//! be read. Names in these files are bytes that other programs chose, so the files are read as
//! bytes.

pub mod allocations;
pub mod boot_id;
pub mod cpu_time;
pub mod cpuinfo;
pub mod credentials;
pub mod identity;
pub mod maps;
pub mod numa_maps;
pub mod page_lists;
pub mod privileges;
pub mod sched;
pub mod smaps;
pub mod stat;
pub mod status;
pub mod swaps;
pub mod zoneinfo;

use std::str::FromStr;

use bstr::ByteSlice as _;

/// Splits a file into lines; names may have any byte but a line feed, also a carriage return at the
/// end.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.lines_with_terminator().map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

/// Parses bytes with blanks around them, such as a number; `None` if they are invalid.
pub(crate) fn parse_trimmed<T: FromStr>(bytes: &[u8]) -> Option<T> {
    bytes.trim_ascii().to_str().ok()?.parse().ok()
}
