//! Places of pages by /proc/PID/numa_maps, without any code of nodeward's own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;

/// Base pages by node.
pub type PagesByNode = BTreeMap<u32, u64>;

const BASE_KIB: u64 = 4;

/// Returns the pages of a process; none if it is gone.
pub fn pages_of(pid: u32) -> PagesByNode {
    pages_within(pid, &(0..u64::MAX))
}

/// Returns the pages of a process in mappings that begin in a range, or contain its beginning.
pub fn pages_within(pid: u32, range: &Range<u64>) -> PagesByNode {
    let text = text_of(&format!("/proc/{pid}/numa_maps"));
    let maps = text_of(&format!("/proc/{pid}/maps"));
    let kernels_own = kernel_mappings(&maps);
    let mappings: Vec<(u64, &str)> = text
        .lines()
        .filter_map(mapping)
        .filter(|(start, _)| !kernels_own.contains(start))
        .collect();
    let first = mappings.iter().rposition(|&(start, _)| start <= range.start).unwrap_or(0);
    let mut nodes = PagesByNode::new();
    let inside =
        mappings[first.min(mappings.len())..].iter().filter(|(start, _)| *start < range.end);
    for (_, fields) in inside {
        add(&mut nodes, fields);
    }
    nodes
}

/// Returns a file of /proc, in which file names may be any bytes; empty if the process is gone.
fn text_of(path: &str) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// Returns the start of mappings whose pages belong to the kernel; newer kernels count those pages
/// too.
fn kernel_mappings(maps: &str) -> BTreeSet<u64> {
    let own = maps.lines().filter(|line| line.contains("[v"));
    own.filter_map(|line| u64::from_str_radix(line.split_once('-')?.0, 16).ok()).collect()
}

fn mapping(line: &str) -> Option<(u64, &str)> {
    let (start, fields) = line.split_once(' ')?;
    Some((u64::from_str_radix(start, 16).ok()?, fields))
}

fn add(nodes: &mut PagesByNode, fields: &str) {
    let value = |field: &str, name: &str| field.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    let page_kib = fields.split(' ').find_map(|field| value(field, "kernelpagesize_kB"));
    let base_pages = page_kib.unwrap_or(BASE_KIB) / BASE_KIB;
    for field in fields.split(' ') {
        let Some((node, pages)) = field.strip_prefix('N').and_then(|field| field.split_once('='))
        else {
            continue;
        };
        if let (Ok(node), Ok(pages)) = (node.parse(), pages.parse::<u64>()) {
            *nodes.entry(node).or_default() += pages * base_pages;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: counts are in base pages, whatever the page size; not every N is a node.
    #[test]
    fn pages_are_added_up() {
        let mut nodes = PagesByNode::new();
        add(&mut nodes, "default anon=3 dirty=3 N0=2 N3=1 kernelpagesize_kB=4");
        add(&mut nodes, "bind:1 huge anon=2 N3=2 kernelpagesize_kB=2048");
        add(&mut nodes, "default file=/tmp/N0=7x Name=1");
        assert_eq!(nodes, [(0, 2), (3, 1025)].into());
    }
}
