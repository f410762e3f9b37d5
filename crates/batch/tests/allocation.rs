//! Tests that a batch does not allocate: the memory of the allocator may be part of the batch and
//! unmapped, and an allocation would then wait for the thread itself.

use allocation_counter::measure;
use nodeward_batch::{Batch, BatchShape, BatchStep, FolioRefusal, RefusedFolio};
use nodeward_model::SkipReason;

/// Carries out a batch whose every other page is refused at first, half of them in the copy and
/// half at the unmap, and one for ever.
fn work(
    batch: &mut Batch,
    refused: &mut Vec<RefusedFolio>,
    copiers: u32,
    folios: u32,
) -> (u64, u64) {
    let busy = |folio| RefusedFolio { folio, refusal: FolioRefusal::Transient(SkipReason::Pinned) };
    let mut first = true;
    loop {
        let step = batch.next(refused);
        refused.clear();
        match step {
            BatchStep::Unmap(_) if first => refused.extend((1..folios).step_by(4).map(busy)),
            BatchStep::Unmap(_) => {
                let why = FolioRefusal::Final(SkipReason::NotPresent);
                refused.push(RefusedFolio { folio: 1, refusal: why });
            }
            BatchStep::Copy(slices) => {
                assert!(slices.len() >= copiers as usize);
                if first {
                    refused.extend((3..folios).step_by(4).map(busy));
                }
                first = false;
            }
            BatchStep::Flush | BatchStep::Map(_) | BatchStep::PutBack(_) => {}
            BatchStep::End(account) => {
                refused.clear();
                return (account.moved, account.skipped_for(SkipReason::NotPresent));
            }
        }
    }
}

/// Goal: neither the first batch nor a later one allocates or frees memory, for any number of
/// copiers and any refusals.
#[test]
fn nothing_is_allocated_or_freed() {
    let shape = |folios, copiers| BatchShape {
        folios,
        folio_pages: 512 / folios,
        page_bytes: 4096,
        copiers,
        attempts: 3,
    };
    let mut refused = Vec::with_capacity(Batch::PAGES_MAX as usize);
    let mut batch = Batch::new(shape(8, 1)); // the largest comes later
    let mut accounts = [(0, 0); 4];
    let info = measure(|| {
        accounts[0] = work(&mut batch, &mut refused, 1, 8);
        batch.reset(shape(512, 100));
        accounts[1] = work(&mut batch, &mut refused, 100, 512);
        batch.reset_to_unmapped(shape(512, 512));
        batch.stop();
        accounts[2] = work(&mut batch, &mut refused, 512, 512);
        batch.reset(shape(256, 2));
        accounts[3] = work(&mut batch, &mut refused, 2, 256);
    });
    assert_eq!((info.count_total, info.count_current), (0, 0), "allocations, and those not freed");
    // One folio of 64 pages, of 1 page, of 2 pages. The stopped batch has no second pass in which
    // it could lose that page, and the pages refused in its copy are pinned: a quarter.
    assert_eq!(accounts, [(448, 64), (511, 1), (384, 0), (510, 2)]);
    assert!(measure(|| drop(Batch::new(shape(1, 1)))).count_total > 0, "allocations are seen");
}
