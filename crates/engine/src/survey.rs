//! Cuts the selected memory of processes into units of work.

use std::sync::Arc;

use nodeward_machine::{Process, Result};
use nodeward_model::{Mapping, Range};

use crate::{Live, Selection};

/// A page table of the kernel maps this much; workers that stay within different ones do not wait
/// for each other's page table lock.
const PAGE_TABLE_BYTES: u64 = 2 << 20;

/// Base pages in a unit. Each call drains the per-CPU LRU lists of the whole machine under one
/// mutex (20-200 us, `lru_cache_disable` in mm/swap.c), so it must carry enough pages to be worth
/// it: 4096 pages take the kernel 3-10 ms.
const UNIT_PAGES: u64 = 4096;

/// Memory that one worker looks at and moves in one go.
#[derive(Debug)]
pub struct Unit {
    /// Index of its process among those of the move.
    pub process: usize,
    /// Stretches of address space, each within one mapping.
    pub pieces: Vec<(Arc<Mapping>, Range)>,
    /// Whether they are hugetlb memory; a unit never mixes.
    pub hugetlb: bool,
}

impl Unit {
    /// Bytes of address space.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(_, range)| range.bytes()).sum()
    }
}

/// Lists the units of one process, and tells `live` how much there is to examine.
pub fn units(
    process: &dyn Process,
    index: usize,
    selection: &Selection,
    page_bytes: u64,
    live: &Live,
) -> Result<Vec<Unit>> {
    let mut units: Vec<Unit> = Vec::new();
    for mapping in process.mappings()? {
        let step = mapping.huge_page_bytes.unwrap_or(0).max(PAGE_TABLE_BYTES);
        let parts = selection.parts(&mapping, page_bytes);
        let mapping = Arc::new(mapping);
        for part in parts {
            for range in process.populated(part)? {
                range
                    .aligned_pieces(step)
                    .for_each(|piece| add(&mut units, index, &mapping, piece, page_bytes));
            }
        }
    }
    live.expect(units.iter().map(Unit::bytes).sum());
    Ok(units)
}

/// Adds a piece to the last unit if it belongs there and there is room.
fn add(units: &mut Vec<Unit>, process: usize, mapping: &Arc<Mapping>, piece: Range, page: u64) {
    let hugetlb = mapping.huge_page_bytes.is_some();
    let has_room = |unit: &&mut Unit| {
        unit.hugetlb == hugetlb && unit.bytes() + piece.bytes() <= UNIT_PAGES * page
    };
    match units.last_mut().filter(has_room) {
        Some(unit) => append(&mut unit.pieces, mapping, piece),
        None => {
            units.push(Unit { process, pieces: vec![(Arc::clone(mapping), piece)], hugetlb });
        }
    }
}

/// Adjacent pieces of one mapping become one.
fn append(pieces: &mut Vec<(Arc<Mapping>, Range)>, mapping: &Arc<Mapping>, piece: Range) {
    match pieces.last_mut() {
        Some((last, range)) if Arc::ptr_eq(last, mapping) && range.end == piece.start => {
            range.end = piece.end;
        }
        _ => pieces.push((Arc::clone(mapping), piece)),
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::Machine;
    use nodeward_machine::paper::{Paper, Sheet};
    use nodeward_model::{NodeId, Page, Pid};

    use super::*;

    #[test]
    fn units_are_bounded_aligned_and_complete() {
        let machine = Paper::new(false);
        let pid = Pid::new(7).unwrap();
        machine.start(pid, Sheet::of(&vec![Page::on(NodeId(0)); 10_000]));
        let process = machine.hold(pid).unwrap();
        let live = Live::default();
        let units = units(&*process, 0, &Selection::default(), 4096, &live).unwrap();
        // Starts 16 pages after a page table: 496 pages, then whole tables of 512; seven of those
        // fit with the first piece into 4096 pages.
        let pages: Vec<u64> = units.iter().map(|unit| unit.bytes() / 4096).collect();
        assert_eq!(pages, [496 + 7 * 512, 4096, 10_000 - 4080 - 4096]);
        assert_eq!(live.total_bytes(), 10_000 * 4096);
        let starts = units[1..].iter().map(|unit| unit.pieces[0].1.start);
        assert!(starts.into_iter().all(|start| start.is_multiple_of(PAGE_TABLE_BYTES)));
    }
}
