//! Runs of pages that moved from one node to another, in memory and packed for the disk.

use std::collections::BTreeMap;

use nodeward_model::NodeId;
use nodeward_model::mask::Id as _;
use serde::{Deserialize, Serialize};

/// Consecutive pages with the same source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRun {
    /// The address of the first page.
    pub start: u64,
    /// The number of base pages.
    pub pages: u64,
    /// The source node.
    pub from: NodeId,
    /// The destination node.
    pub to: NodeId,
}

/// Runs of pages of one process. Runs are stored instead of pages, because most moves concern long
/// ranges: a single page takes 16 bytes here and 2 to 4 on disk, and so does a contiguous gibibyte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRuns {
    page_bytes: u64,
    pairs: BTreeMap<(NodeId, NodeId), Vec<PageSpan>>,
}

/// Consecutive pages, by page numbers from address 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PageSpan {
    first: u64,
    pages: u64,
}

impl PageSpan {
    fn end(self) -> u64 {
        self.first.saturating_add(self.pages)
    }
}

/// Runs in the format on disk: by pair of nodes.
pub(super) type PackedRuns = Vec<PackedGroup>;

/// The runs from one node to another, in ascending order. Each is encoded as the pages between it
/// and the end of the run before (for the first, address 0) and its own pages, so that nearby pages
/// give small numbers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PackedGroup {
    from: NodeId,
    to: NodeId,
    gaps_and_pages: Vec<(u64, u64)>,
}

impl MovedRuns {
    /// Returns empty runs of pages of this size (a power of two, in bytes).
    pub fn new(page_bytes: u64) -> Self {
        Self { page_bytes, pairs: BTreeMap::new() }
    }

    /// Adds base pages from the one that contains `address` on, which must not be present yet. They
    /// are joined with the pages pushed before if they continue them.
    pub fn push(&mut self, address: u64, pages: u64, from: NodeId, to: NodeId) {
        let first = address / self.page_bytes;
        let stretches = self.pairs.entry((from, to)).or_default();
        match stretches.last_mut().filter(|last| last.end() == first) {
            Some(last) => last.pages += pages,
            None => stretches.push(PageSpan { first, pages }),
        }
    }

