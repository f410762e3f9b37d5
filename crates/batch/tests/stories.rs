//! Tests the steps of a batch, one by one, in its typical cases.

mod world;

use nodeward_batch::{
    Batch, BatchShape, BatchStep, CopySlice, FolioRefusal, FolioRun, RefusedFolio,
};
use nodeward_model::{Account, SkipReason};
use world::{ModelMemory, StepKind};

fn pages(folios: u32) -> BatchShape {
    BatchShape { folios, folio_pages: 1, page_bytes: 4096, copiers: 1, attempts: 3 }
}

/// Drives a new batch to its end; returns its steps and its account.
fn story(
    shape: BatchShape,
    mut faults: impl FnMut(StepKind, u32) -> Option<FolioRefusal>,
) -> (Vec<String>, Account) {
    let mut world = ModelMemory::new(shape);
    let account = world.drive(&mut Batch::new(shape), &mut faults);
    (world.log, account)
}

fn account(moved: u64, skipped: &[(SkipReason, u64)]) -> Account {
    Account { moved, already_there: 0, skipped: skipped.iter().copied().collect() }
}

/// Goal: one flush for many pages, and no step without work.
#[test]
fn a_batch_without_trouble_takes_four_steps() {
    let (steps, told) = story(pages(3), |_, _| None);
    assert_eq!(steps, ["Unmap [0, 1, 2]", "Flush [0, 1, 2]", "Copy [0, 1, 2]", "Map [0, 1, 2]"]);
    assert_eq!(told, account(3, &[]));
    assert_eq!(story(pages(0), |_, _| None), (vec![], account(0, &[])));
}

/// Goal: a huge page is a batch of its own, in base pages, and its copy is split.
#[test]
fn a_huge_page_is_cut_for_its_copiers() {
    let shape =
        BatchShape { folios: 1, folio_pages: 512, page_bytes: 4096, copiers: 4, attempts: 1 };
    let mut batch = Batch::new(shape);
    assert_eq!(batch.next(&[]), BatchStep::Unmap(&[FolioRun { first: 0, folios: 1 }]));
    assert_eq!(batch.next(&[]), BatchStep::Flush);
    let quarter = |n: u64| CopySlice { offset: n << 19, bytes: 1 << 19 }; // 2 MiB / 4
    assert_eq!(batch.next(&[]), BatchStep::Copy(&[quarter(0), quarter(1), quarter(2), quarter(3)]));
    assert_eq!(batch.unmapped_folios(), 1);
    assert_eq!(batch.next(&[]), BatchStep::Map(&[FolioRun { first: 0, folios: 1 }]));
    let BatchStep::End(told) = batch.next(&[]) else { panic!("all is done") };
    assert_eq!((told.moved, told.skipped_total()), (512, 0));
    assert!(matches!(batch.next(&[]), BatchStep::End(told) if told.moved == 512), "and stays so");
}

/// Goal: the patches of 2017 can be modelled, which split each page of 4 KiB between eight threads.
/// The test counts in pieces of 512 bytes.
#[test]
fn a_single_page_can_be_cut_where_pages_are_counted_smaller() {
    let shape = BatchShape { folios: 1, folio_pages: 8, page_bytes: 512, copiers: 8, attempts: 1 };
    let mut batch = Batch::from_unmapped(shape);
    let BatchStep::Copy(slices) = batch.next(&[]) else { panic!("what is out is copied") };
    assert_eq!(slices, [0, 1, 2, 3, 4, 5, 6, 7].map(|n| CopySlice { offset: n * 512, bytes: 512 }));
}

/// Goal: a busy page is retried alone, and the others do not wait for it.
#[test]
fn a_busy_page_gets_another_pass() {
    let mut busy = 2;
    let (steps, told) = story(pages(2), |kind, folio| {
        let refuse = kind == StepKind::Unmap && folio == 1 && busy > 0;
        busy -= u32::from(refuse);
        refuse.then_some(FolioRefusal::Transient(SkipReason::Pinned))
    });
    let first = ["Unmap [0, 1]", "Flush [0]", "Copy [0]", "Map [0]"];
    // The second pass unmaps nothing, and so it ends.
    assert_eq!(steps[..4], first);
    assert_eq!(steps[4..], ["Unmap [1]", "Unmap [1]", "Flush [1]", "Copy [1]", "Map [1]"]);
    assert_eq!(told, account(2, &[]));
}

/// Goal: attempts are counted, and the last reason is reported. A final refusal is not retried.
#[test]
fn a_page_that_stays_busy_is_skipped() {
    let mut tries = 0;
    let (steps, told) = story(pages(2), |kind, folio| {
        tries += u32::from(kind == StepKind::Unmap && folio == 0);
        match (kind, folio) {
            (StepKind::Unmap, 0) if tries < 3 => Some(FolioRefusal::Transient(SkipReason::Refused)),
            (StepKind::Unmap, 0) => Some(FolioRefusal::Transient(SkipReason::Pinned)),
            (StepKind::Unmap, 1) => Some(FolioRefusal::Final(SkipReason::NotPresent)),
            _ => None,
        }
    });
    assert_eq!(steps, ["Unmap [0, 1]", "Unmap [0]", "Unmap [0]"]);
    assert_eq!(told, account(0, &[(SkipReason::Pinned, 1), (SkipReason::NotPresent, 1)]));
}

