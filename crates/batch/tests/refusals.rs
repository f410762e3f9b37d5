//! Goal: with any refusals, at any step and in any order, every page is in exactly one place at
//! every moment, the account is exact, and the batch ends.

mod world;

use nodeward_batch::{Batch, BatchShape, FolioRefusal};
use nodeward_model::SkipReason;
use proptest::prelude::*;
use world::{FaultInjector, ModelMemory, StepKind};

/// Returns the possible refusals of a step, with a different reason for each, so that none is
/// mistaken for another.
fn refusals(kind: StepKind) -> &'static [FolioRefusal] {
    use FolioRefusal::{Final, Transient};
    match kind {
        StepKind::Unmap => &[Transient(SkipReason::Pinned), Final(SkipReason::NotPresent)],
        StepKind::Flush => &[Transient(SkipReason::Refused)],
        StepKind::Copy => &[Transient(SkipReason::NoMemory), Final(SkipReason::NoHugePage)],
        StepKind::Map => &[Transient(SkipReason::Shared), Final(SkipReason::NotAllowed)],
        StepKind::PutBack => &[Final(SkipReason::Gone), Transient(SkipReason::Unmovable)],
    }
}

/// Picks one of the possible refusals, again and again.
struct ChosenFaults<P> {
    /// Picks a number below its argument.
    pick: P,
    may_stop: bool,
    /// The number of further transient refusals of a folio that is put back.
    put_back_again: u32,
}

impl<P: FnMut(usize) -> usize> FaultInjector for ChosenFaults<P> {
    fn refusal(&mut self, kind: StepKind, _: u32) -> Option<FolioRefusal> {
        let refusals = match kind {
            StepKind::PutBack if self.put_back_again == 0 => &refusals(kind)[..1],
            _ => refusals(kind),
        };
        let picked = (self.pick)(refusals.len() + 1).checked_sub(1).map(|index| refusals[index]);
        if kind == StepKind::PutBack && matches!(picked, Some(FolioRefusal::Transient(_))) {
            self.put_back_again -= 1;
        }
        picked
    }

    fn stop(&mut self) -> bool {
        let stops = self.may_stop && (self.pick)(2) == 1;
        self.may_stop &= !stops;
        stops
    }
}

/// A sequence of choices, each as (picked, number of possibilities); after the last one, the first
/// possibility is picked.
#[derive(Default)]
struct ChoiceSequence(Vec<(usize, usize)>);

impl ChoiceSequence {
    fn pick(&mut self, at: &mut usize, of: usize) -> usize {
        if self.0.len() == *at {
            self.0.push((0, of));
        }
        *at += 1;
        self.0[*at - 1].0
    }

    /// Advances to the next sequence that was not played yet; false if there is none.
    fn advance(&mut self) -> bool {
        while self.0.pop_if(|(picked, of)| *picked + 1 == *of).is_some() {}
        self.0.last_mut().map(|(picked, _)| *picked += 1).is_some()
    }
}

fn start(shape: BatchShape, unmapped: bool) -> (Batch, ModelMemory) {
    if unmapped {
        (Batch::from_unmapped(shape), ModelMemory::of_unmapped(shape))
    } else {
        (Batch::new(shape), ModelMemory::new(shape))
    }
}

/// Plays every sequence of refusals that a batch may have, and returns their number.
fn run_all_fault_sequences(folios: u32, attempts: u32, may_stop: bool, unmapped: bool) -> u32 {
    let shape = BatchShape { folios, folio_pages: 2, page_bytes: 4096, copiers: 2, attempts };
    let mut script = ChoiceSequence::default();
    for played in 1.. {
        let (mut batch, mut world) = start(shape, unmapped);
        let mut at = 0;
        let pick = |of| script.pick(&mut at, of);
        world.drive(&mut batch, &mut ChosenFaults { pick, may_stop, put_back_again: 1 });
        if !script.advance() {
            return played;
        }
    }
    unreachable!("scripts are finite")
}

/// Goal: every sequence of refusals of a small batch is played.
#[test]
fn every_refusal_of_a_small_batch() {
    // One folio, one pass. It stays at the unmap (2 ways), is moved (1), or is turned in the flush
    // (1), the copy (2) or the map (2) and then put back in one of 4 ways: it works, it is dropped,
    // or one of these after a retry. 2 + 1 + 5 * 4.
    assert_eq!(run_all_fault_sequences(1, 1, false, false), 23);
    // Without the unmap and the flush: 1 + 4 * 4.
    assert_eq!(run_all_fault_sequences(1, 1, false, true), 17);
    for unmapped in [false, true] {
        assert!(run_all_fault_sequences(1, 3, true, unmapped) > 1000);
        assert!(run_all_fault_sequences(2, 2, true, unmapped) > 10_000);
        assert!(run_all_fault_sequences(3, 1, false, unmapped) > 1000);
    }
}

proptest! {
    /// Goal: the same for batches of any shape, one after the other in the same buffers.
    #[test]
    fn any_refusal_of_any_batch(
        rounds in prop::collection::vec(
            (0..=64_u32, 1..=8_u32, 1..=9_u32, 1..=4_u32, any::<bool>(), any::<bool>()),
            1..3,
        ),
        picks in prop::collection::vec(any::<u8>(), 0..2000),
        mildness in 0..=200_u8,
    ) {
        let mut picks = picks.into_iter();
        // Bytes below `mildness` refuse nothing, and nothing is refused after the last byte.
        let mut pick = |of: usize| match picks.next() {
            Some(picked) if picked >= mildness => usize::from(picked) % of,
            _ => 0,
        };
        let one = BatchShape { folios: 1, folio_pages: 1, page_bytes: 1, copiers: 1, attempts: 1 };
        let empty = BatchShape { folios: 0, ..one };
        let mut batch = Batch::new(empty);
        for (folios, folio_pages, copiers, attempts, unmapped, may_stop) in rounds {
            let shape = BatchShape { folios, folio_pages, page_bytes: 4096, copiers, attempts };
            let (_, mut world) = start(shape, unmapped);
            if unmapped {
                batch.reset_to_unmapped(shape);
            } else {
                batch.reset(shape);
            }
            let mut faults = ChosenFaults { pick: &mut pick, may_stop, put_back_again: 20 };
            let account = world.drive(&mut batch, &mut faults);
            prop_assert_eq!(account.selected(), u64::from(folios * folio_pages));
        }
    }
}
