//! Finds the folios, and their nodes, of named pages.

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{PageLocation, PageSet};
use nodeward_policy::folio_plan::MoveOrder;
use nodeward_policy::hot::{FolioLocation, FolioTable};

use crate::Selection;
use crate::survey::{SurveyMethod, SurveyScope, never, units};

/// Returns the folios that hold the pages of a set. Those that are on no node are left out.
///
/// # Errors
/// If the process is gone or cannot be read.
pub fn locate_folios(
    machine: &dyn Machine,
    process: &dyn Process,
    pages: PageSet,
) -> Result<FolioTable> {
    let page_bytes = machine.page_bytes();
    let orders = [MoveOrder { pages: Some(pages), ..MoveOrder::default() }].into();
    let scope = SurveyScope {
        process,
        index: 0,
        selection: &Selection::default(),
        orders: &orders,
        page_bytes,
        workers: 1,
        method: SurveyMethod::of(machine),
        is_over: &never,
    };
    let mut folios: Vec<FolioLocation> = Vec::new();
    let mut seen = Vec::new();
    for (mapping, range) in units(&scope)?.iter().flat_map(|unit| &unit.pieces) {
        seen.clear();
        process.pages(mapping, *range, &mut seen)?;
        let mut head = None;
        for (address, page) in (range.start..).step_by(page_bytes as usize).zip(&seen) {
            if page.folio_pages > 0 {
                head = match page.location {
                    PageLocation::On(node) => {
                        Some(FolioLocation { address, pages: page.folio_pages, node })
                    }
                    _ => None,
                };
            }
            let is_named = || orders[0].pages.as_ref().is_some_and(|set| set.contains(address));
            folios.extend(head.filter(|_| is_named()));
        }
    }
    Ok(FolioTable::from_sorted(page_bytes, folios))
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{NodeId, Page, Pid};

    use super::*;

    const PAGE: u64 = 4096;

    /// Goal: a page inside a folio yields the folio; a page that is on no node yields none.
    #[test]
    fn pages_lead_to_their_folios() {
        let head = Page { folio_pages: 4, ..Page::on(NodeId(1)) };
        let tail = Page { folio_pages: 0, ..head };
        let swapped = Page { location: PageLocation::Swapped, ..Page::ABSENT };
        let machine = FakeMachine::new(false);
        let pid = Pid::new(7).unwrap();
        let fake_process =
            [Page::on(NodeId(0)), head, tail, tail, tail, swapped, Page::on(NodeId(0))];
        machine.spawn(pid, FakeProcess::with_pages(&fake_process)); // pages 16 to 22
        let process = machine.open_process(pid).unwrap();
        let mut set = PageSet::new(PAGE);
        [16, 19, 20, 21, 40].iter().for_each(|page| _ = set.insert(page * PAGE));
        let found = locate_folios(&machine, &*process, set).unwrap();
        let folio = |first: u64, pages, node| FolioLocation {
            address: first * PAGE,
            pages,
            node: NodeId(node),
        };
        let expected = vec![folio(16, 1, 0), folio(17, 4, 1)];
        assert_eq!(found, FolioTable::from_sorted(PAGE, expected));
    }
}
