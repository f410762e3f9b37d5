//! Cuts the selected memory of processes into units of work.

use std::sync::Arc;

use nodeward_machine::{Process, Result};
use nodeward_model::{Mapping, Range};
use nodeward_policy::workers::unit_pages;

use crate::Selection;

/// A page table of the kernel maps this much; workers that stay within different ones do not wait
/// for each other's page table lock.
const PAGE_TABLE_BYTES: u64 = 2 << 20;

/// Memory that one worker looks at and moves in one go.
#[derive(Debug)]
pub struct Unit {
    /// Index of its process among those of the move.
    pub process: usize,
    /// Stretches of address space, each within one mapping.
    pub pieces: Vec<Piece>,
    /// Bytes of address space.
    pub bytes: u64,
    /// Whether they are hugetlb memory; a unit never mixes.
    pub hugetlb: bool,
}

/// A stretch of address space and the mapping that it lies in.
type Piece = (Arc<Mapping>, Range);

/// Lists the units of one process for so many workers.
pub fn units(
    process: &dyn Process,
    index: usize,
    selection: &Selection,
    page_bytes: u64,
    workers: u32,
) -> Result<Vec<Unit>> {
    let pieces = pieces(process, selection, page_bytes)?;
    let bytes: u64 = pieces.iter().map(|(_, range)| range.bytes()).sum();
    let unit_bytes = unit_pages(bytes / page_bytes, workers) * page_bytes;
    let mut units = Vec::new();
    for (mapping, range) in pieces {
        let step = mapping.huge_page_bytes.unwrap_or(0).max(PAGE_TABLE_BYTES);
        for piece in range.aligned_pieces(step) {
            add(&mut units, index, &mapping, piece, unit_bytes);
        }
    }
    Ok(units)
}

/// What is selected and may hold pages.
fn pieces(process: &dyn Process, selection: &Selection, page_bytes: u64) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for mapping in process.mappings()? {
        let parts = selection.parts(&mapping, page_bytes);
        let mapping = Arc::new(mapping);
        for part in parts {
            let populated = process.populated(part)?.into_iter();
            pieces.extend(populated.map(|range| (Arc::clone(&mapping), range)));
        }
    }
    Ok(pieces)
}

/// Adds a piece to the last unit if it belongs there and there is room.
fn add(units: &mut Vec<Unit>, process: usize, mapping: &Arc<Mapping>, piece: Range, most: u64) {
    let hugetlb = mapping.huge_page_bytes.is_some();
    let bytes = piece.bytes();
    let has_room = |unit: &&mut Unit| unit.hugetlb == hugetlb && unit.bytes + bytes <= most;
    match units.last_mut().filter(has_room) {
        Some(unit) => {
            unit.bytes += bytes;
            append(&mut unit.pieces, mapping, piece);
        }
        None => {
            units.push(Unit {
                process,
                pieces: vec![(Arc::clone(mapping), piece)],
                bytes,
                hugetlb,
            });
        }
    }
}

/// Adjacent pieces of one mapping become one.
fn append(pieces: &mut Vec<Piece>, mapping: &Arc<Mapping>, piece: Range) {
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
        let units = units(&*process, 0, &Selection::default(), 4096, 1).unwrap();
        // Starts 16 pages after a page table: 496 pages, then whole tables of 512; seven of those
        // fit with the first piece into 4096 pages.
        let pages: Vec<u64> = units.iter().map(|unit| unit.bytes / 4096).collect();
        assert_eq!(pages, [496 + 7 * 512, 4096, 10_000 - 4080 - 4096]);
        let starts = units[1..].iter().map(|unit| unit.pieces[0].1.start);
        assert!(starts.into_iter().all(|start| start.is_multiple_of(PAGE_TABLE_BYTES)));
    }
}
