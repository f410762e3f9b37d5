//! Reads the kernel's counts of allocations from /proc/vmstat.

use std::path::Path;

use nodeward_machine::Error;

use crate::kernel_file;

/// Base pages that the kernel's page allocator handed out and took back since the boot. Visits of
/// CPUs to zones are not counted by any kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationCounts {
    /// Base pages that were allocated.
    pub allocated_pages: u64,
    /// Base pages that were freed.
    pub freed_pages: u64,
}

/// Reads the counts.
///
/// # Errors
/// If the file cannot be read, or a line of it cannot be understood.
pub fn read(root: &Path) -> nodeward_machine::Result<AllocationCounts> {
    let path = root.join("proc/vmstat");
    match kernel_file::read_to_string(&path) {
        Ok(text) => parse(&text).map_err(|line| Error::Parse {
            path,
            line,
            expected: "a name and a number".to_owned(),
        }),
        Err(source) => Err(Error::Read { path, source }),
    }
}

/// Parses `pgalloc_ZONE N`, once for each kind of zone, and `pgfree N`; returns the number of a
/// line that cannot be read.
fn parse(text: &str) -> Result<AllocationCounts, usize> {
    let mut counts = AllocationCounts::default();
    for (at, line) in text.lines().enumerate() {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        let sum = match key {
            "pgfree" => &mut counts.freed_pages,
            key if key.starts_with("pgalloc_") => &mut counts.allocated_pages,
            _ => continue,
        };
        let value: u64 = value.trim().parse().map_err(|_| at + 1)?;
        *sum = sum.saturating_add(value);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "nr_free_pages 9\npgalloc_dma 1\npgalloc_dma32 20\npgalloc_normal 300\n\
                        pgalloc_movable 0\nallocstall_normal 5\npgfree 77\npgfreed_x y\n";

    /// Goal: allocations are those of all kinds of zones, 1 + 20 + 300 + 0; what only sounds alike
    /// is none.
    #[test]
    fn allocations_of_all_zones_add_up() {
        let counts = AllocationCounts { allocated_pages: 321, freed_pages: 77 };
        assert_eq!(parse(TEXT), Ok(counts));
    }

    /// Goal: an unreadable number is an error at its line, not a 0.
    #[test]
    fn an_unreadable_count_is_named() {
        assert_eq!(parse(&TEXT.replace("pgfree 77", "pgfree -")), Err(7));
        assert_eq!(parse(&TEXT.replace("pgalloc_dma 1", "pgalloc_dma")), Err(2));
    }

    #[test]
    fn this_kernel_counts() {
        let counts = read(Path::new("/")).unwrap();
        assert!(counts.allocated_pages > 0 && counts.freed_pages > 0, "{counts:?}");
    }
}
