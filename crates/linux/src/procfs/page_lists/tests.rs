//! Tests of the reader of page lists.

use proptest::prelude::*;

use super::*;

/// Linux 7.3 on two nodes, shortened.
const BOUNDED: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 72
  pages free     3776
        boost    0
        min      190
        low      237
        high     284
        promo    331
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 936, 936, 936, 936)
      nr_free_pages 3776
  pagesets
    cpu: 0
              count:    0
              high:     14
              batch:    1
              high_min: 14
              high_max: 224
  vm stats threshold: 2
    cpu: 3
              count:    5
              high:     20
              batch:    1
              high_min: 14
              high_max: 224
  vm stats threshold: 2
  node_unreclaimable:  0
  start_pfn:           1
Node 1, zone   Normal
  pages free     0
        high     0
        managed  0
        protection: (0, 0, 0, 0, 0)
";

/// Linux 5.10, shortened; 6.1 and 6.12 write the same fields.
const UNBOUNDED: &str = "\
Node 1, zone   Normal
  pages free     236420
        high     18085
        managed  253952
        protection: (0, 0, 0, 0)
  pagesets
    cpu: 0
              count: 137
              high:  378
              batch: 63
  vm stats threshold: 24
";

fn list(cpu: u32, [count_pages, high_pages, batch_pages]: [u64; 3]) -> PageList {
    let (cpu, high_min_pages, high_max_pages) = (CpuId(cpu), None, None);
    PageList { cpu, count_pages, high_pages, batch_pages, high_min_pages, high_max_pages }
}

fn bounded(list: PageList) -> PageList {
    PageList { high_min_pages: Some(14), high_max_pages: Some(224), ..list }
}

/// Goal: each list is read with its zone; a watermark (`high 284`) is no length of a list; zones
/// without pages have no lists; a CPU that is offline (1 and 2) leaves a gap, not a shift.
#[test]
fn lists_with_bounds() {
    let zone = ZoneLists {
        node: NodeId(0),
        zone: "DMA".to_owned(),
        managed_pages: 3840,
        free_pages: 3776,
        high_watermark_pages: 284,
        lists: vec![bounded(list(0, [0, 14, 1])), bounded(list(3, [5, 20, 1]))],
    };
    let zones = parse(BOUNDED).unwrap();
    assert_eq!(zones, [zone]);
    assert_eq!((zones[0].count_pages(), zones[0].high_pages()), (5, 34)); // 0 + 5 and 14 + 20
}

/// Goal: most kernels tell no bounds, which is not the same as bounds of 0.
#[test]
fn lists_without_bounds() {
    let zones = parse(UNBOUNDED).unwrap();
    assert_eq!(zones[0].lists, [list(0, [137, 378, 63])]);
    assert_eq!((zones[0].free_pages, zones[0].high_watermark_pages), (236_420, 18_085));
}

/// Goal: a number that cannot be read is an error that has its line and its name, never a 0.
#[test]
fn a_line_that_cannot_be_read_is_named() {
    for (right, wrong, line, name) in [
        ("count:    5", "count:    five", 25, "count"),
        ("high:     20", "high:     -1", 26, "high"),
        ("high_max: 224", "high_max: 99999999999999999999", 22, "high_max"),
        ("cpu: 3", "cpu: 4294967296", 24, "cpu"),
        ("managed  3840", "managed  ?", 12, "managed"),
        ("Node 0, zone", "Node \u{1b}[2J, zone", 1, "Node"),
    ] {
        let error = parse(&BOUNDED.replacen(right, wrong, 1)).unwrap_err();
        let expected = format!("a number behind '{name}'");
        assert_eq!(error, UnreadableLine { line, expected }, "{wrong}");
    }
}

/// Goal: a list without its length is an error at the line of its CPU.
#[test]
fn a_list_that_ends_early_is_named() {
    let cut = BOUNDED.split("              high:     20").next().unwrap();
    let expected = "count, high and batch of the list of CPU 3".to_owned();
    assert_eq!(parse(cut), Err(UnreadableLine { line: 24, expected }));
}

/// Goal: the error names the file, the line and what was expected.
#[test]
fn an_error_names_the_file() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("proc")).unwrap();
    std::fs::write(root.path().join("proc/zoneinfo"), BOUNDED.replace("high:     14", "high: x"))
        .unwrap();
    let told = zones(root.path()).unwrap_err().to_string();
    assert!(told.ends_with("proc/zoneinfo:19: expected a number behind 'high'"), "{told}");
}

#[test]
fn this_kernel_writes_it_so() {
    let zones = zones(Path::new("/")).unwrap();
    let is_told = |zone: &ZoneLists| zone.high_pages() > 0 && zone.managed_pages > 0;
    assert!(zones.iter().any(is_told), "{zones:?}");
}

proptest! {
    /// Goal: any text is read without a panic, and every zone that is returned has lists.
    #[test]
    fn any_text(
        text in "(Node |0, zone|\u{1b}|cpu: |count: |batch: |high(_min|_max)?: |[ 0-9:,\n-]){0,40}",
    ) {
        if let Ok(zones) = parse(&text) {
            prop_assert!(zones.iter().all(|zone| !zone.lists.is_empty()));
        }
    }

    /// Goal: whatever the lengths are, they come back as they were written.
    #[test]
    fn lengths_come_back(lengths in proptest::collection::vec(any::<[u64; 3]>(), 1..9)) {
        let lists: Vec<_> = (0..).zip(&lengths).map(|(cpu, all)| list(cpu, *all)).collect();
        let text = lists.iter().map(|list| {
            let PageList { cpu, count_pages, high_pages, batch_pages, .. } = list;
            format!("    cpu: {cpu}\n count: {count_pages}\n high: {high_pages}\n \
                     batch: {batch_pages}\n  vm stats threshold: 24\n")
        });
        let text = format!("Node 0, zone Normal\n  pagesets\n{}", text.collect::<String>());
        prop_assert_eq!(&parse(&text).unwrap()[0].lists, &lists);
    }
}
