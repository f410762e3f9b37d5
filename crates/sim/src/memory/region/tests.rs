//! Tests of chunks against plain lists of pages, and of their memory use.

use proptest::prelude::*;

use super::*;
use crate::memory::page_byte::PageByte;

const NODES: usize = 3;

/// A change of a region.
#[derive(Clone, Debug)]
enum RegionEdit {
    Set(u64, u64, PageByte),
    Huge(u64, PageByte),
}

fn byte() -> impl Strategy<Value = PageByte> {
    let on = |node: u8| PageByte::on(usize::from(node));
    (0_u8..NODES as u8, 0..4).prop_map(move |(node, kind)| match kind {
        0 => PageByte::ABSENT,
        1 => on(node),
        2 => on(node).lazy(),
        _ => on(node).in_flight(),
    })
}

fn region_edit(pages: u64) -> impl Strategy<Value = RegionEdit> {
    prop_oneof![
        3 => (0..pages, 0..pages, byte())
            .prop_map(|(a, b, to)| RegionEdit::Set(a.min(b), a.max(b), to)),
        2 => (0..pages, 1_u64..40, byte()).prop_map(|(a, len, to)| RegionEdit::Set(a, a + len, to)),
        1 => (0..pages, byte()).prop_map(|(page, to)| RegionEdit::Huge(page, to)),
    ]
}

/// Returns the expected counts of all granules.
fn counted(pages: &[PageByte]) -> Vec<u64> {
    let mut sums = vec![0; NODES + 2];
    for page in pages {
        let Some(node) = page.node() else { continue };
        sums[node] += 1;
        sums[NODES] += u64::from(page.is_lazy());
        sums[NODES + 1] += u64::from(page.is_in_flight());
    }
    sums
}

proptest! {
    /// Goal: the count of a part of many granules is the sum of their counts, wherever it begins.
    #[test]
    fn parts_of_many_granules_are_their_sum(
        sets in prop::collection::vec((0_u64..22_400, 1_u64..9000, 0_usize..NODES), 1..6),
        (first, last) in (0_usize..700, 0_usize..700),
    ) {
        // 700 chunks of 32 pages of 64 KiB, a granule each: three blocks, the last one not whole.
        let mut region = MemoryRegion::new(0, 22_400, 64 << 10, NODES, 700);
        for (page, pages, node) in sets {
            region.set(page..page + pages, PageByte::on(node).lazy());
        }
        let granules = first.min(last)..first.max(last) + 1;
        let [mut together, mut singly] = [(); 2].map(|()| vec![0; NODES + 2]);
        region.add_counts(granules.clone(), &mut together);
        granules.for_each(|granule| region.add_counts(granule..granule + 1, &mut singly));
        prop_assert_eq!(together, singly);
    }

    /// Goal: chunks are only a way to store pages; they say the same as a plain list of pages.
    #[test]
    fn chunks_are_like_a_list_of_pages(
        pages in 1_u64..200,
        granules in 1_u64..9,
        steps in prop::collection::vec(region_edit(200), 1..60),
    ) {
        // 32 pages of 64 KiB are a chunk, so that there are up to seven, the last one not whole.
        let mut region = MemoryRegion::new(0, pages, 64 << 10, NODES, granules);
        let chunk = region.chunk_pages();
        let mut model = vec![PageByte::ABSENT; pages as usize];
        let mut huge = vec![false; pages.div_ceil(chunk) as usize];
        for step in steps {
            let (range, to, is_huge) = match step {
                RegionEdit::Set(first, last, to) => (first.min(pages)..last.min(pages), to, false),
                RegionEdit::Huge(page, to) => {
                    let first = page % pages / chunk * chunk;
                    (first..(first + chunk).min(pages), to, true)
                }
            };
            match is_huge {
                true => region.set_huge(range.start, to),
                false => region.set(range.clone(), to),
            }
            model[range.start as usize..range.end as usize].fill(to);
            for page in range.clone() {
                let index = page / chunk;
                let (first, last) = (index * chunk, (index * chunk + chunk).min(pages));
                let whole = range.start <= first && last <= range.end;
                let stays = whole && to != PageByte::ABSENT;
                huge[index as usize] = match is_huge {
                    true => stays && last - first == chunk,
                    false => stays && huge[index as usize],
                };
            }
            for page in 0..pages {
                prop_assert_eq!(region.page(page), model[page as usize], "page {}", page);
                prop_assert_eq!(region.is_huge(page), huge[(page / chunk) as usize]);
                let (byte, alike) = region.uniform_run(page, pages);
                let run = &model[page as usize..(page + alike) as usize];
                prop_assert!(alike > 0 && run.iter().all(|&other| other == byte));
            }
            let mut sums = vec![0; NODES + 2];
            region.add_counts(0..region.granules(), &mut sums);
            prop_assert_eq!(sums, counted(&model));
            for granule in 0..region.granules() {
                let within = region.pages_of_granules(granule..granule + 1);
                let mut sums = vec![0; NODES + 2];
                region.add_counts(granule..granule + 1, &mut sums);
                let model = &model[within.start as usize..within.end as usize];
                prop_assert_eq!(sums, counted(model));
            }
        }
        region.clear();
        prop_assert_eq!(region.page(0), PageByte::ABSENT);
        prop_assert_eq!(region.granules(), 0);
    }
}

