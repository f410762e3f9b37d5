//! Reads /proc/PID/smaps, only for the page size of each mapping and only for processes that use
//! hugetlb pages, because the kernel walks every page table to write it.

use bstr::ByteSlice as _;
use nodeward_model::Range;

use super::maps::{addresses, unlisted_part};
use super::{lines, status};

/// Returns the page size in bytes of each mapping, in ascending order. Other lines are ignored. The
/// ranges do not overlap, as in [`maps::parse`](super::maps::parse).
pub fn page_sizes(bytes: &[u8]) -> PageSizes {
    let mut sizes = Vec::new();
    let (mut range, mut told_to) = (None, 0);
    for line in lines(bytes) {
        if let Some(size) = line.strip_prefix(b"KernelPageSize:") {
            sizes.extend(range.zip(status::kibibytes(size)));
        } else if let Some(of) = line.split_once_str(" ").and_then(|(word, _)| addresses(word)) {
            range = unlisted_part(of, &mut told_to);
        }
    }
    PageSizes(sizes)
}

/// Page sizes by address.
#[derive(Debug)]
pub struct PageSizes(Vec<(Range, u64)>);

impl PageSizes {
    /// Returns the page size of the mapping that contains an address.
    pub fn at(&self, address: u64) -> Option<u64> {
        let behind = self.0.partition_point(|(range, _)| range.start <= address);
        let (range, size) = self.0.get(behind.checked_sub(1)?)?;
        (address < range.end).then_some(*size)
    }
}

/// Returns true if the bytes of /proc/PID/status show that the process uses hugetlb pages.
pub fn uses_hugetlb(status: &[u8]) -> bool {
    status::parse(status).hugetlb_bytes.is_some_and(|bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mapping_has_its_page_size() {
        let text = "\
7f0000200000-7f0000400000 rw-p 00000000 00:0f 99   /anon_hugepage (deleted)
Size:               2048 kB
KernelPageSize:     2048 kB
MMUPageSize:        2048 kB
VmFlags: rd wr mr mw me ht
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0    [stack]
KernelPageSize:        4 kB
";
        let sizes = page_sizes(text.as_bytes());
        assert_eq!(sizes.at(0x7f00_0020_0000), Some(2 << 20));
        assert_eq!(sizes.at(0x7ffc_0000_0000), Some(4096));
        let outside = [0, 0x7f00_001f_f000, 0x7f00_0040_0000, 0x7ffc_0002_1000];
        assert_eq!(outside.map(|address| sizes.at(address)), [None; 4]);
    }

    /// Goal: a mapping that begins inside one of this file (which was split since) has its page
    /// size; for one that is listed again, longer, each part has its own.
    #[test]
    fn mappings_may_have_changed_since() {
        let text = "\
200000-600000 rw-s 0 00:0f 9 /anon_hugepage (deleted)
KernelPageSize:     2048 kB
400000-900000 rw-p 0 00:00 0
KernelPageSize:        4 kB
";
        let sizes = page_sizes(text.as_bytes());
        let found = [0x20_0000, 0x40_0000, 0x5f_f000, 0x60_0000].map(|address| sizes.at(address));
        assert_eq!(found, [Some(2 << 20), Some(2 << 20), Some(2 << 20), Some(4096)]);
    }

    #[test]
    fn hugetlb_use_is_read_from_status() {
        assert!(uses_hugetlb(b"Name:\tx\nHugetlbPages:\t    2048 kB\n"));
        assert!(!uses_hugetlb(b"HugetlbPages:\t       0 kB\n"));
        assert!(!uses_hugetlb(b"Name:\tx\n"), "kernels without hugetlb have no such line");
    }
}
