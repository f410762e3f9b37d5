//! Divides the selected memory of processes into units of work.

use std::sync::Arc;

use nodeward_machine::{Machine, PagesByMapping, Process, Result};
use nodeward_model::{Mapping, Range, SkipReason};
use nodeward_policy::folio_plan::{FolioMove, MoveOrder};
use nodeward_policy::workers::unit_pages;

use crate::Selection;
use crate::populated::populated;
use crate::request::whole_pages;
use crate::shared_limit::too_large;
use crate::sparse::{PAGE_TABLE_BYTES, SelectedMemory, UnitPiece, divide};
use crate::sparse_search;

/// Memory that one worker examines and moves at a time.
#[derive(Debug)]
pub struct Unit {
    /// Index of its process among those of the move.
    pub process: usize,
    /// Ranges of address space, each within one mapping.
    pub pieces: Vec<UnitPiece>,
    /// Bytes of address space.
    pub bytes: u64,
    /// The memory is hugetlb memory; a unit never mixes kinds.
    pub hugetlb: bool,
    /// The reason for which all of the unit stays, if it does; a unit never mixes two reasons
    /// either.
    pub stays: Option<SkipReason>,
    /// Orders for its pages.
    pub orders: Arc<[MoveOrder]>,
}

impl Unit {
    /// Returns whether only one worker at a time may move such memory. To move a hugetlb page of a
    /// shared mapping the kernel only tries to lock the whole file, and refuses the page if another
    /// call holds the lock.
    pub fn must_run_alone(&self) -> bool {
        self.hugetlb && self.pieces.iter().any(|(mapping, _)| mapping.shared)
    }

    /// Returns the first address of the mapping that has a folio of this unit.
    pub fn mapping_of(&self, folio: &FolioMove) -> u64 {
        let after = self.pieces.partition_point(|(_, range)| range.start <= folio.address);
        self.pieces.get(after.saturating_sub(1)).map_or(0, |(mapping, _)| mapping.range.start)
    }
}

/// The memory of one process that is divided into units.
pub struct SurveyScope<'a> {
    pub process: &'a dyn Process,
    /// Index of the process among those of the move.
    pub index: usize,
    pub selection: &'a Selection,
    pub orders: &'a Arc<[MoveOrder]>,
    pub page_bytes: u64,
    pub workers: u32,
    /// The method by which populated memory is found.
    pub method: SurveyMethod,
    /// Returns whether the search is to end; the rest then counts as populated.
    pub is_over: &'a (dyn Fn() -> bool + Sync),
}

/// For a search that nothing ends early.
pub fn never() -> bool {
    false
}

/// The method by which populated memory is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurveyMethod {
    /// The kernel lists it (PAGEMAP_SCAN).
    pub lists: bool,
    /// Maximum number of pages of a mapping that may be left to the kernel's walk, if the kernel
    /// counts the pages of each mapping (numa_maps).
    pub walked_pages_max: Option<u64>,
}

impl SurveyMethod {
    /// Returns the method that finds all memory, with addresses.
    pub fn of(machine: &dyn Machine) -> Self {
        let lists = machine.capabilities().pagemap_scan;
        Self { lists, walked_pages_max: (!lists).then_some(0) }
    }
}

/// Lists the units of all selected memory of one process.
pub fn units(scope: &SurveyScope<'_>) -> Result<Vec<Unit>> {
    survey(scope).map(|(units, _)| units)
}

/// Lists the selected memory that may hold pages, in ascending order.
pub fn populated_pieces(scope: &SurveyScope<'_>) -> Result<Vec<UnitPiece>> {
    selected_memory(scope, scope.process.mappings()?).map(|memory| memory.pieces)
}

/// Lists the units of one process, and the pages by node of the mappings that are in no unit,
/// because they are left to a walk inside the kernel. Workers in different page tables do not
/// contend for their locks.
pub fn survey(scope: &SurveyScope<'_>) -> Result<(Vec<Unit>, PagesByMapping)> {
    let mappings = scope.process.mappings()?;
    let too_large = scope.selection.shared_bytes_max.map(|most| too_large(&mappings, most));
    let memory = selected_memory(scope, mappings)?;
    let stays = |(mapping, _): &UnitPiece| {
        too_large.as_ref().is_some_and(|them| them.contains(&mapping.range.start))
    };
    let (staying, others): (Vec<_>, Vec<_>) = memory.pieces.into_iter().partition(stays);
    let mut units = divide_into_units(scope, others, None);
    units.extend(divide_into_units(scope, staying, Some(SkipReason::SharedAbove)));
    Ok((units, memory.walked))
}