/// Goal: folios that cannot be copied or mapped are put back in the same pass, after the others are
/// mapped.
#[test]
fn what_fails_on_the_way_goes_back_at_once() {
    let (steps, told) = story(pages(4), |kind, folio| match (kind, folio) {
        (StepKind::Copy, 0) => Some(FolioRefusal::Final(SkipReason::NoMemory)),
        (StepKind::Map, 2) => Some(FolioRefusal::Final(SkipReason::Refused)),
        _ => None,
    });
    let expected = ["Copy [0, 1, 2, 3]", "Map [1, 2, 3]", "PutBack [0, 2]"];
    assert_eq!(steps[2..], expected);
    assert_eq!(told, account(2, &[(SkipReason::NoMemory, 1), (SkipReason::Refused, 1)]));
}

/// Goal: a page that cannot be put back now is requested until it can, though its attempts are used
/// up and the batch is stopped; one whose place is gone is dropped.
#[test]
fn nothing_is_left_out_of_sight() {
    let mut left = 50;
    let shape = BatchShape { attempts: 1, ..pages(2) };
    let (steps, told) = story(shape, |kind, folio| match (kind, folio) {
        (StepKind::Copy, _) => Some(FolioRefusal::Transient(SkipReason::NoMemory)),
        (StepKind::PutBack, 0) => Some(FolioRefusal::Final(SkipReason::Gone)),
        (StepKind::PutBack, _) if left > 0 => {
            left -= 1;
            Some(FolioRefusal::Transient(SkipReason::Refused))
        }
        _ => None,
    });
    assert_eq!(steps.iter().filter(|step| *step == "PutBack [1]").count(), 50);
    assert_eq!(told, account(0, &[(SkipReason::Gone, 1), (SkipReason::NoMemory, 1)]));
}

/// Goal: a stop begins nothing, and finishes the unmapped folios.
#[test]
fn a_stopped_batch_brings_home_what_is_out() {
    let mut batch = Batch::new(pages(2));
    let all = [FolioRun { first: 0, folios: 2 }];
    let busy = RefusedFolio { folio: 1, refusal: FolioRefusal::Transient(SkipReason::Pinned) };
    assert_eq!(batch.next(&[]), BatchStep::Unmap(&all));
    batch.stop();
    assert_eq!(batch.next(&[busy]), BatchStep::Flush);
    assert!(matches!(batch.next(&[]), BatchStep::Copy(_)));
    assert!(matches!(batch.next(&[]), BatchStep::Map(_)));
    let BatchStep::End(told) = batch.next(&[]) else { panic!("no second pass") };
    assert_eq!((told.moved, told.skipped_for(SkipReason::Pinned)), (1, 1));

    batch.reset(pages(2));
    batch.stop();
    let BatchStep::End(told) = batch.next(&[]) else { panic!("no first pass") };
    assert_eq!((told.moved, told.skipped_for(SkipReason::Interrupted)), (0, 2));
    assert_eq!(told.selected(), 2, "the account of the batch before is not in it");
}

/// Goal: folios that an earlier unmap left unmapped are not unmapped again, and a refused copy puts
/// the original back.
#[test]
fn a_lazy_move_begins_with_the_copy() {
    let mut world = ModelMemory::of_unmapped(pages(3));
    let mut full = |kind, folio| {
        let refuse = (kind, folio) == (StepKind::Copy, 1);
        refuse.then_some(FolioRefusal::Final(SkipReason::NoMemory))
    };
    let told = world.drive(&mut Batch::from_unmapped(pages(3)), &mut full);
    assert_eq!(world.log, ["Copy [0, 1, 2]", "Map [0, 2]", "PutBack [1]"]);
    assert_eq!(told, account(2, &[(SkipReason::NoMemory, 1)]));
}

/// Goal: the limit on a thread's wait is enforced.
#[test]
#[should_panic(expected = "2 folios of 512 pages are more than 512 pages")]
fn a_batch_beyond_one_huge_page_is_refused() {
    let _ = Batch::new(BatchShape { folio_pages: 512, ..pages(2) });
}

#[test]
#[should_panic(expected = "only the number of folios may be 0")]
fn a_batch_that_nobody_copies_is_refused() {
    let _ = Batch::new(BatchShape { copiers: 0, ..pages(1) });
}

#[test]
#[should_panic(expected = "folios are out of sight")]
fn a_batch_is_not_forgotten_with_pages_out() {
    let mut batch = Batch::from_unmapped(pages(1));
    let _ = batch.next(&[]);
    batch.reset(pages(1));
}

/// Goal: a caller that confuses folios gets a panic in tests.
#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "folio 1 had no part in Copy"))]
fn a_refusal_of_a_folio_without_part_is_a_bug() {
    let mut batch = Batch::new(pages(2));
    let refused = [RefusedFolio { folio: 1, refusal: FolioRefusal::Final(SkipReason::NotPresent) }];
    let _ = batch.next(&[]);
    let _ = batch.next(&refused);
    assert!(matches!(batch.next(&[]), BatchStep::Copy(_)));
    assert_eq!(batch.next(&refused), BatchStep::Map(&[FolioRun { first: 0, folios: 1 }]));
}
