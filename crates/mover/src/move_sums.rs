//! Sums over many moves.

use std::collections::BTreeMap;

use nodeward_model::SkipReason;

use crate::MoveReport;
use crate::hold_times::HoldTimes;
use crate::outcomes::{PageFlows, add_counts};

/// What moves did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveSums {
    /// Moves that have ended.
    pub ended: u64,
    /// Base pages that arrived.
    pub flows: PageFlows,
    /// Base pages that were to move and stayed, by reason; a page that is tried again counts again.
    pub stayed: BTreeMap<SkipReason, u64>,
    /// How long pages were held.
    pub holds: HoldTimes,
}

impl MoveSums {
    /// Adds what a move, or a part of one, did. It may go on.
    pub fn add(&mut self, report: &MoveReport) {
        add_counts(&mut self.flows, &report.flows);
        add_counts(&mut self.stayed, &report.account().skipped);
        self.holds.join(&report.holds);
    }

    /// Adds other moves.
    pub fn join(&mut self, other: &Self) {
        self.ended += other.ended;
        add_counts(&mut self.flows, &other.flows);
        add_counts(&mut self.stayed, &other.stayed);
        self.holds.join(&other.holds);
    }

    /// Returns the number of base pages that arrived.
    pub fn moved_pages(&self) -> u64 {
        self.flows.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::Machine as _;
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{NodeId, NodePairs, Nodemask, Page, Pid};

    use super::*;
    use crate::{Jobs, MoveControl, MoveOrder, MoveRequest, Selection, migrate};

    /// Moves all pages of a process to node 2.
    fn moved(process: FakeProcess, stall_ns: Option<u64>) -> MoveSums {
        let machine = FakeMachine::with_topology(true, "3n 1c 1t 1GiB");
        let pid = Pid::new(7).unwrap();
        machine.spawn(pid, process);
        let held = machine.open_process(pid).unwrap();
        let from: Nodemask = [NodeId(0), NodeId(1)].into_iter().collect();
        let pairs = NodePairs::all_to(&from, NodeId(2));
        let request = MoveRequest {
            orders: vec![[MoveOrder { pairs, pages: None }].into()],
            selection: Selection::default(),
            jobs: Jobs::Fixed(1),
            cpus: Vec::new(),
            rate_bytes_per_s: None,
            stall_ns,
            split_huge: false,
        };
        let report = migrate(&machine, &[held], &request, &MoveControl::default(), None).unwrap();
        let mut totals = MoveSums::default();
        totals.add(&report);
        assert_eq!(totals.moved_pages(), report.account().moved);
        totals
    }

    fn pages_on(counts: [usize; 2]) -> FakeProcess {
        let of = |node: u32| vec![Page::on(NodeId(node)); counts[node as usize]];
        FakeProcess::with_pages(&[of(0), of(1)].concat())
    }

    /// Goal: what arrived is told by the node that it left, what stayed by reason: of 3000 pages on
    /// node 0 two are pinned, 500 come from node 1.
    #[test]
    fn pages_are_told_by_nodes() {
        let pinned = [16, 17].into();
        let totals = moved(FakeProcess { pinned, ..pages_on([3000, 500]) }, None);
        let to_2 = |from| (NodeId(from), NodeId(2));
        assert_eq!(totals.flows, [(to_2(0), 2998), (to_2(1), 500)].into());
        assert_eq!(totals.stayed, [(SkipReason::Pinned, 2)].into());
        assert_eq!(totals.holds, HoldTimes::default(), "nothing is held under a budget");
    }

    /// Goal: under a stall budget of 1 ms each page is in a run that was held for a microsecond for
    /// each of its pages, as the fake machine takes: together no less than 3000 us, and no run for
    /// longer than the budget.
    #[test]
    fn runs_are_told_by_the_time_they_were_held() {
        let holds = moved(pages_on([3000, 0]), Some(1_000_000)).holds;
        assert!(holds.total_ns() >= 3_000_000, "{holds:?}");
        let within = holds.up_to_bounds().find(|&(bound_ns, _)| bound_ns == 1_000_000);
        assert_eq!(within, Some((1_000_000, holds.runs())), "{holds:?}");
        assert!(holds.runs() >= 3, "{holds:?}");
    }
}