fn divide_into_units(
    scope: &SurveyScope<'_>,
    pieces: Vec<UnitPiece>,
    stays: Option<SkipReason>,
) -> Vec<Unit> {
    let page_bytes = scope.page_bytes;
    let mut left = bytes(&pieces);
    let mut size = 0;
    let mut units: Vec<Unit> = Vec::new();
    for (mapping, range) in pieces {
        let hugetlb = mapping.huge_page_bytes.is_some();
        let step = mapping.huge_page_bytes.unwrap_or(0).max(PAGE_TABLE_BYTES);
        for piece in range.aligned_pieces(step) {
            let fits = |unit: &Unit| unit.hugetlb == hugetlb && unit.bytes + piece.bytes() <= size;
            match units.last_mut().filter(|unit| fits(unit)) {
                Some(unit) => {
                    unit.bytes += piece.bytes();
                    append(&mut unit.pieces, &mapping, piece);
                }
                None => {
                    size = unit_pages(left / page_bytes, scope.workers) * page_bytes;
                    units.push(Unit {
                        process: scope.index,
                        pieces: vec![(Arc::clone(&mapping), piece)],
                        bytes: piece.bytes(),
                        hugetlb,
                        stays,
                        orders: Arc::clone(scope.orders),
                    });
                }
            }
            left -= piece.bytes();
        }
    }
    units
}

/// Lists the selected memory that may hold pages. Where the resident pages of the process could
/// fill half of the selected addresses, finding the populated parts would take longer than to read
/// all.
fn selected_memory(scope: &SurveyScope<'_>, mappings: Vec<Mapping>) -> Result<SelectedMemory> {
    let process = scope.process;
    let mut selected = Vec::new();
    for mapping in mappings {
        let parts = scope.selection.parts(&mapping, scope.page_bytes);
        let parts = named_parts(parts, &mapping, scope.orders, scope.page_bytes);
        let mapping = Arc::new(mapping);
        selected.extend(parts.into_iter().map(|part| (Arc::clone(&mapping), part)));
    }
    if bytes(&selected) <= 2 * process.resident_bytes()? {
        return Ok(SelectedMemory { pieces: selected, ..SelectedMemory::default() });
    }
    let mut memory = match scope.method.walked_pages_max {
        Some(pages_max) => {
            divide(selected, &process.pages_by_mapping()?.unwrap_or_default(), pages_max)
        }
        None => SelectedMemory { pieces: selected, ..SelectedMemory::default() },
    };
    search_sparse(scope, &mut memory)?;
    if scope.method.lists {
        for (mapping, part) in std::mem::take(&mut memory.pieces) {
            let populated = populated(process, &[part], scope.is_over)?.into_iter();
            memory.pieces.extend(populated.map(|range| (Arc::clone(&mapping), range)));
        }
    }
    Ok(memory)
}

/// Searches nearly empty mappings for their pages.
fn search_sparse(scope: &SurveyScope<'_>, memory: &mut SelectedMemory) -> Result<()> {
    for ((mapping, part), pages) in std::mem::take(&mut memory.sparse) {
        let found = sparse_search::search(scope.process, part, pages, scope.is_over)?;
        memory.pieces.extend(found.into_iter().map(|range| (Arc::clone(&mapping), range)));
    }
    memory.pieces.sort_by_key(|(_, range)| range.start);
    Ok(())
}

/// Returns the parts in which pages are named one by one; all parts if an order is for all pages.
fn named_parts(
    parts: Vec<Range>,
    mapping: &Mapping,
    orders: &[MoveOrder],
    page_bytes: u64,
) -> Vec<Range> {
    let Some(sets) = orders.iter().map(|order| order.pages.as_ref()).collect::<Option<Vec<_>>>()
    else {
        return parts;
    };
    let named = |part: Range| sets.iter().flat_map(move |set| set.covering_ranges(part));
    let named: Vec<Range> = parts.into_iter().flat_map(named).collect();
    whole_pages(&named, mapping, page_bytes)
}

fn bytes(pieces: &[UnitPiece]) -> u64 {
    pieces.iter().map(|(_, range)| range.bytes()).sum()
}

/// Appends a piece, merging adjacent pieces of one mapping.
fn append(pieces: &mut Vec<UnitPiece>, mapping: &Arc<Mapping>, piece: Range) {
    match pieces.last_mut() {
        Some((last, range)) if Arc::ptr_eq(last, mapping) && range.end == piece.start => {
            range.end = piece.end;
        }
        _ => pieces.push((Arc::clone(mapping), piece)),
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{NodeId, Page, Pid};

    use super::*;

    #[test]
    fn units_are_bounded_aligned_and_complete() {
        let machine = FakeMachine::new(false);
        let pid = Pid::new(7).unwrap();
        machine.spawn(pid, FakeProcess::with_pages(&vec![Page::on(NodeId(0)); 10_000]));
        let process = machine.open_process(pid).unwrap();
        let scope = SurveyScope {
            process: &*process,
            index: 0,
            selection: &Selection::default(),
            orders: &[MoveOrder::default()].into(),
            page_bytes: 4096,
            workers: 2,
            method: SurveyMethod::of(&machine),
            is_over: &never,
        };
        let units = units(&scope).unwrap();
        // Starts 16 pages after a page table: 496 pages, then whole tables of 512. A quarter of
        // 10,000 holds the first piece and three tables; then the minimum, four tables, and so on.
        let pages: Vec<u64> = units.iter().map(|unit| unit.bytes / 4096).collect();
        assert_eq!(pages, [496 + 3 * 512, 2048, 2048, 2048, 10_000 - 2032 - 3 * 2048]);
        let starts = units[1..].iter().map(|unit| unit.pieces[0].1.start);
        assert!(starts.into_iter().all(|start| start.is_multiple_of(PAGE_TABLE_BYTES)));
    }
}
