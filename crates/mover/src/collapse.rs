//! Collapses base pages that a move brought to their node into transparent huge pages
//! (MADV_COLLAPSE by process_madvise(2), Linux 6.1).
//!
//! Only whole parts are collapsed, whose pages are all in memory, on one destination, and of this
//! process alone: elsewhere the kernel would fill holes with new memory, fetch pages from other
//! nodes, or copy what is shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{CollapseOutcome, CollapseRefusal, Error, Machine, Process, Result};
use nodeward_model::{Mapping, MappingKind, NodeId, Nodemask, Page, PageLocation, Range};

use crate::pacer::MovePacer;
use crate::survey::{SurveyMethod, SurveyScope, populated_pieces};
use crate::{MoveControl, MoveRequest};

/// Bytes of an entry of a page table. A huge page is as large as what one table maps.
const ENTRY_BYTES: u64 = 8;

/// What was collapsed.
#[derive(Debug, Default)]
pub struct CollapseReport {
    /// Bytes of a part, which is a huge page afterwards.
    pub part_bytes: u64,
    /// Parts that were collapsed; also those that were huge pages before, where that is not known.
    pub collapsed: u64,
    /// Parts that were huge pages before; `None` where the caller may not read frame numbers.
    pub already_huge: Option<u64>,
    /// Parts with pages on a destination, of which others are absent, elsewhere, or shared.
    pub mixed: u64,
    /// Parts that were collapsed and not on their node right afterwards: freed, moved, or taken
    /// from another node.
    pub elsewhere: u64,
    /// Whole parts that the machine did not collapse, and why.
    pub refused: BTreeMap<CollapseRefusal, u64>,
    /// The time that it took, in nanoseconds.
    pub took_ns: u64,
    /// Whether a stop ended it before all parts were looked at.
    pub interrupted: bool,
    /// The error that ended it early.
    pub error: Option<Error>,
}

/// Checks that the machine collapses pages, and that the caller may do it to these processes.
///
/// # Errors
/// `Unsupported`, `Denied`, or `Gone`.
pub fn check_collapse(processes: &[Arc<dyn Process>]) -> Result<()> {
    processes.iter().try_for_each(|process| process.collapse(Range::new(0, 0)).map(drop))
}

/// Collapses what is whole of the selected memory on the destinations of a move. The rate of the
/// request holds.
pub fn collapse(
    machine: &dyn Machine,
    processes: &[Arc<dyn Process>],
    request: &MoveRequest,
    control: &MoveControl,
) -> CollapseReport {
    let began_ns = machine.now_ns();
    let page_bytes = machine.page_bytes();
    let report = CollapseReport {
        part_bytes: page_bytes / ENTRY_BYTES * page_bytes,
        already_huge: machine.capabilities().frame_numbers.then_some(0),
        ..CollapseReport::default()
    };
    let pacer = MovePacer::new(request);
    let mut collapser = Collapser { machine, request, control, pacer, pages: Vec::new(), report };
    for (index, process) in processes.iter().enumerate() {
        match collapser.collapse_process(index, &**process) {
            Err(error) if !error.is_gone() => {
                collapser.report.error = Some(error);
                break;
            }
            Ok(()) | Err(_) => {}
        }
    }
    CollapseReport { took_ns: machine.now_ns() - began_ns, ..collapser.report }
}

/// The work under way.
struct Collapser<'a> {
    machine: &'a dyn Machine,
    request: &'a MoveRequest,
    control: &'a MoveControl,
    pacer: MovePacer,
    pages: Vec<Page>,
    report: CollapseReport,
}

