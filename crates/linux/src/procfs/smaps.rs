//! /proc/PID/smaps, read only for the page size of each mapping and only for processes that use
//! hugetlb pages: the kernel walks every page table to write it.

use std::collections::BTreeMap;

/// The page size in bytes of each mapping, by its first address. Lines of other kinds are passed
/// over.
pub fn page_sizes(text: &str) -> BTreeMap<u64, u64> {
    let mut sizes = BTreeMap::new();
    let mut start = None;
    for line in text.lines() {
        if let Some(size) = line.strip_prefix("KernelPageSize:") {
            let bytes = size.trim().strip_suffix(" kB").and_then(|kb| kb.parse::<u64>().ok());
            sizes.extend(start.zip(bytes.map(|kb| kb * 1024)));
        } else if let Some((first, _)) = line.split_once('-') {
            start = u64::from_str_radix(first, 16).ok().or(start);
        }
    }
    sizes
}

/// Whether the text of /proc/PID/status says that the process uses hugetlb pages.
pub fn uses_hugetlb(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("HugetlbPages:"));
    line.is_some_and(|value| !value.trim().starts_with("0 "))
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
        let sizes = page_sizes(text);
        assert_eq!(sizes.get(&0x7f00_0020_0000), Some(&(2 << 20)));
        assert_eq!(sizes.get(&0x7ffc_0000_0000), Some(&4096));
    }

    #[test]
    fn hugetlb_use_is_read_from_status() {
        assert!(uses_hugetlb("Name:\tx\nHugetlbPages:\t    2048 kB\n"));
        assert!(!uses_hugetlb("HugetlbPages:\t       0 kB\n"));
        assert!(!uses_hugetlb("Name:\tx\n"), "kernels without hugetlb have no such line");
    }
}
