//! Moves pages of a claimed chunk with move_pages(2), for batches where that is the cheapest
//! method.

use nodeward_machine::{EntryStatus, MovePagesCall, Process};
use nodeward_model::{NodeId, PageLocation, Range};

use crate::page_bits::PageBits;

/// Moves the named pages (indices in the chunk) with move_pages(2) and returns those that stayed.
pub fn move_batch(
    process: &dyn Process,
    chunk: Range,
    page_bytes: u64,
    pages: &[usize],
    to: NodeId,
) -> PageBits {
    let mut batch = MovePagesCall::new(false);
    pages.iter().for_each(|&page| batch.push(chunk.start + page as u64 * page_bytes, to));
    let outcome = process.move_pages(&batch);
    let mut stayed = PageBits::default();
    if outcome.is_ok_and(|told| told.status.iter().all(|&page| page == EntryStatus::On(to))) {
        return stayed;
    }
    // A call that ends early does not report every page that it moved, so the pages are located.
    let mut places = Vec::with_capacity(pages.len());
    // A page whose place cannot be read counts as stayed.
    process.locations(chunk, &mut places).ok();
    let is_there = |page: usize| places.get(page) == Some(&PageLocation::On(to));
    pages.iter().filter(|&&page| !is_there(page)).for_each(|&page| stayed.insert(page));
    stayed
}

#[cfg(test)]
mod tests {
    use nodeward_machine::Machine;
    use nodeward_machine::fake::{FakeMachine, FakeProcess, PAGE_BYTES};
    use nodeward_model::{Page, Pid};

    use super::*;

    const HERE: NodeId = NodeId(0);
    const THERE: NodeId = NodeId(1);

    /// Moves `pages` of a chunk of 512 pages. All of them are on one node, except page 5, which is
    /// absent. Returns the pages that stayed, and those that the machine has on the destination.
    fn moved(
        pages: &[usize],
        change: impl FnOnce(FakeProcess) -> FakeProcess,
    ) -> (Vec<usize>, Vec<usize>) {
        let all: Vec<Page> =
            (0..512).map(|page| if page == 5 { Page::ABSENT } else { Page::on(HERE) }).collect();
        let (machine, pid) = (FakeMachine::new(false), Pid::new(7).unwrap());
        let fake_process = change(FakeProcess::with_pages(&all));
        let chunk = fake_process.mappings[0].range;
        machine.spawn(pid, fake_process);
        let process = machine.open_process(pid).unwrap();
        let stayed = move_batch(&*process, chunk, PAGE_BYTES, pages, THERE);
        let fake_process = machine.process(pid).unwrap();
        let there = (0..512).filter(|page| {
            fake_process.pages[&(chunk.start / PAGE_BYTES + *page as u64)].node() == Some(THERE)
        });
        (stayed.iter().collect(), there.collect())
    }

    /// Goal: exactly the named pages move.
    #[test]
    fn the_kernel_moves_what_is_named() {
        let pages: Vec<usize> = (100..300).collect();
        assert_eq!(moved(&pages, |fake_process| fake_process), (vec![], pages.clone()));
    }

    /// Goal: whatever ends a call early (a pinned page, a missing page, a full node), exactly the
    /// pages that are not on the destination are reported as stayed.
    #[test]
    fn what_stays_is_told() {
        let pages: Vec<usize> = (0..512).collect();
        let spoil: [fn(FakeProcess) -> FakeProcess; 3] = [
            |fake_process| fake_process,
            |fake_process| FakeProcess { pinned: [16 + 200, 16 + 300].into(), ..fake_process },
            |fake_process| FakeProcess { free_pages: [(THERE, 100)].into(), ..fake_process },
        ];
        for spoil in spoil {
            let (stayed, there) = moved(&pages, spoil);
            assert!(stayed.contains(&5) && !there.is_empty(), "{stayed:?}");
            let mut both = [stayed, there].concat();
            both.sort_unstable();
            assert_eq!(both, pages);
        }
    }

    /// Goal: where the call is not allowed all pages stay, and the pager can move them itself.
    #[test]
    fn a_kernel_that_refuses_moves_nothing() {
        let forbid = |fake_process| FakeProcess { forbidden_nodes: [THERE].into(), ..fake_process };
        assert_eq!(moved(&[1, 2, 3], forbid), (vec![1, 2, 3], vec![]));
    }
}
