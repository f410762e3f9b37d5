//! The public handle of all memory of this process, of which most is in no region: that of the
//! program's allocator, of its libraries, of files that it maps.

use std::path::Path;
use std::sync::Arc;

use nodeward_linux::{Linux, nodes};
use nodeward_machine::{Machine, Process};
use nodeward_model::{
    KindResidency, Mapping, MappingKind, MappingOrigin, Name, NodeId, Nodemask, Pid, Range,
    Topology,
};
use nodeward_mover::{Selection, residency};

use crate::backend::KernelBackend;
use crate::error::{Error, Result};
use crate::migration::{Migration, MigrationReport};
use crate::process_mark::ProcessMark;

/// All memory of this process. The kernel moves it (move_pages(2)), that of regions, too, and by
/// whole pages: what else is on them moves along. In a child of fork(2) all calls fail with
/// [`Error::Forked`].
pub struct OwnMemory {
    machine: Linux,
    topology: Topology,
    usable_nodes: Nodemask,
    myself: Arc<dyn Process>,
    mark: ProcessMark,
}

impl OwnMemory {
    /// Reads which nodes there are. Cost: some milliseconds.
    ///
    /// # Errors
    /// If /sys or /proc cannot be read.
    pub fn open() -> Result<Self> {
        let machine = Linux::open();
        let topology = machine.topology()?;
        let allowed = nodes::nodestring_context(Path::new("/"), &topology)?.allowed;
        let usable_nodes = allowed.and(&topology.nodes_with_memory());
        let myself = machine.open_process(Pid::of_this_process())?;
        Ok(Self { machine, topology, usable_nodes, myself, mark: ProcessMark::new() })
    }

    /// Returns the nodes with memory that this process could use when this was opened.
    pub fn nodes(&self) -> &Nodemask {
        &self.usable_nodes
    }

    /// Returns the nodes from which pages go to one: all others with memory.
    pub fn sources_to(&self, to: NodeId) -> Nodemask {
        self.topology.nodes_with_memory().without(&Nodemask::from_iter([to]))
    }

    /// Moves selected memory to a node. Pages that are not in memory are counted where ranges are
    /// selected.
    ///
    /// # Errors
    /// For an invalid node or option, in a child of fork(2), and if the kernel forbids to move
    /// pages.
    pub fn migrate(
        &self,
        selection: &Selection,
        to: NodeId,
        how: &Migration<'_>,
    ) -> Result<MigrationReport> {
        self.check_process()?;
        if !self.usable_nodes.contains(to) {
            return Err(Error::UnknownNode { node: to });
        }
        let ranges = self.whole_pages(&selection.ranges);
        // No range at all selects all memory.
        if ranges.is_empty() && !selection.ranges.is_empty() {
            return Ok(MigrationReport::default());
        }
        let selection = Selection { ranges, ..selection.clone() };
        let Self { machine, topology, myself, .. } = self;
        KernelBackend { machine, topology, myself }.migrate_selected(selection, to, how)
    }

    /// Finds the pages of a range by node: samples some hundreds, or, with `exact`, counts all.
    /// Pages that were never touched are not counted.
    ///
    /// # Errors
    /// In a child of fork(2), and if the kernel forbids to ask where pages are.
    pub fn residency(&self, range: Range, exact: bool) -> Result<KindResidency> {
        self.check_process()?;
        let kind = MappingKind::Anonymous;
        let mapping = Mapping {
            range,
            kind,
            shared: false,
            huge_page_bytes: None,
            path: Name::default(),
            segment: None,
            origin: MappingOrigin::default(),
        };
        let options =
            residency::Options { exact, parts: true, time_ns_max: None, ..Default::default() };
        let mappings = if range.is_empty() { Vec::new() } else { vec![mapping] };
        let found = residency::measure_mappings(&self.machine, &*self.myself, mappings, &options)?;
        let nothing = KindResidency { exact: true, ..KindResidency::default() };
        Ok(found.kinds.into_values().next().unwrap_or(nothing))
    }

    /// Widens ranges to whole pages, and leaves empty ones out.
    fn whole_pages(&self, ranges: &[Range]) -> Vec<Range> {
        let page_bytes = self.machine.page_bytes();
        let whole = |range: &Range| range.whole_pages(page_bytes);
        ranges.iter().filter(|range| !range.is_empty()).map(whole).collect()
    }

    fn check_process(&self) -> Result<()> {
        if self.mark.is_here() { Ok(()) } else { Err(Error::Forked) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use nodeward_linux::interference::{ChildExit, run_in_child};
    use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea};
    use nodeward_model::SkipReason;

    use super::*;

    /// 64 base pages of which the first 40 are in memory.
    fn area() -> (MappedArea, Range) {
        let page = rustix::param::page_size();
        let area = MappedArea::map(64 * page, AreaBacking::Anonymous).unwrap();
        area.advise(AreaAdvice::BasePages).unwrap();
        let words = area.words()[..40 * page / 8].iter().step_by(page / 8);
        words.for_each(|word| word.store(5, Relaxed));
        let range = Range::new(area.address(), area.address() + area.bytes() as u64);
        (area, range)
    }

    fn only(range: Range) -> Selection {
        Selection { ranges: vec![range], ..Selection::default() }
    }

    /// Goal: each page of memory that no region has is accounted for, by whole pages; it is found
    /// where it was brought.
    #[test]
    fn memory_without_a_region_moves() {
        let (own, (area, range)) = (OwnMemory::open().unwrap(), area());
        let home = own.nodes().last().unwrap();
        let within = Range::new(range.start + 100, range.end - 100);
        let report = own.migrate(&only(within), home, &Migration::default()).unwrap();
        assert_eq!(report.account.moved + report.account.already_there, 40);
        assert_eq!(report.account.skipped, [(SkipReason::NotPresent, 24)].into());
        for exact in [true, false] {
            let found = own.residency(range, exact).unwrap();
            assert_eq!((found.pages_on(home), found.pages), (40, 40));
        }
        drop(area);
    }

    /// Goal: nothing is nothing: an empty range is not all memory, and has no pages.
    #[test]
    fn an_empty_range_is_nothing() {
        let (own, (_area, range)) = (OwnMemory::open().unwrap(), area());
        let home = own.nodes().first().unwrap();
        let empty = Range::new(range.start + 1, range.start + 1);
        let report = own.migrate(&only(empty), home, &Migration::default()).unwrap();
        assert_eq!(report.account.selected(), 0);
        let found = own.residency(empty, false).unwrap();
        assert!(found.is_empty() && found.exact);
    }

    /// Goal: a node that is none and a child are refused.
    #[test]
    fn what_cannot_be_is_refused() {
        let (own, (_area, range)) = (OwnMemory::open().unwrap(), area());
        let missing = NodeId(4_000_000_000);
        let error = own.migrate(&only(range), missing, &Migration::default()).unwrap_err();
        assert!(matches!(error, Error::UnknownNode { node } if node == missing), "{error}");
        let refuses = || match own.residency(range, true) {
            Err(Error::Forked) => 7,
            _ => 8,
        };
        assert_eq!(run_in_child(refuses).unwrap(), ChildExit::Code(7));
    }
}
