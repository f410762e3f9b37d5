//! Counts of accesses by page and node, as text: lines `ADDRESS NODE [COUNT]`.

use std::io::BufRead;

use nodeward_model::{Access, Accessor, Id, NodeId};

use crate::lines::LineReader;
use crate::{Error, fields};

const EXPECTED: &str =
    "ADDRESS NODE [COUNT], as in `7f0012345000 1 250`: hexadecimal, a node below 1024, a number";

/// Iterates over the counts of a file, in its order; a page may occur again. Ends after an error.
#[derive(Debug)]
pub struct CountReader<R> {
    lines: LineReader<R>,
    has_ended: bool,
}

/// Reads counts; blank lines and the text after a `#` are ignored, and a missing count is 1.
pub fn read<R: BufRead>(source: R) -> CountReader<R> {
    from_lines(LineReader::new(source))
}

/// Reads the counts in the following lines.
pub(crate) fn from_lines<R>(lines: LineReader<R>) -> CountReader<R> {
    CountReader { lines, has_ended: false }
}

impl<R: BufRead> Iterator for CountReader<R> {
    type Item = Result<Access, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.lines.parse_next(EXPECTED, access);
        self.has_ended = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

fn access(line: &[u8]) -> Option<Access> {
    let mut words = fields::words(line);
    let address = fields::hexadecimal(words.next()?)?;
    let node = u32::try_from(fields::decimal(words.next()?)?).ok()?;
    let count = words.next().map_or(Some(1), fields::decimal)?;
    let is_complete = words.next().is_none() && node < NodeId::LIMIT;
    is_complete.then_some(Access { address, accessor: Accessor::Node(NodeId(node)), count })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &str) -> Result<Vec<(u64, u32, u64)>, Error> {
        let plain = |access: Access| match access.accessor {
            Accessor::Node(node) => (access.address, node.0, access.count),
            by => panic!("{by:?} is no node"),
        };
        read(text.as_bytes()).map(|access| access.map(plain)).collect()
    }

    #[test]
    fn a_line_has_an_address_a_node_and_perhaps_a_count() {
        let text = "# page node count\r\n7f00 0\r\n\n  0x7f00\t1 250 # most\n7f00 1023 0\n";
        let expected = [(0x7f00, 0, 1), (0x7f00, 1, 250), (0x7f00, 1023, 0)];
        assert_eq!(all(text).unwrap(), expected);
        assert_eq!(all("").unwrap(), []);
    }

    #[test]
    fn anything_else_is_named() {
        for line in [
            "7f00",
            "7f00 x",
            "7f00 -1",
            "7f00 1024",
            "7f00 4294967296",
            "7f00 0 1 1",
            "7f00 0 1.5",
            "7f00 0 18446744073709551616",
            "g 0 1",
        ] {
            let error = all(&format!("1000 0 1\n{line}\n2000 0 1\n")).unwrap_err().to_string();
            assert!(error.starts_with("line 2: expected ADDRESS NODE [COUNT]"), "{error}");
            assert!(error.ends_with(&format!("found '{line}'")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            counts in proptest::collection::vec((any::<u64>(), 0..1024_u32, any::<u64>()), 0..30),
        ) {
            let text: String = counts.iter().map(|(a, n, c)| format!("{a:#x} {n} {c}\n")).collect();
            prop_assert_eq!(all(&text).unwrap(), counts);
        }
    }
}
