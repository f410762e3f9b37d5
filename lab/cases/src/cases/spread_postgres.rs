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

/// From when to when a command moved the segment, since 1970.
type Time = (Duration, Duration);

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
    let count = number("SPREAD_TURNS", TURNS);
    let turns: Vec<SpreadTurn> = (0..count).map(|turn| take_turn(&server, turn % 2 == 1)).collect();
    let (report, log) = bench.finish_logged();
    drop(reader);
    print_figures(&turns, &log, segment_mib);
    assert_eq!(server.transactions(), report.written);
    server.stop();
    Ok(())
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let set = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    set.unwrap_or(otherwise)
}

/// What was done in one turn, and when.
struct SpreadTurn {
    odd_percent: f64,
    spread: Time,
    undo: Time,
    theirs: Time,
}

/// Spreads the segment, which is on node 0, and takes that back; before or after that,
/// `migratepages` moves the pages of a backend.
fn take_turn(server: &PostgresServer, theirs_first: bool) -> SpreadTurn {
    let before = theirs_first.then(|| migrate_backend(server));
    let (odd_percent, spread, undo) = spread_and_undo();
    let theirs = before.unwrap_or_else(|| migrate_backend(server));
    SpreadTurn { odd_percent, spread, undo, theirs }
}

/// Spreads the segment, which is on node 0, and takes that back. Returns by how much the nodes then
/// differed, in percent of what each is to have, and when that was.
fn spread_and_undo() -> (f64, Time, Time) {
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
    (odd_percent, spread, undo)
}

/// Moves the pages that the widest backend touched to node 1, and then back, which does not count.
fn migrate_backend(server: &PostgresServer) -> Time {
    let (pid, pages) = server.widest_backend();
    println!("migratepages: {pages:?}");
    let pid = pid.to_string();
    let ((), times) = timed(|| run("migratepages", &[&pid, "0", "1"]));
    println!("migratepages: {:.1?}", times.1 - times.0);
    run("migratepages", &[&pid, "1", "0"]);
    times
}

/// Prints by how much the nodes differed at most, and the median over turns of the longest
/// transaction while nodeward moves the segment, as a part of that while `migratepages` does.
fn print_figures(turns: &[SpreadTurn], log: &[LoggedTransaction], segment_mib: u64) {
    let odds: Vec<f64> = turns.iter().map(|turn| turn.odd_percent).collect();
    let odd = odds.iter().copied().fold(0.0, f64::max);
    println!("spread.even {}", json!({ "measured": odd, "unit": "%", "turns": odds }));
    let longest = |times: fn(&SpreadTurn) -> Vec<Time>| -> Vec<f64> {
        turns.iter().map(|turn| longest_ms(log, &times(turn))).collect()
    };
    let ours = longest(|turn| vec![turn.spread, turn.undo]);
    let theirs = longest(|turn| vec![turn.theirs]);
    let all: Vec<Time> = turns.iter().flat_map(|it| [it.spread, it.undo, it.theirs]).collect();
    let figure = json!({
        "measured": median(&ours) / median(&theirs),
        "ours_ms": ours,
        "spread_ms": longest(|turn| vec![turn.spread]),
        "theirs_ms": theirs,
        "between_ms": longest_ms(log, &between(&all)),
        "transactions": log.len(),
        "failed": 0,
        "segment_mib": segment_mib,
    });
    println!("spread.pause {figure}");
}

/// Returns the middle one of some values, the lower of two.
fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, Time) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    let began = now();
    let done = what();
    (done, (began, now()))
}

/// The times between those of commands.
fn between(times: &[Time]) -> Vec<Time> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.windows(2).map(|pair| (pair[0].1, pair[1].0)).collect()
}

/// The longest time that a client waited for a transaction which was under way at one of these
/// times, in ms.
fn longest_ms(log: &[LoggedTransaction], times: &[Time]) -> f64 {
    let meets = |one: &LoggedTransaction| {
        let began = one.ended.saturating_sub(one.took);
        times.iter().any(|&(from, until)| began <= until && one.ended >= from)
    };
    let took = log.iter().filter(|one| meets(one)).map(|one| one.took).max();
    took.expect("clients work all the time").as_secs_f64() * 1e3
}