impl Collapser<'_> {
    fn collapse_process(&mut self, index: usize, process: &dyn Process) -> Result<()> {
        let orders = &self.request.orders[index];
        let destinations: Nodemask =
            orders.iter().flat_map(|order| order.pairs.iter()).map(|(_, to)| to).collect();
        let control = self.control;
        let pieces = populated_pieces(&SurveyScope {
            process,
            index,
            selection: &self.request.selection,
            orders,
            page_bytes: self.machine.page_bytes(),
            workers: 1,
            method: SurveyMethod::of(self.machine),
            is_over: &|| control.is_stopped(),
        })?;
        let whole = self.report.part_bytes;
        for (mapping, range) in pieces.iter().filter(|(mapping, _)| may_be_huge(mapping)) {
            for part in range.aligned_pieces(whole).filter(|part| part.bytes() == whole) {
                if control.is_stopped() {
                    self.report.interrupted = true;
                    return Ok(());
                }
                self.collapse_part(process, mapping, part, &destinations)?;
            }
        }
        Ok(())
    }

    fn collapse_part(
        &mut self,
        process: &dyn Process,
        mapping: &Mapping,
        part: Range,
        destinations: &Nodemask,
    ) -> Result<()> {
        self.pages.clear();
        process.pages(mapping, part, &mut self.pages)?;
        match PartState::of(&self.pages, destinations) {
            PartState::Elsewhere => {}
            PartState::Huge => *self.report.already_huge.get_or_insert(0) += 1,
            PartState::Mixed => self.report.mixed += 1,
            PartState::Whole(node) => {
                self.pacer.wait_for_rate(self.machine, self.control, part.bytes());
                let outcome = process.collapse(part)?;
                self.account(process, (part, node), outcome)?;
            }
        }
        Ok(())
    }

    fn account(
        &mut self,
        process: &dyn Process,
        (part, node): (Range, NodeId),
        outcome: CollapseOutcome,
    ) -> Result<()> {
        match outcome {
            CollapseOutcome::Refused(reason) => {
                *self.report.refused.entry(reason).or_default() += 1;
            }
            CollapseOutcome::Collapsed
                if process.locate(&[part.start])? == [PageLocation::On(node)] =>
            {
                self.report.collapsed += 1;
            }
            CollapseOutcome::Collapsed => self.report.elsewhere += 1,
        }
        Ok(())
    }
}

/// Returns whether a mapping may have transparent huge pages of one process.
fn may_be_huge(mapping: &Mapping) -> bool {
    let is_anonymous = matches!(mapping.kind, MappingKind::Anonymous | MappingKind::Heap);
    is_anonymous && !mapping.shared && mapping.huge_page_bytes.is_none()
}

/// What a part consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartState {
    /// No page is on a destination.
    Elsewhere,
    /// It is one huge page.
    Huge,
    /// Some of its pages are absent, shared, or on other nodes than others.
    Mixed,
    /// All of its pages are on one destination, and of this process alone.
    Whole(NodeId),
}

impl PartState {
    fn of(pages: &[Page], destinations: &Nodemask) -> Self {
        let at_home = |page: &Page| page.node().filter(|&node| destinations.contains(node));
        let Some(node) = pages.iter().find_map(at_home) else { return Self::Elsewhere };
        if pages.first().is_some_and(|first| first.folio_pages as usize >= pages.len()) {
            return Self::Huge;
        }
        match pages.iter().all(|page| page.node() == Some(node) && !page.shared) {
            true => Self::Whole(node),
            false => Self::Mixed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a part is whole only if all of its pages are on one destination and shared with
    /// nobody.
    #[test]
    fn parts_are_whole_or_not() {
        let to: Nodemask = [NodeId(1)].into_iter().collect();
        let on = |node| Page::on(NodeId(node));
        let state = |pages: &[Page]| PartState::of(pages, &to);
        assert_eq!(state(&[on(1), on(1)]), PartState::Whole(NodeId(1)));
        assert_eq!(state(&[on(0), on(0)]), PartState::Elsewhere);
        assert_eq!(state(&[Page::ABSENT, Page::ABSENT]), PartState::Elsewhere);
        for other in [on(0), Page::ABSENT, Page { shared: true, ..on(1) }] {
            assert_eq!(state(&[on(1), other]), PartState::Mixed, "{other:?}");
        }
        let [head, tail] = [2, 0].map(|folio_pages| Page { folio_pages, ..on(1) });
        assert_eq!(state(&[head, tail]), PartState::Huge);
    }
}
