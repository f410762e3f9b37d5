//! Goal: the output keeps its shape, for people and for programs.

use std::time::Duration;

use nodeward_proof::{PureFlow, Ratio, TimeQuantiles};

use super::*;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn plan() -> PoolPlan {
    PoolPlan {
        bytes: 128 << 20,
        threads: vec![1, 2],
        orders: vec![0],
        zeroed: vec![false, true],
        huge: false,
        contenders: PoolContender::ALL.to_vec(),
        time: Duration::from_millis(500),
        rounds: 5,
        over_time: true,
        pure: true,
        period: Duration::from_secs(1),
    }
}

/// The kernel at 4 GiB/s, and a pool that is six times as fast.
fn cells(threads: u32, zeroed: bool) -> [PoolCell; 2] {
    let kernel = PoolCell {
        contender: PoolContender::Kernel,
        threads,
        order: 0,
        zeroed,
        bytes_per_s: 4 * GIB,
        times_as_fast: [].into(),
        zone_visits_per_million: None,
        latency: TimeQuantiles {
            count: 32768,
            p50_ns: 700,
            p99_ns: 1500,
            p999_ns: 9000,
            max_ns: 90_000,
        },
        dirty_bytes: 0,
    };
    let pool = PoolCell {
        contender: PoolContender::PoolDepth,
        bytes_per_s: 24 * GIB,
        times_as_fast: [(
            PoolContender::Kernel,
            Ratio { median: 6.0, rounds: vec![5.5, 6.0, 6.25] },
        )]
        .into(),
        zone_visits_per_million: Some(12.5),
        latency: TimeQuantiles { p50_ns: 90, p99_ns: 200, ..kernel.latency },
        dirty_bytes: u64::from(zeroed),
        ..kernel.clone()
    };
    [kernel, pool]
}

fn report() -> PoolReport {
    let period = |visits| PeriodVisits { visits, pages: 1_000_000, per_million: visits as f64 };
    let look = |at_ms: u64, held: u64, in_use: u64| PoolSample {
        at_ns: at_ms * 1_000_000,
        held_bytes: held * MIB,
        in_use_bytes: in_use * MIB,
        pcp_high_bytes: MIB,
    };
    PoolReport {
        not_built_in: vec![PoolContender::Mimalloc, PoolContender::Jemalloc],
        clock_ns: 25,
        cells: [cells(1, false), cells(2, false), cells(2, true)].concat(),
        timelines: vec![PoolTimeline {
            contender: PoolContender::PoolDepth,
            threads: 2,
            period_ns: 1_000_000_000,
            after_one_pass: vec![period(31_746), period(200)],
            busy: vec![period(16_000), period(8000)],
            peak_held_bytes: 264 * MIB,
            peak_in_use_bytes: 256 * MIB,
            idle_periods: Some(2.04),
            idle_from_ns: 2_000_000_000,
            looks: vec![look(0, 200, 100), look(1000, 264, 256), look(4000, 2, 0)],
        }],
        pure: vec![PureFlow {
            contender: PoolContender::PoolDepth,
            pages: 5_000_000,
            pcp_high_default: 252,
            pcp_high_max: 252,
        }],
    }
}

#[test]
fn the_table_for_people() {
    insta::assert_snapshot!("text", text(&plan(), &report()));
}

#[test]
fn the_table_for_programs() {
    let report = PoolReport { cells: cells(1, false).to_vec(), ..report() };
    let json = json(&plan(), &report);
    insta::assert_snapshot!("json", serde_json::to_string_pretty(&json).unwrap());
}

/// Goal: there is a chart for each kind of runs with a bar for each cell, and one for each pool
/// over time.
#[test]
fn the_picture() {
    let picture = svg(&report()).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert_eq!(picture.matches("nodeward bench pool: runs").count(), 2, "zeroed and not");
    assert_eq!(picture.matches("24.0").count(), 3, "three cells of 24 GiB/s");
    assert!(picture.contains("pcp_high") && picture.contains("pool-depth over time"));
    assert!(svg(&PoolReport::default()).unwrap().starts_with("<svg"), "nothing is no error");
}
