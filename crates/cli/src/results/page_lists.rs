//! Changes of page lists between two looks.

use std::collections::BTreeMap;

use nodeward_linux::procfs::allocations::AllocationCounts;
use nodeward_model::{CpuId, NodeId, PageList, ZoneLists};
use serde::Serialize;

/// What was seen at one moment.
#[derive(Clone, Debug)]
pub struct ListLook {
    /// When, by a clock that does not run backwards.
    pub at_ns: u64,
    /// The zones with their lists.
    pub zones: Vec<ZoneLists>,
    /// What the kernel had counted.
    pub counts: AllocationCounts,
}

/// A list, and its change since the look before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ListChange<'a> {
    /// The node of its zone.
    pub node: NodeId,
    /// The name of its zone.
    pub zone: &'a str,
    /// The list as it is now.
    #[serde(flatten)]
    pub list: PageList,
    /// Pages that came into it, or went; `None` if its CPU was offline before.
    pub count_change_pages: Option<i64>,
    /// By how much its length changed, likewise.
    pub high_change_pages: Option<i64>,
}

impl ListChange<'_> {
    /// Returns whether anything of it changed.
    pub fn is_change(&self) -> bool {
        (self.count_change_pages, self.high_change_pages) != (Some(0), Some(0))
    }
}

/// A list that is no more, because its CPU went offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GoneList<'a> {
    /// The node of its zone.
    pub node: NodeId,
    /// The name of its zone.
    pub zone: &'a str,
    /// Its CPU.
    pub cpu: CpuId,
}

/// What changed between two looks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListChanges<'a> {
    /// The time between them.
    pub elapsed_ns: u64,
    /// Base pages that were allocated on the whole machine meanwhile.
    pub allocated_pages: u64,
    /// Base pages that were freed.
    pub freed_pages: u64,
    /// All lists that there are now.
    pub lists: Vec<ListChange<'a>>,
    /// Those that there were before, and are not now.
    pub gone: Vec<GoneList<'a>>,
}

impl<'a> ListChanges<'a> {
    /// Compares two looks.
    pub fn between(before: &'a ListLook, now: &'a ListLook) -> Self {
        let mut old: BTreeMap<_, _> = by_place(&before.zones).collect();
        let lists = by_place(&now.zones).map(|((node, zone, cpu), list)| {
            let old = old.remove(&(node, zone, cpu));
            ListChange {
                node,
                zone,
                list: *list,
                count_change_pages: old.map(|old| change(old.count_pages, list.count_pages)),
                high_change_pages: old.map(|old| change(old.high_pages, list.high_pages)),
            }
        });
        let lists = lists.collect();
        let counted =
            |of: fn(&AllocationCounts) -> u64| of(&now.counts).saturating_sub(of(&before.counts));
        Self {
            elapsed_ns: now.at_ns.saturating_sub(before.at_ns),
            allocated_pages: counted(|counts| counts.allocated_pages),
            freed_pages: counted(|counts| counts.freed_pages),
            lists,
            gone: old.into_keys().map(|(node, zone, cpu)| GoneList { node, zone, cpu }).collect(),
        }
    }

    /// Returns the pages in all lists, and their change.
    pub fn in_lists_pages(&self) -> (u64, i64) {
        let pages = self.lists.iter().map(|change| change.list.count_pages);
        let change = self.lists.iter().filter_map(|change| change.count_change_pages);
        (pages.fold(0, u64::saturating_add), change.fold(0, i64::saturating_add))
    }
}

fn by_place(zones: &[ZoneLists]) -> impl Iterator<Item = ((NodeId, &str, CpuId), &PageList)> {
    zones.iter().flat_map(|zone| {
        zone.lists.iter().map(|list| ((zone.node, zone.zone.as_str(), list.cpu), list))
    })
}

fn change(before: u64, now: u64) -> i64 {
    let difference = i128::from(now) - i128::from(before);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
pub mod test_lists {
    use super::*;

    /// A list of a CPU with this many pages, of this many at most.
    pub fn list(cpu: u32, count_pages: u64, high_pages: u64) -> PageList {
        PageList {
            cpu: CpuId(cpu),
            count_pages,
            high_pages,
            batch_pages: 63,
            high_min_pages: None,
            high_max_pages: None,
        }
    }

    /// A zone of 1 GiB.
    pub fn zone(node: u32, zone: &str, lists: Vec<PageList>) -> ZoneLists {
        ZoneLists {
            node: NodeId(node),
            zone: zone.to_owned(),
            managed_pages: 262_144,
            free_pages: 200_000,
            high_watermark_pages: 8_000,
            lists,
        }
    }

    /// A look at this time, when the kernel had counted so many allocations, and half as many
    /// frees.
    pub fn look(at_ns: u64, allocated_pages: u64, zones: Vec<ZoneLists>) -> ListLook {
        let counts = AllocationCounts { allocated_pages, freed_pages: allocated_pages / 2 };
        ListLook { at_ns, zones, counts }
    }
}

#[cfg(test)]
mod tests {
    use super::test_lists::{list, look, zone};
    use super::*;

    /// Goal: lists are compared by node, zone and CPU, whatever came and went between them: CPU 1
    /// went offline, CPU 2 came, and CPU 0 got 30 pages and a shorter list.
    #[test]
    fn lists_are_compared_by_their_place() {
        let before = look(1, 100, vec![zone(0, "Normal", vec![list(0, 10, 378), list(1, 5, 378)])]);
        let now = look(9, 140, vec![zone(0, "Normal", vec![list(0, 40, 370), list(2, 7, 370)])]);
        let changes = ListChanges::between(&before, &now);
        let numbers = |at: usize| {
            let change = &changes.lists[at];
            (change.list.cpu.0, change.count_change_pages, change.high_change_pages)
        };
        assert_eq!(numbers(0), (0, Some(30), Some(-8)));
        assert_eq!(numbers(1), (2, None, None));
        assert!(changes.lists.iter().all(ListChange::is_change));
        let gone = GoneList { node: NodeId(0), zone: "Normal", cpu: CpuId(1) };
        assert_eq!(changes.gone, [gone]);
        let counts = (changes.elapsed_ns, changes.allocated_pages, changes.freed_pages);
        assert_eq!(counts, (8, 40, 20)); // 140 - 100, and half of each
        assert_eq!(changes.in_lists_pages(), (47, 30)); // 40 + 7; that of a new CPU is not known
    }

    /// Goal: the largest numbers neither overflow nor wrap.
    #[test]
    fn the_largest_numbers() {
        assert_eq!(change(0, u64::MAX), i64::MAX);
        assert_eq!(change(u64::MAX, 0), i64::MIN);
        assert_eq!(change(7, 7), 0);
    }
}