/// Goal: less than two bytes per page plus a constant, where no two neighbouring pages are alike. A
/// page is a byte; a chunk has 8 bytes: 1/64 per page with pages of 4 KiB, 1/4 with 64 KiB. The
/// constant is the counts of granules (64, for 4 nodes and 2 more, 4 bytes each) and the structure.
#[test]
fn a_page_takes_less_than_two_bytes() {
    let constant = 64 * (4 + 2) * 4 + size_of::<MemoryRegion>() + 4096;
    for page_bytes in [4 << 10, 16 << 10, 64 << 10] {
        let pages = (4_u64 << 30) / page_bytes;
        let mut region = None;
        let taken = allocation_counter::measure(|| {
            let mut mixed = MemoryRegion::new(0, pages, page_bytes, 4, 64);
            (0..pages).for_each(|page| mixed.set(page..page + 1, PageByte::on(page as usize % 4)));
            region = Some(mixed);
        });
        let bytes = region.expect("made above").state_bytes();
        let (allocated, pages) = (taken.bytes_current as usize, pages as usize);
        println!("{page_bytes}: {pages} pages, {bytes} bytes told, {allocated} allocated");
        assert!(bytes < 2 * pages + constant, "{page_bytes}: {bytes} for {pages} pages");
        assert!(allocated < 2 * pages + constant, "{page_bytes}: {allocated} for {pages}");
        // The reported size is the allocated one, without the structure itself.
        assert!(bytes.abs_diff(allocated) <= size_of::<MemoryRegion>());
    }
}

/// Goal: pages in the same state take 8 bytes per 512, whether they were mixed before or not.
#[test]
fn chunks_that_are_alike_again_take_no_row() {
    let mut region = MemoryRegion::new(0, 512 * 100, 4096, 2, 64);
    let before = region.state_bytes();
    for page in 0..region.pages {
        region.set(page..page + 1, PageByte::on(1));
    }
    assert_eq!(region.state_bytes(), before);
}

/// Goal: a folio is a unit as long as all of it is alike, and never extends beyond the region.
#[test]
fn folios_are_whole_or_none() {
    let mut region = MemoryRegion::new(0, 1000, 4096, 2, 64);
    region.folio_pages = 16;
    assert_eq!(region.folio(5), 5..6, "nothing is there");
    region.set(0..1000, PageByte::on(1));
    assert_eq!(region.folio(5), 0..16);
    assert_eq!(region.folio(999), 999..1000, "1000 = 62 * 16 + 8");
    region.set(7..8, PageByte::on(0));
    assert_eq!(region.folio(5), 5..6);
    assert_eq!(region.folio(16), 16..32);
    region.set_huge(512, PageByte::on(1));
    assert_eq!(region.folio(600), 592..608, "no huge page: the region ends within it");
    region.set_huge(100, PageByte::on(1));
    assert_eq!(region.folio(100), 0..512);
}
