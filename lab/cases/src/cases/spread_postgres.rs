//! `nodeward spread` of the segment of a PostgreSQL server that is at work, beside what
//! `migratepages` does to its clients.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::spread::{assert_even, spread_at_once};
use crate::balancer::disable_numa_balancing;
use crate::case_outcome::{CaseFn, CaseOutcome};
use crate::guest::{pin_this_thread, run};
use crate::nodeward::nodeward;
use crate::postgres::{LoggedTransaction, PostgresServer};

pub const CASES: [(&str, CaseFn); 1] = [("spread_postgres", spread_postgres)];

/// 100,000 accounts.
const SCALE: u32 = 1;
/// Of the segment some MiB are for what is no row of the table that fills it.
const OTHERS_MIB: u64 = 48;
/// The size of the segment, unless `SPREAD_MIB` is set.
const SEGMENT_MIB: u64 = 96;
/// How often each command moves the segment, unless `SPREAD_TURNS` is set.
const TURNS: u64 = 1;

/// The times in which a command moved the segment, since 1970.
type Times = Vec<(Duration, Duration)>;

/// Goal: the segment of a PostgreSQL at work, all on node 0, is spread over both nodes within 2 %,
/// and an undo brings it back, page for page; no transaction of its clients fails. The longest that
/// a client waits meanwhile is told, as a part of the longest while `migratepages` moves the pages
/// that one backend touched, which are less than both moves of nodeward together.
fn spread_postgres() -> CaseOutcome {
    disable_numa_balancing()?;
    // Memory comes from the node of the CPU that touches it first.
    pin_this_thread(&[0]);
    let segment_mib = number("SPREAD_MIB", SEGMENT_MIB);
    let server = PostgresServer::start(segment_mib)?;
    server.create_tables(SCALE);
    server.fill_segment(segment_mib - OTHERS_MIB);
    let reader = server.read_all_and_wait();
    pin_this_thread(&[0, 1]);
    server.set_affinity(&[0, 1]);
    let bench = server.start_logged_bench();
    let (mut ours, mut theirs, mut odds) = (Times::new(), Times::new(), Vec::new());
    for _ in 0..number("SPREAD_TURNS", TURNS) {
        let (odd_percent, times) = spread_and_undo();
        odds.push(odd_percent);
        ours.extend(times);
        theirs.push(migrate_backend(&server));
    }
    let (report, log) = bench.finish_logged();
    drop(reader);
    let [ours_ms, theirs_ms] = [&ours, &theirs].map(|times| longest_ms(&log, times));
    let both = [&ours[..], &theirs[..]].concat();
    let quiet_ms = longest_ms(&log, &between(&both));
    let odd = odds.iter().copied().fold(0.0, f64::max);
    println!("spread.even {}", json!({ "measured": odd, "unit": "%", "turns": odds }));
    let figure = json!({
        "measured": ours_ms / theirs_ms,
        "ours_ms": ours_ms,
        "theirs_ms": theirs_ms,
        "between_ms": quiet_ms,
        "transactions": report.written,
        "failed": 0,
        "segment_mib": segment_mib,
    });
    println!("spread.pause {figure}");
    assert_eq!(server.transactions(), report.written);
    server.stop();
    Ok(())
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let set = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    set.unwrap_or(otherwise)
}

/// Spreads the segment, which is on node 0, and takes that back. Returns by how much the nodes then
/// differed, in percent of what each is to have, and when that was.
fn spread_and_undo() -> (f64, Times) {
    let words = "--name postgres 0,1 --only shared --block 256KiB";
    let (told, spread) = timed(|| spread_at_once(words));
    let after = &told.spread.after_pages;
    let all: u64 = after.values().sum();
    assert_even(after, all);
    let on = |node| after.get(&node).copied().unwrap_or(0);
    let odd_percent = on(0).abs_diff(on(1)) as f64 * 200.0 / all as f64;
    println!("spread: {} of {all} pages in {:.1?}", told.account.moved, spread.1 - spread.0);
    let words = format!("undo --json --quiet {}", told.ledger.id);
    let (undone, undo) = timed(|| nodeward(&words).report_after_exit(0));
    assert_eq!(undone.account.moved, told.account.moved, "{undone:?}");
    (odd_percent, vec![spread, undo])
}

/// Moves the pages that the widest backend touched to node 1, and then back, which does not count.
fn migrate_backend(server: &PostgresServer) -> (Duration, Duration) {
    let (pid, pages) = server.widest_backend();
    println!("migratepages: {pages:?}");
    let pid = pid.to_string();
    let ((), times) = timed(|| run("migratepages", &[&pid, "0", "1"]));
    println!("migratepages: {:.1?}", times.1 - times.0);
    run("migratepages", &[&pid, "1", "0"]);
    times
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, (Duration, Duration)) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    let began = now();
    let done = what();
    (done, (began, now()))
}

/// The times between those of commands.
fn between(times: &[(Duration, Duration)]) -> Times {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.windows(2).map(|pair| (pair[0].1, pair[1].0)).collect()
}

/// The longest time that a client waited for a transaction which was under way at one of these
/// times, in ms.
fn longest_ms(log: &[LoggedTransaction], times: &[(Duration, Duration)]) -> f64 {
    let meets = |one: &LoggedTransaction| {
        let began = one.ended.saturating_sub(one.took);
        times.iter().any(|&(from, until)| began <= until && one.ended >= from)
    };
    let took = log.iter().filter(|one| meets(one)).map(|one| one.took).max();
    took.expect("clients work all the time").as_secs_f64() * 1e3
}
