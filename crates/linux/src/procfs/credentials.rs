//! Reads the credentials of a process in /proc/PID/status.

use std::path::Path;

use bstr::ByteSlice as _;
use nodeward_machine::{Error, Result};

use super::{lines, parse_trimmed};

/// The ids and capabilities of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCredentials {
    /// The real, effective and saved user id.
    pub users: [u32; 3],
    /// The real, effective and saved group id.
    pub groups: [u32; 3],
    /// The permitted capabilities, one bit each, as its user namespace has them.
    pub permitted: u64,
    /// Its pid in each pid namespace, from ours to its own.
    pub pids: Vec<u32>,
}

/// Parses the bytes of a status file. `path` is for the error message only.
///
/// # Errors
/// If one of the lines is missing or cannot be read.
pub fn parse(bytes: &[u8], path: &Path) -> Result<StatusCredentials> {
    let (mut users, mut groups, mut permitted, mut pids) = (None, None, None, None);
    for (key, value) in lines(bytes).filter_map(|line| line.split_once_str(":")) {
        match key {
            b"Uid" => users = first_three(value),
            b"Gid" => groups = first_three(value),
            b"CapPrm" => permitted = hexadecimal(value),
            b"NSpid" => pids = Some(numbers(value).collect()),
            _ => {}
        }
    }
    let missing = || Error::Parse {
        path: path.to_owned(),
        line: lines(bytes).count() + 1,
        expected: "lines Uid:, Gid:, CapPrm: and NSpid:".to_owned(),
    };
    let found = || {
        Some(StatusCredentials {
            users: users?,
            groups: groups?,
            permitted: permitted?,
            pids: pids?,
        })
    };
    found().ok_or_else(missing)
}

fn numbers(value: &[u8]) -> impl Iterator<Item = u32> {
    value.fields_with(char::is_whitespace).filter_map(parse_trimmed)
}

fn first_three(value: &[u8]) -> Option<[u32; 3]> {
    let all: Vec<u32> = numbers(value).take(3).collect();
    all.try_into().ok()
}

fn hexadecimal(value: &[u8]) -> Option<u64> {
    u64::from_str_radix(value.trim_ascii().to_str().ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nNSpid:\t700\t12\t1\n\
                        CapPrm:\t00000000a80425fb\n";

    /// Goal: each id is in its place, and the fourth (of the file system) in none.
    #[test]
    fn fields_are_found() {
        let found = parse(TEXT.as_bytes(), Path::new("status")).unwrap();
        assert_eq!((found.users, found.groups), ([1, 2, 3], [5, 6, 7]));
        assert_eq!((found.permitted, found.pids), (0xa804_25fb, vec![700, 12, 1]));
    }

    /// Goal: a file without one of the lines grants nothing: it is an error.
    #[test]
    fn gaps_are_errors() {
        for line in TEXT.lines().skip(1) {
            let without = TEXT.replace(&format!("{line}\n"), "");
            assert!(parse(without.as_bytes(), Path::new("status")).is_err(), "{line}");
        }
    }

    proptest! {
        /// Goal: any bytes are parsed or refused.
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, Path::new("status"));
        }
    }
}
