//! A database whose backends share one segment: PostgreSQL, under pgbench.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::balancer::{BalancerProcess, RoundLine, StateDir, disable_numa_balancing};
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{cpu_ticks, pin_this_thread};
use crate::numa_maps::PagesByNode;
use crate::postgres::{BenchReport, CLIENTS, PostgresServer};

pub const CASES: [(&str, CaseFn); 1] = [("balance_postgres", database)];

/// 100,000 accounts each.
const SCALE: u32 = 2;
const SEGMENT_MIB: u64 = 128;
/// The least time for which transactions are counted, unless `POSTGRES_TIME` is set, in seconds.
const TIME_S: u64 = 2;
/// This share of what backends touch must be at their home, in thousandths.
const HOME_MILLI: u64 = 950;
/// No page of a segment moves twice within this time.
const REST_MS: u64 = 60_000;
/// Moves have a day to pay, as a page costs milliseconds here on a slow host.
const SETTINGS: &str = "[balance]\nhorizon = '24h'\nhorizon-max = '24h'\n";

/// Goal: of a PostgreSQL whose segment is all on node 0, no page of the segment moves twice within
/// a minute: neither while its backends run anywhere, nor when they may run on node 1 only, where
/// the segment then follows them. Every transaction succeeds, accounts and history agree all the
/// time, and in the end as many transactions are in the history as pgbench counted.
fn database() -> CaseOutcome {
    disable_numa_balancing()?;
    // Memory comes from the node of the CPU that touches it first.
    pin_this_thread(&[0]);
    let server = PostgresServer::start(SEGMENT_MIB)?;
    server.create_tables(SCALE);
    pin_this_thread(&[0, 1]);
    server.set_affinity(&[0, 1]);
    let bench = server.start_bench();
    std::thread::sleep(least_time());
    let before = bench.finish();
    println!("without a balancer: tps {:.1}", before.tps);
    let anywhere = balanced(&server, "anywhere", |round| {
        round.segments.iter().any(|row| row.users >= CLIENTS)
    });
    server.set_affinity(&[1]);
    let at_node_1 = balanced(&server, "at-node-1", |round| {
        let pages = backend_pages(&server, round);
        let all: u64 = pages.values().sum();
        all > 0 && pages.get(&1).copied().unwrap_or(0) * 1000 >= all * HOME_MILLI
    });
    assert_data(&server, before.written + anywhere.written + at_node_1.written);
    server.stop();
    Ok(())
}

fn least_time() -> Duration {
    let set = std::env::var("POSTGRES_TIME").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(set.unwrap_or(TIME_S))
}

/// Checks that all transactions are there, and that all sums agree.
fn assert_data(server: &PostgresServer, written: u64) {
    assert_eq!(server.transactions(), written);
    let sums = "SELECT sum(abalance) = (SELECT sum(delta) FROM pgbench_history), \
        sum(abalance) = (SELECT sum(tbalance) FROM pgbench_tellers), \
        sum(abalance) = (SELECT sum(bbalance) FROM pgbench_branches), \
        count(*) FROM pgbench_accounts";
    assert_eq!(server.answer(sums), format!("t|t|t|{}", u64::from(SCALE) * 100_000));
}

/// Runs pgbench with a balancer until a round satisfies a condition. Then the account of the
/// balancer must be right.
fn balanced(
    server: &PostgresServer,
    name: &str,
    mut is_so: impl FnMut(&RoundLine) -> bool,
) -> BenchReport {
    let place = StateDir::new(name);
    let settings = place.path().join("settings.toml");
    fs::write(&settings, SETTINGS).expect("a file");
    let words = format!("balance --json --quiet --name postgres --config {}", settings.display());
    let mut balance = BalancerProcess::spawn(&mut place.command(&words));
    let (bench, start, mut reasons) = (server.start_bench(), Instant::now(), BTreeMap::new());
    let last = balance.wait_for_round(name, |round| {
        count_reasons(round, &mut reasons);
        is_so(round) && start.elapsed() >= least_time()
    });
    let time = start.elapsed().as_secs_f64();
    let cpu_percent = cpu_ticks(&balance.pid().to_string()) as f64 / time;
    let (nodes, run) = (backend_pages(server, &last), bench.finish());
    println!(
        "{name}: tps {:.1}; the balancer had {cpu_percent:.0} % of a CPU for {time:.1} s; rounds \
         by the segment's reason {reasons:?}; pages that backends touched {nodes:?}",
        run.tps
    );
    assert_account(&place, balance.stop().assert_success().moved_pages, &server.segment());
    run
}

fn count_reasons(round: &RoundLine, reasons: &mut BTreeMap<String, u32>) {
    for row in &round.segments {
        *reasons.entry(row.reason.clone()).or_default() += 1;
    }
}

/// Returns the pages of the segment that backends at home touched, once for each of them. Others
/// touched little, and what is theirs alone stays.
fn backend_pages(server: &PostgresServer, round: &RoundLine) -> PagesByNode {
    let at_home = round.processes.iter().filter(|row| row.home.is_some());
    server.segment_pages(&at_home.map(|row| row.pid).collect::<Vec<_>>())
}

/// Checks that the ledger has all pages that moved, and none of the segment's twice in a minute.
fn assert_account(place: &StateDir, moved: u64, segment: &Range<u64>) {
    let ledger = place.ledger();
    let told: u64 = ledger.iter().filter_map(|one| one["moved_pages"].as_u64()).sum();
    assert_eq!(told, moved, "{ledger:?}");
    let (mut rests_since_ms, mut pages) = (BTreeMap::new(), 0);
    for one in ledger.iter().rev() {
        assert_eq!(one["state"]["name"], "ended", "{one}");
        let at_ms = |value: &Value| value.as_u64().expect("a time");
        let began_ms = at_ms(&one["began_unix_ms"]);
        let ended_ms = at_ms(&one["state"]["ended_unix_ms"]);
        for page in place.moved_addresses(one).into_iter().filter(|page| segment.contains(page)) {
            pages += 1;
            let since_ms = rests_since_ms.insert(page, ended_ms);
            let rested = since_ms.is_none_or(|since_ms| since_ms + REST_MS <= began_ms);
            assert!(rested, "{page:x} moved twice within a minute: {ledger:?}");
        }
    }
    println!("{} moves of {moved} pages, {pages} of them of the segment", ledger.len());
}
