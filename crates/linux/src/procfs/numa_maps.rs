//! Reads /proc/PID/numa_maps: the memory policy of each mapping and the nodes of its pages. The
//! kernel walks all page tables of a process to write it.

use std::collections::BTreeMap;

use bstr::ByteSlice as _;
use nodeward_model::NodeId;

use super::{lines, parse_trimmed};

/// The policy of one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingPolicy<'a> {
    /// The first address of the mapping.
    pub start: u64,
    /// The policy as the kernel writes it: `bind:0-1`, `prefer=static:1`, `weighted
    /// interleave:0,2`. A mapping without a policy of its own has that of the process's first
    /// thread.
    pub text: &'a str,
}

/// Policy names of two words; no other name has a blank.
const TWO_WORDS: [&str; 2] = ["weighted interleave", "prefer (many)"];

impl MappingPolicy<'_> {
    /// Returns true if the policy chooses nodes. `default` and `local` only state the kernel's
    /// default: memory is allocated where the thread runs.
    pub fn is_explicit(&self) -> bool {
        let name = self.text.split(['=', ':']).next().unwrap_or_default();
        !["default", "local"].contains(&name)
    }
}

/// Returns the base pages of each mapping by node, by the mapping's first address, from words
/// `N0=5` of its line. They count pages of the size in `kernelpagesize_kB`, which is larger than a
/// base page for hugetlb only. A path cannot forge a word: the kernel escapes its blanks and equals
/// signs.
pub fn pages(bytes: &[u8], page_bytes: u64) -> BTreeMap<u64, BTreeMap<NodeId, u64>> {
    let mapping = |line: &[u8]| {
        let (start, rest) = first_address(line)?;
        let words = || rest.split_str(" ").filter_map(|word| word.split_once_str("="));
        let size = words().find(|(name, _)| *name == b"kernelpagesize_kB".as_slice());
        let size_kib = size.and_then(|(_, value)| parse_trimmed::<u64>(value)).unwrap_or(0);
        let factor = (size_kib.saturating_mul(1024) / page_bytes).max(1);
        let on_node = |(name, value): (&[u8], &[u8])| {
            let node = parse_trimmed(name.strip_prefix(b"N")?)?;
            Some((NodeId(node), parse_trimmed::<u64>(value)?.saturating_mul(factor)))
        };
        Some((start, words().filter_map(on_node).collect()))
    };
    lines(bytes).filter_map(mapping).collect()
}

/// Parses lines `ADDRESS POLICY [NAME=VALUE...]`; other lines are ignored.
pub fn policies(bytes: &[u8]) -> Vec<MappingPolicy<'_>> {
    lines(bytes).filter_map(policy).collect()
}

/// Returns the address that a line begins with, and what follows it.
fn first_address(line: &[u8]) -> Option<(u64, &[u8])> {
    let (start, rest) = line.split_once_str(" ")?;
    Some((u64::from_str_radix(start.to_str().ok()?, 16).ok()?, rest))
}

fn policy(line: &[u8]) -> Option<MappingPolicy<'_>> {
    let (start, rest) = first_address(line)?;
    let two = TWO_WORDS.iter().find(|name| rest.starts_with(name.as_bytes()));
    let name = two.map_or(0, |name| name.len());
    let length = name + rest[name..].find(" ").unwrap_or(rest.len() - name);
    let text = rest[..length].to_str().ok()?; // a name may stand behind it, which may be no text
    Some(MappingPolicy { start, text }).filter(|policy| !policy.text.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<(u64, &str, bool)> {
        policies(text.as_bytes())
            .iter()
            .map(|policy| (policy.start, policy.text, policy.is_explicit()))
            .collect()
    }

    /// Goal: every policy of Linux 6.18 is parsed with its flags, also those of two words.
    #[test]
    fn every_policy_is_read() {
        let text = "\
55d0c0000000 default file=/usr/bin/cat mapped=5 N0=5 kernelpagesize_kB=4
55d0c1000000 local heap anon=2 dirty=2 N0=2 kernelpagesize_kB=4
7f0000000000 bind:0-1 anon=9 dirty=9 N1=9 kernelpagesize_kB=4
7f0000200000 prefer=static:1
7f0000400000 interleave=relative|balancing:0,2 huge anon=1 N0=1 kernelpagesize_kB=2048
7f0000600000 weighted interleave:0-3 anon=1 N0=1
7f0000800000 prefer (many)=static:0-1
";
        let expected = [
            (0x55d0_c000_0000, "default", false),
            (0x55d0_c100_0000, "local", false),
            (0x7f00_0000_0000, "bind:0-1", true),
            (0x7f00_0020_0000, "prefer=static:1", true),
            (0x7f00_0040_0000, "interleave=relative|balancing:0,2", true),
            (0x7f00_0060_0000, "weighted interleave:0-3", true),
            (0x7f00_0080_0000, "prefer (many)=static:0-1", true),
        ];
        assert_eq!(read(text), expected);
        assert_eq!(read("\nx default\n1000\n1000 \n"), []);
    }

    /// Goal: pages are told by mapping and node, those of hugetlb in base pages, and a path is no
    /// count.
    #[test]
    fn pages_have_mappings_and_nodes() {
        let text = "\
55d0c0000000 default file=/tmp/N3\\0757 mapped=5 N0=4 N12=1 kernelpagesize_kB=4
7f0000000000 bind:0-1
7f0000400000 interleave:0,2 file=/huge\\040N1 huge anon=3 N0=1 N2=2 kernelpagesize_kB=2048
7f0000600000 prefer (many):0-1 heap anon=1 N0=1 kernelpagesize_kB=4
";
        let of = |counts: &[(u32, u64)]| -> BTreeMap<NodeId, u64> {
            counts.iter().map(|&(node, pages)| (NodeId(node), pages)).collect()
        };
        let expected = [
            (0x55d0_c000_0000, of(&[(0, 4), (12, 1)])),
            (0x7f00_0000_0000, of(&[])),
            (0x7f00_0040_0000, of(&[(0, 512), (2, 1024)])), // 2048 KiB are 512 pages of 4 KiB
            (0x7f00_0060_0000, of(&[(0, 1)])),
        ];
        assert_eq!(pages(text.as_bytes(), 4096), expected.into());
    }

    proptest! {
        /// Goal: any bytes are parsed or ignored; a line is parsed whatever follows its policy.
        #[test]
        fn any_bytes_are_read(
            bytes in vec(any::<u8>().prop_filter("", |&b| b != b'\n'), 0..80),
            start in any::<u64>(),
            nodes in "[0-9,-]{0,9}",
        ) {
            policies(&bytes);
            pages(&bytes, 4096);
            for name in ["bind", "weighted interleave", "prefer (many)"] {
                let beginning = format!("{start:x} {name}:{nodes} file=");
                let line = [beginning.as_bytes(), &bytes].concat();
                let first = policies(&line).into_iter().next();
                let expected = format!("{name}:{nodes}");
                prop_assert_eq!(first, Some(MappingPolicy { start, text: &expected }));
            }
        }
    }
}
