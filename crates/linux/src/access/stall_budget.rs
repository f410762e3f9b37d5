//! How long a process stands still while its soft-dirty bits are cleared.
//!
//! Meanwhile it can neither map memory nor, for the most part, handle page faults. The time grows
//! with its page table entries, and there is no way to clear a part.

use std::path::Path;

use nodeward_machine::{CLEAR_ENTRY_NS, CLEAR_STALL_NS_MAX, Error, Result};
use nodeward_model::Pid;

use crate::kernel_file;
use crate::procfs::{lines, parse_trimmed, status};

/// The least that one entry of a huge page maps, in any kernel with these bits (s390; 2 MiB on
/// x86-64).
const HUGE_ENTRY_BYTES: u64 = 1 << 20;

/// Checks that clearing the bits of a process holds it up for 20 ms at most. `root` holds `proc`.
/// Cost: one small file; for a process with more memory a walk over its page tables, which lets
/// others go first.
///
/// # Errors
/// `Unsupported` if it has too many entries; `Gone`.
pub fn check(root: &Path, pid: Pid, page_bytes: u64) -> Result<()> {
    let read = |name: &str| kernel_file::read(root.join(format!("proc/{pid}")).join(name));
    let resident = resident_pages(&read("statm").map_err(|_| Error::Gone(pid))?);
    if stall_ns(resident) <= CLEAR_STALL_NS_MAX {
        return Ok(());
    }
    // Without the file, nothing is known of huge pages.
    let entries = read("smaps_rollup").map_or(resident, |text| entries(&text, page_bytes));
    match stall_ns(entries) {
        0..=CLEAR_STALL_NS_MAX => Ok(()),
        stall => Err(Error::Unsupported {
            action: "clearing soft-dirty bits",
            reason: format!(
                "{pid} has {entries} page table entries and would stand still for about {} ms; \
                 20 ms are allowed, so use the source registers",
                stall / 1_000_000
            ),
        }),
    }
}

fn stall_ns(entries: u64) -> u64 {
    entries.saturating_mul(CLEAR_ENTRY_NS)
}

/// Returns the pages in memory, the second number of statm.
fn resident_pages(statm: &[u8]) -> u64 {
    let words = statm.split(|byte| *byte == b' ');
    words.into_iter().nth(1).and_then(parse_trimmed).unwrap_or(u64::MAX)
}

/// Returns an upper bound for the entries of memory that smaps_rollup sums up.
fn entries(rollup: &[u8], page_bytes: u64) -> u64 {
    let bytes_of = |name: &[u8]| {
        let value = lines(rollup).find_map(|line| line.strip_prefix(name));
        value.and_then(status::kibibytes).unwrap_or(0)
    };
    let huge = ["AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"];
    let huge: u64 = huge.iter().map(|name| bytes_of(name.as_bytes())).sum();
    let small = bytes_of(b"Rss:").saturating_sub(huge);
    small / page_bytes + huge.div_ceil(HUGE_ENTRY_BYTES)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn verdict(resident: u64, rollup: Option<(u64, u64)>) -> Result<()> {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proc/7");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("statm"), format!("999999 {} 5 1 0 9 0\n", resident / 4096)).unwrap();
        if let Some((rss, huge)) = rollup {
            let text = format!(
                "0-1 ---p 0 0:0 0 [rollup]\nRss: {} kB\nAnonHugePages: {} kB\n",
                rss >> 10,
                huge >> 10
            );
            fs::write(folder.join("smaps_rollup"), text).unwrap();
        }
        check(root.path(), Pid::new(7).unwrap(), 4096)
    }

    /// Goal: 20 ms are 200,000 entries of 100 ns: 781 MiB of base pages, or 195 GiB of huge pages
    /// that are counted with 1 MiB each. A file that is missing makes all pages small.
    #[test]
    fn entries_count_and_not_bytes() {
        assert!(verdict(781 << 20, None).is_ok());
        assert!(verdict(782 << 20, None).is_err());
        assert!(verdict(190 * GIB, Some((190 * GIB, 190 * GIB))).is_ok());
        assert!(verdict(200 * GIB, Some((200 * GIB, 200 * GIB))).is_err());
        assert!(verdict(100 * GIB, Some((100 * GIB, 98 * GIB))).is_err());
        let text = verdict(GIB, Some((GIB, 0))).unwrap_err().to_string();
        assert!(text.contains("262144 page table entries") && text.contains("26 ms"), "{text}");
    }

    /// Goal: a process without files is gone, and a file without numbers allows nothing.
    #[test]
    fn missing_numbers_allow_nothing() {
        let root = tempfile::tempdir().unwrap();
        let pid = Pid::new(7).unwrap();
        assert!(matches!(check(root.path(), pid, 4096), Err(Error::Gone(_))));
        assert_eq!(resident_pages(b"12"), u64::MAX);
        assert_eq!(resident_pages(b"12 34 5"), 34);
    }
}