    /// Iterates over the runs by pair of nodes; within a pair as they were pushed, or by address if
    /// they were read from a ledger.
    pub fn iter(&self) -> impl Iterator<Item = MovedRun> + '_ {
        self.pairs.iter().flat_map(move |(&(from, to), stretches)| {
            stretches.iter().map(move |stretch| MovedRun {
                start: stretch.first * self.page_bytes,
                pages: stretch.pages,
                from,
                to,
            })
        })
    }

    /// Returns the base pages in all runs.
    pub fn pages(&self) -> u64 {
        let stretches = self.pairs.values().flatten();
        stretches.fold(0, |sum, stretch| sum.saturating_add(stretch.pages))
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the size of a base page in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Sorts by address and joins runs that meet, so that equal pages are equal values.
    pub(super) fn normalize(&mut self) {
        for stretches in self.pairs.values_mut() {
            stretches.sort_unstable();
            stretches.dedup_by(|next, last| {
                let meets = next.first <= last.end();
                if meets {
                    last.pages = last.pages.max(next.end() - last.first);
                }
                meets
            });
        }
    }

    /// Adds the runs of another value, unsorted.
    pub(super) fn append(&mut self, other: Self) {
        for (pair, mut stretches) in other.pairs {
            self.pairs.entry(pair).or_default().append(&mut stretches);
        }
    }

    /// Encodes the runs, which must be sorted.
    pub(super) fn pack(&self) -> PackedRuns {
        let group = |(&(from, to), stretches): (&(NodeId, NodeId), &Vec<PageSpan>)| {
            let mut end = 0;
            let gap_and_pages = |stretch: &PageSpan| {
                let gap = stretch.first - end;
                end = stretch.end();
                (gap, stretch.pages)
            };
            let gaps_and_pages = stretches.iter().map(gap_and_pages).collect();
            PackedGroup { from, to, gaps_and_pages }
        };
        self.pairs.iter().map(group).collect()
    }

    /// Decodes packed runs. `None` for values that [`MovedRuns::pack`] never returns: nodes that no
    /// kernel has, groups without runs, runs without pages, addresses that do not exist.
    pub(super) fn unpack(packed: &PackedRuns, page_bytes: u64) -> Option<Self> {
        let mut runs = Self::new(page_bytes);
        for group in packed {
            let impossible = |node: NodeId| node.0 >= NodeId::LIMIT;
            if impossible(group.from) || impossible(group.to) || group.gaps_and_pages.is_empty() {
                return None;
            }
            let stretches = runs.pairs.entry((group.from, group.to)).or_default();
            let mut end = 0_u64;
            for &(gap, pages) in &group.gaps_and_pages {
                let first = end.checked_add(gap)?;
                end = first.checked_add(pages).filter(|&end| end <= u64::MAX / page_bytes)?;
                stretches.push((pages > 0).then_some(PageSpan { first, pages })?);
            }
        }
        Some(runs)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const PAGE: u64 = 4096;

    fn run(first: u64, pages: u64, from: u32, to: u32) -> MovedRun {
        MovedRun { start: first * PAGE, pages, from: NodeId(from), to: NodeId(to) }
    }

    fn runs(of: &[MovedRun]) -> MovedRuns {
        let mut runs = MovedRuns::new(PAGE);
        of.iter().for_each(|run| runs.push(run.start, run.pages, run.from, run.to));
        runs
    }

    fn bytes(runs: &MovedRuns) -> usize {
        postcard::to_allocvec(&runs.pack()).unwrap().len()
    }

    /// Goal: adjacent pages with the same nodes are one run, also when pages with other nodes are
    /// pushed in between.
    #[test]
    fn neighbours_are_joined() {
        let pushed = [run(10, 2, 0, 1), run(12, 1, 2, 1), run(12, 3, 0, 1), run(16, 1, 0, 1)];
        let seen: Vec<MovedRun> = runs(&pushed).iter().collect();
        assert_eq!(seen, [run(10, 5, 0, 1), run(16, 1, 0, 1), run(12, 1, 2, 1)]);
        assert_eq!(runs(&pushed).pages(), 5 + 1 + 1);
    }

    /// Goal: a single page costs 2 to 4 bytes, from whatever node its neighbours come.
    #[test]
    fn scattered_pages_are_small() {
        // Addresses of 47 bits are pages of 35 bits, which take five bytes, once for each pair of
        // nodes; a pair takes three bytes more (from, to, count), the list of them one.
        let base = 0x7f00_0000_0000 / PAGE;
        let scattered = |gap: u64, nodes: u64| {
            let page = |n: u64| run(base + n * (gap + 1), 1, u32::try_from(n % nodes).unwrap(), 7);
            runs(&(0..100).map(page).collect::<Vec<_>>())
        };
        // Each further page takes its gap (7 bits a byte) and one byte for its count.
        assert_eq!(bytes(&scattered(100, 1)), 1 + 3 + (5 + 1) + 99 * 2);
        assert_eq!(bytes(&scattered(10_000, 1)), 1 + 3 + (5 + 1) + 99 * 3);
        assert_eq!(bytes(&scattered(2_000_000, 1)), 1 + 3 + (5 + 1) + 99 * 4);
        assert_eq!(bytes(&scattered(0, 4)), 1 + 4 * (3 + (5 + 1) + 24 * 2), "interleaved");
    }

    /// Goal: values that the writer never writes are refused, and nothing overflows.
    #[test]
    fn impossible_runs_are_refused() {
        let group = |from, to, gaps_and_pages: &[(u64, u64)]| {
            let gaps_and_pages = gaps_and_pages.to_vec();
            vec![PackedGroup { from: NodeId(from), to: NodeId(to), gaps_and_pages }]
        };
        let refused = |packed| MovedRuns::unpack(&packed, PAGE).is_none();
        assert!(!refused(group(1023, 1023, &[(u64::MAX / PAGE - 1, 1)])));
        assert!(refused(group(1024, 0, &[(1, 1)])), "no such node");
        assert!(refused(group(0, 1024, &[(1, 1)])), "no such node");
        assert!(refused(group(0, 1, &[])), "no runs");
        assert!(refused(group(0, 1, &[(1, 0)])), "no pages");
        assert!(refused(group(0, 1, &[(u64::MAX / PAGE, 1)])), "beyond the last address");
        assert!(refused(group(0, 1, &[(1, 1), (u64::MAX, 1)])), "gap overflows");
        assert!(refused(group(0, 1, &[(1, 1), (1, u64::MAX)])), "pages overflow");
    }

    type Pages = BTreeSet<(u64, u32, u32)>;

    fn pages(runs: &MovedRuns) -> Pages {
        let of_run = |run: MovedRun| {
            let pages = run.start / PAGE..run.start / PAGE + run.pages;
            pages.map(move |page| (page, run.from.0, run.to.0))
        };
        runs.iter().flat_map(of_run).collect()
    }

    proptest! {
        /// Goal: pages pushed in any order are returned the same, also from the disk; equal pages
        /// are equal values.
        #[test]
        fn pages_are_kept(pushed in prop::collection::vec((0..60_u64, 1..9_u64, 0..3_u32), 0..40)) {
            let pushed = pushed.iter().map(|&(a, n, from)| run(a, n, from, 3));
            let pushed: Vec<MovedRun> = pushed.collect();
            let wanted: Pages = pushed.iter().flat_map(|run| pages(&runs(&[*run]))).collect();
            let mut all = runs(&pushed);
            prop_assert_eq!(pages(&all), wanted.clone());
            all.normalize();
            prop_assert_eq!(pages(&all), wanted.clone());
            prop_assert_eq!(all.pages(), wanted.len() as u64, "each page once");
            prop_assert_eq!(MovedRuns::unpack(&all.pack(), PAGE), Some(all.clone()));
            let singles = wanted.iter().map(|&(page, f, t)| run(page, 1, f, t));
            let singles: Vec<MovedRun> = singles.collect();
            prop_assert_eq!(runs(&singles), all);
        }
    }
}
