//! Counts the pages of a range by node, one by one.

use std::collections::BTreeMap;

use nodeward_machine::Process;
use nodeward_model::{NodeId, PageLocation, Range};

use crate::error::Result;

/// Pages that are read at a time, which bounds the memory needed.
const PAGES_PER_CALL: u64 = 4096;
/// Number of further reads of a page that the kernel is moving.
const LOCATE_ATTEMPTS_MAX: usize = 3;

/// Counts the base pages of a range of whole pages by node.
pub fn count_by_node(
    myself: &dyn Process,
    range: Range,
    page_bytes: u64,
) -> Result<BTreeMap<NodeId, u64>> {
    let (mut counts, mut places) = (BTreeMap::new(), Vec::new());
    for piece in range.aligned_pieces(PAGES_PER_CALL * page_bytes) {
        places.clear();
        myself.locations(piece, &mut places)?;
        let addresses = (piece.start..piece.end).step_by(page_bytes as usize);
        let moving = addresses.zip(&places).filter(|(_, place)| **place == PageLocation::InFlight);
        let moving: Vec<u64> = moving.map(|(address, _)| address).collect();
        let landed = locate_in_flight(myself, moving)?;
        for place in places.iter().chain(&landed) {
            if let PageLocation::On(node) = place {
                *counts.entry(*node).or_default() += 1;
            }
        }
    }
    Ok(counts)
}

/// Locates pages that were in flight. Those still in flight after the last read are left out.
fn locate_in_flight(myself: &dyn Process, mut addresses: Vec<u64>) -> Result<Vec<PageLocation>> {
    let mut places = Vec::new();
    for _ in 0..LOCATE_ATTEMPTS_MAX {
        if addresses.is_empty() {
            break;
        }
        let answers = myself.locate(&addresses)?;
        let asked = std::mem::take(&mut addresses).into_iter().zip(answers);
        for (address, place) in asked {
            match place {
                PageLocation::InFlight => addresses.push(address),
                place => places.push(place),
            }
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use nodeward_machine::Machine;
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{Page, Pid};

    use super::*;

    /// Goal: pages on nodes are counted, in any number of reads, including one that the kernel is
    /// moving at the first read; absent and swapped pages are not.
    #[test]
    fn pages_on_nodes_are_counted() {
        let swapped = Page { location: PageLocation::Swapped, ..Page::ABSENT };
        let on = |node| Page::on(NodeId(node));
        let pages = [vec![on(0); 5000], vec![Page::ABSENT; 9], vec![swapped; 8], vec![on(1); 700]];
        let fake_process = FakeProcess::with_pages(&pages.concat());
        let range = fake_process.mappings[0].range;
        let first = range.start / 4096;
        let in_flight = [(first + 4999, NodeId(1))].into();
        let (machine, pid) = (FakeMachine::new(false), Pid::new(7).unwrap());
        machine.spawn(pid, FakeProcess { in_flight, ..fake_process });
        let process = machine.open_process(pid).unwrap();
        let counts = count_by_node(&*process, range, 4096).unwrap();
        assert_eq!(counts, [(NodeId(0), 4999), (NodeId(1), 701)].into());
        let part = Range::new(range.start + 4096, range.start + 3 * 4096);
        assert_eq!(count_by_node(&*process, part, 4096).unwrap(), [(NodeId(0), 2)].into());
    }
}
