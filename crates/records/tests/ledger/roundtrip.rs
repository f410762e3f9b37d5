//! Goal: records written in any order are read back the same, at any moment.

use std::collections::BTreeMap;

use nodeward_records::ledger::{MovedRuns, OpenIntent, Operation, OperationState};
use proptest::prelude::*;

use crate::small::{MovedPageSet, file, pages};
use crate::support::{end, header, runs, store};

const PROCESSES: u32 = 3;

#[derive(Clone, Debug)]
enum LedgerStep {
    Intend {
        process: usize,
        runs: MovedRuns,
    },
    /// Settles one of the open intents with all of its runs or every second one.
    Settle {
        which: prop::sample::Index,
        all: bool,
    },
}

fn some_runs() -> impl Strategy<Value = MovedRuns> {
    let run = (0..5000_u64, 1..50_u64, 0..3_u32, 3..5_u32);
    prop::collection::vec(run, 0..20).prop_map(|of| runs(&of))
}

fn step() -> impl Strategy<Value = LedgerStep> {
    let process = 0..PROCESSES as usize;
    prop_oneof![
        (process, some_runs()).prop_map(|(process, runs)| LedgerStep::Intend { process, runs }),
        (any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(which, all)| LedgerStep::Settle { which, all }),
    ]
}

/// The expected content: a set of pages for each process.
#[derive(Default)]
struct LedgerModel {
    open: Vec<(usize, MovedRuns, OpenIntent)>,
    moved: BTreeMap<usize, MovedPageSet>,
}

impl LedgerModel {
    fn assert_same(&self, operation: &Operation) {
        for (index, process) in operation.processes.iter().enumerate() {
            let open = self.open.iter().filter(|(of, ..)| *of == index);
            let open: MovedPageSet = open.flat_map(|(_, runs, _)| pages(runs)).collect();
            let moved = self.moved.get(&index).cloned().unwrap_or_default();
            assert_eq!((pages(&process.moved), pages(&process.open)), (moved, open));
        }
        assert_eq!(operation.processes.len(), PROCESSES as usize);
        assert!(operation.is_complete && operation.damage.is_none());
    }
}

fn part(of: &MovedRuns) -> MovedRuns {
    let mut part = MovedRuns::new(of.page_bytes());
    of.iter().step_by(2).for_each(|run| part.push(run.start, run.pages, run.from, run.to));
    part
}

proptest! {
    // Each case makes files and reads them after every step.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_operation(steps in prop::collection::vec(step(), 0..30), ends: bool) {
        let (dir, store) = store();
        let mut header = header(PROCESSES);
        header.undoes = Some(crate::support::id(77));
        let mut writer = store.begin(&header).unwrap();
        let (id, path) = (writer.id(), file(&dir, &writer));
        let mut model = LedgerModel::default();
        for step in steps {
            match step {
                LedgerStep::Intend { process, runs } => {
                    let ticket = writer.intend(process, runs.clone()).unwrap();
                    model.open.push((process, runs, ticket));
                }
                LedgerStep::Settle { .. } if model.open.is_empty() => {}
                LedgerStep::Settle { which, all } => {
                    let at = which.index(model.open.len());
                    let (process, runs, ticket) = model.open.swap_remove(at);
                    let moved = if all { runs } else { part(&runs) };
                    model.moved.entry(process).or_default().extend(pages(&moved));
                    writer.settle(ticket, Some(moved)).unwrap();
                }
            }
            let now = store.read(id).unwrap();
            prop_assert_eq!(&now.state, &OperationState::Running);
            model.assert_same(&now);
        }
        if ends { writer.end(&end()).unwrap() } else { drop(writer) }
        let after = store.read(id).unwrap();
        model.assert_same(&after);
        prop_assert_eq!(&after.header, &header);
        let state = if ends { OperationState::Ended(end()) } else { OperationState::Interrupted };
        prop_assert_eq!(after.state, state);

        // The list agrees, in numbers.
        let summary = store.list().unwrap().remove(0);
        prop_assert_eq!((summary.id, summary.bytes), (id, path.metadata().unwrap().len()));
        let outline = summary.outline.unwrap();
        let sum = |of: fn(&nodeward_records::ledger::MovedPages) -> &MovedRuns| -> u64 {
            after.processes.iter().map(|process| pages(of(process)).len() as u64).sum()
        };
        prop_assert_eq!(outline.moved_pages, sum(|process| &process.moved));
        prop_assert_eq!(outline.open_pages, sum(|process| &process.open));
    }
}
