//! Goal: the output keeps its shape, for people and for programs.

use std::time::Duration;

use nodeward_model::{Account, NodeId, SkipReason};
use nodeward_pager::PageSize;
use nodeward_proof::{
    ArrivalRatio, BareRatio, Extra, HugeArrivalCell, KernelCell, LanesCell, LazyCell, NodeRoute,
    StallCell, VmaCount, WriterRate,
};

use super::*;

const GIB: u64 = 1 << 30;

fn plan(to: u32) -> MeasurePlan {
    MeasurePlan {
        bytes: 1 << 30,
        pages: vec![PageSize::Base, PageSize::Huge],
        columns: vec![Column::OneWay, Column::RecycledWriter],
        lanes: vec![2],
        extras: vec![Extra::Lazy],
        nodes: NodeRoute { from: NodeId(0), to: NodeId(to) },
        time: Duration::from_secs(2),
        stall: Duration::from_millis(1),
        seed: 42,
    }
}

fn stalls() -> StallsReport {
    let times = |count, max_ns| TimeQuantiles {
        count,
        p50_ns: max_ns / 8,
        p99_ns: max_ns / 2,
        p999_ns: max_ns,
        max_ns,
    };
    StallsReport {
        touches: times(1_000_000, 1_600_000),
        waits: times(4_000, 1_600_000),
        waits_with_queue: times(4_000, 3_200_000),
        ..StallsReport::default()
    }
}

/// 12 GB/s: of 15 by memcpy(3), of 20 by the fastest copy.
fn cell(column: Column) -> MemcpyCell {
    let with_writer = column == Column::RecycledWriter;
    MemcpyCell {
        column,
        lanes: 2,
        lanes_at_work: 2,
        ratio: 0.8,
        ratios: vec![0.7, 0.8, 0.9],
        ratio_fastest: 0.6,
        ratio_beside: with_writer.then_some(0.75),
        fastest: "stream-512",
        // 13.2 GB/s / 12 GB/s = 1.1
        bare: (!with_writer).then(|| BareRatio {
            ratio: 1.1,
            ratios: vec![1.1],
            bytes_per_s: 13_200_000_000,
        }),
        memcpy_bytes_per_s: 15_000_000_000,
        fastest_bytes_per_s: 20_000_000_000,
        bytes_per_s: 12_000_000_000,
        moved_bytes: 3 * GIB - 4096,
        left_bytes: 4096,
        spent: StepTimeShares { unmap: 0.2, copy: 0.5, map: 0.15, supply: 0.1, rest: 0.05 },
        longest_hold_ns: 400_000,
        writer: with_writer.then_some(WriterRate {
            alone_pages_per_s: 1_000_000.0,
            moving_pages_per_s: 400_000.0,
            share: 0.4,
        }),
        stalls: with_writer.then(stalls),
        findings: Findings::default(),
    }
}

fn arrival(ratio: f64, arrived: u64) -> ArrivalRatio {
    ArrivalRatio {
        ratio,
        ratios: vec![ratio],
        arrived,
        fell_back: 512 - arrived,
        bytes_per_s: 16 * GIB,
        one_way_bytes_per_s: 10 * GIB,
    }
}

fn rows() -> Vec<BenchRow> {
    let base = BenchRow {
        page: "4k",
        backend: Some("move"),
        why: None,
        copier: Some("avx512"),
        cells: vec![cell(Column::OneWay), cell(Column::RecycledWriter)],
        lazy: Some(LazyCell {
            ratio: 0.5,
            ratios: vec![0.5],
            bytes_per_s: 4 * GIB,
            eager_bytes_per_s: 8 * GIB,
        }),
        stall: Some(StallCell {
            budget_ns: 1_000_000,
            stalls: stalls(),
            kept: true,
            ratio: 0.8,
            bytes_per_s: 8 * GIB,
            lanes: 2,
        }),
        lanes: Some(LanesCell { lanes: 2, ratio: 1.5, ratios: vec![1.5] }),
        vmas: Some(VmaCount { before: 40, peak: 43, more: 3 }),
        huge_arrival: Some(HugeArrivalCell {
            kept: arrival(2.0, 512),
            fresh: arrival(1.6, 500),
            without: arrival(0.99, 0),
        }),
        kernel: vec![KernelCell {
            supply: "recycled",
            lanes: 2,
            ratio: 4.0,
            ratios: vec![4.0],
            bytes_per_s: 8 * GIB,
            kernel_bytes_per_s: 2 * GIB,
            by_kernel: 0.25,
        }],
        findings: Findings::default(),
    };
    let huge = BenchRow {
        page: "2m",
        backend: None,
        why: Some("no huge pages: transparent huge pages are switched off".to_owned()),
        copier: None,
        cells: Vec::new(),
        lazy: None,
        stall: None,
        lanes: None,
        vmas: None,
        huge_arrival: None,
        kernel: Vec::new(),
        ..base.clone()
    };
    vec![base, huge]
}

fn lossy() -> SoakReport {
    SoakReport {
        seed: 42,
        backend: "move",
        moved_bytes: 100 * GIB,
        lazy_bytes: 10 * GIB,
        regions: 7,
        migrations: 343,
        account: Account {
            moved: 26_214_400,
            already_there: 0,
            skipped: [(SkipReason::Pinned, 3)].into(),
        },
        pages_written: 5_000_000,
        pages_read: 1_000_000,
        stalls: stalls(),
        took_ns: 20_000_000_000,
        no_huge_pages: None,
        findings: Findings { lost_writes: 1, torn_reads: 0, first: None },
    }
}

#[test]
fn the_table_for_people() {
    insta::assert_snapshot!("one_node", text(&plan(0), &rows()));
}

#[test]
fn the_table_for_programs() {
    let json = json(&plan(1), &rows()[..1]);
    insta::assert_snapshot!("json", serde_json::to_string_pretty(&json).unwrap());
}

#[test]
fn a_soak() {
    insta::assert_snapshot!("soak", soak_text(&lossy()));
    assert_eq!(soak_json(&lossy())["schema"], "nodeward.bench-pager-soak/1");
}

/// Goal: a picture has a bar with its number for each ratio, and a title.
#[test]
fn the_picture() {
    let picture = svg(&rows()).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert_eq!(picture.matches("0.80").count(), 2, "two cells of 0.8");
    assert!(picture.contains("with a writer") && picture.contains("4k, k=2"));
    assert!(svg(&[]).unwrap().starts_with("<svg"), "nothing to draw is no error");
}
