//! Output of `nodeward watch`.

use std::fmt::Write as _;

use nodeward_bpf::migrations::{CallerCounts, LostEvents, ThpCounts};
use nodeward_model::Pid;
use nodeward_model::units::{format_bytes, format_ns};
use serde_json::{Value, json};

use super::put_name;
use crate::results::observation::WatchEnd;
use crate::results::page_movers::{
    HeldTimes, MoverPeriod, NotTold, PageCaller, PageMover, WatchRound,
};

/// Callers of a reason that are named; the others are counted.
const CALLERS: usize = 2;

/// What is the same in all rounds of a watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchFacts<'a> {
    /// The name of what counts.
    pub source: &'static str,
    /// The processes whose calls count; none if all do.
    pub pids: &'a [Pid],
    /// What cannot be told here.
    pub not_told: &'a [NotTold],
}

/// Formats the heading of the columns.
pub fn header() -> String {
    row([
        "TIME", "MOVER", "CALLS", "MOVED", "FAILED", "RATE", "THP", "FLUSHES", "HELD P50", "P99",
        "MAX", "BY",
    ])
}

/// Formats a round; with the last one also what happened in all.
pub fn text(round: &WatchRound) -> String {
    let mut text = period(&format_ns(round.total.time_ns), &round.interval);
    if let Some(end) = round.end {
        let why = match end {
            WatchEnd::Time => "",
            WatchEnd::Stopped => ", stopped",
            WatchEnd::Gone => ", until no watched process was left",
        };
        let _ = writeln!(text, "in {}{why}", format_ns(round.total.time_ns));
        text += &period("all", &round.total);
    }
    text
}

fn period(time: &str, period: &MoverPeriod) -> String {
    let rows = period.movers.iter().map(|mover| mover_row(time, mover, period.time_ns));
    let mut text: String = rows.collect();
    if period.movers.is_empty() {
        let _ = writeln!(text, "{time:>7}  no page was migrated");
    }
    for lost in lost_texts(&period.lost) {
        let _ = writeln!(text, "{time:>7}  {lost}");
    }
    text
}

fn mover_row(time: &str, mover: &PageMover, time_ns: u64) -> String {
    let number = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    let rate = mover.moved_pages.map(|pages| bytes_per_s(pages, time_ns));
    let thp = |ThpCounts { succeeded, failed, split }| format!("{succeeded}/{failed}/{split}");
    let hold = |part: fn(HeldTimes) -> Option<u64>| {
        mover.holds.and_then(part).map_or("-".to_owned(), format_ns)
    };
    row([
        time,
        &mover.reason,
        &number(mover.calls),
        &number(mover.moved_pages),
        &number(mover.failed_pages),
        &rate.map_or("-".to_owned(), |rate| format!("{}/s", format_bytes(rate))),
        &mover.thp.map_or("-".to_owned(), thp),
        &number(mover.tlb_flushes),
        &hold(|times| times.p50_ns),
        &hold(|times| times.p99_ns),
        &hold(|times| times.max_ns),
        &by(mover),
    ])
}

fn row(cells: [&str; 12]) -> String {
    let [time, mover, calls, moved, failed, rate, thp, flushes, p50, p99, max, by] = cells;
    let line = format!(
        "{time:>7}  {mover:<15} {calls:>6} {moved:>9} {failed:>7} {rate:>11} {thp:>8} {flushes:>7} \
         {p50:>8} {p99:>8} {max:>8}  {by}"
    );
    line.trim_end().to_owned() + "\n"
}

/// Returns the callers, or what else is known.
fn by(mover: &PageMover) -> String {
    if let Some(pages) = mover.scanned_pages {
        return format!("looked at {pages} pages");
    }
    let named = mover.callers.iter().take(CALLERS);
    let mut named: Vec<String> =
        named.map(|caller| format!("{} {}", caller.name, caller.pid)).collect();
    let others = mover.callers.len().saturating_sub(CALLERS);
    named.extend((others > 0).then(|| format!("{others} more")));
    named.join(", ")
}

fn bytes_per_s(pages: u64, time_ns: u64) -> u64 {
    per_second(u128::from(pages) * rustix::param::page_size() as u128, time_ns)
}

/// Returns how many things a second these are, of a time.
pub fn per_second(count: u128, time_ns: u64) -> u64 {
    u64::try_from(count * 1_000_000_000 / u128::from(time_ns.max(1))).unwrap_or(u64::MAX)
}

fn lost_texts(lost: &LostEvents) -> impl Iterator<Item = String> {
    let texts = [
        (lost.callers, "calls without their caller, as there were too many callers"),
        (lost.starts, "calls without times, as too many were under way at once"),
        (lost.holds, "held times that are missing, as their begin was not seen"),
        (lost.runs, "events that were missed, as the kernel was already counting on their CPU"),
    ];
    texts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, text)| format!("{text}: {count}"))
}

/// Formats a round for programs.
pub fn json(round: &WatchRound, facts: &WatchFacts<'_>) -> Value {
    let not_told =
        facts.not_told.iter().map(|NotTold { why, log }| json!({"why": why, "log": log}));
    json!({
        "schema": "nodeward.watch/1",
        "source": facts.source,
        "pids": facts.pids,
        "page_bytes": rustix::param::page_size(),
        "not_told": not_told.collect::<Vec<_>>(),
        "round": round.number,
        "time_unix_ms": round.time_unix_ms,
        "ended": round.end,
        "interval": period_json(&round.interval),
        "total": period_json(&round.total),
    })
}

fn period_json(period: &MoverPeriod) -> Value {
    let LostEvents { callers, starts, holds, runs } = period.lost;
    let movers = period.movers.iter().map(|mover| mover_json(mover, period.time_ns));
    json!({
        "time_ns": period.time_ns,
        "movers": movers.collect::<Vec<_>>(),
        "lost": {"callers": callers, "starts": starts, "holds": holds, "runs": runs},
    })
}

fn mover_json(mover: &PageMover, time_ns: u64) -> Value {
    json!({
        "mover": mover.reason,
        "calls": mover.calls,
        "moved_pages": mover.moved_pages,
        "failed_pages": mover.failed_pages,
        "moved_bytes_per_s": mover.moved_pages.map(|pages| bytes_per_s(pages, time_ns)),
        "thp": mover.thp.map(thp_json),
        "large_folio_splits": mover.large_folio_splits,
        "call_time_ns": mover.call_ns,
        "tlb_flushes": mover.tlb_flushes,
        "held": mover.holds.map(held_json),
        "scanned_pages": mover.scanned_pages,
        "callers": mover.callers.iter().map(caller_json).collect::<Vec<_>>(),
    })
}

fn thp_json(ThpCounts { succeeded, failed, split }: ThpCounts) -> Value {
    json!({"moved": succeeded, "failed": failed, "split": split})
}

fn held_json(times: HeldTimes) -> Value {
    let HeldTimes { entries, p50_ns, p99_ns, max_ns } = times;
    json!({"entries": entries, "p50_ns": p50_ns, "p99_ns": p99_ns, "max_ns": max_ns})
}

fn caller_json(caller: &PageCaller) -> Value {
    let CallerCounts { calls, succeeded, failed } = caller.counts;
    let mut value = json!({
        "pid": caller.pid,
        "calls": calls,
        "moved_pages": succeeded,
        "failed_pages": failed,
    });
    put_name(&mut value, "name", &caller.name);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(pid: u32, name: &[u8], succeeded: u64) -> PageCaller {
        let counts = CallerCounts { calls: 3, succeeded, failed: 1 };
        PageCaller { pid, name: name.into(), counts }
    }

    fn mover(reason: &str, pages: u64, callers: Vec<PageCaller>) -> PageMover {
        let times = HeldTimes {
            entries: pages,
            p50_ns: Some(12_300),
            p99_ns: Some(410_000),
            max_ns: Some(1_203_456),
        };
        PageMover {
            reason: reason.to_owned(),
            calls: Some(12),
            moved_pages: Some(pages),
            failed_pages: Some(3),
            thp: Some(ThpCounts { succeeded: 128, failed: 0, split: 1 }),
            large_folio_splits: Some(1),
            call_ns: Some(450_000_000),
            tlb_flushes: Some(140),
            holds: Some(times),
            scanned_pages: None,
            callers,
        }
    }

    /// A round in which a tool of a hostile name moved pages, and a kernel's thread compacted. A
    /// second with 65536 pages of 4 KiB is 256 MiB/s.
    fn last_round() -> WatchRound {
        let callers = vec![
            caller(153, b"nodeward", 60_000),
            caller(154, b"\xff\x1b[2Jx\n", 5_000),
            caller(155, b"migratepages", 536),
        ];
        let syscall = mover("syscall", 65_536, callers);
        let old = PageMover {
            thp: None,
            large_folio_splits: None,
            tlb_flushes: None,
            holds: None,
            ..mover("compaction", 64, vec![caller(42, b"kcompactd0", 64)])
        };
        let lost = LostEvents { callers: 7, ..LostEvents::default() };
        let interval = MoverPeriod { time_ns: 1_000_000_000, movers: vec![syscall, old], lost };
        let total = MoverPeriod { time_ns: 2_000_000_000, ..interval.clone() };
        let end = Some(WatchEnd::Stopped);
        WatchRound { number: 2, time_unix_ms: 1_790_000_000_000, interval, total, end }
    }

    /// Goal: each reason has its line; what a kernel does not tell is a dash; hostile names are
    /// escaped; what was lost is counted. The last round is followed by the sums.
    #[test]
    fn the_last_round_as_text() {
        insta::assert_snapshot!(header() + &text(&last_round()));
    }

    /// Goal: a calm interval is one line, and no sum follows before the end.
    #[test]
    fn a_calm_interval_is_a_line() {
        let calm = MoverPeriod { time_ns: 1_000_000_000, ..MoverPeriod::default() };
        let round = WatchRound { interval: calm, end: None, ..last_round() };
        assert_eq!(text(&round), " 2.00 s  no page was migrated\n");
    }

    /// Goal: what /proc/vmstat has is told, with dashes for all else.
    #[test]
    fn counters_as_text() {
        let named = |reason: &str| PageMover { reason: reason.to_owned(), ..PageMover::default() };
        let movers = vec![
            PageMover { moved_pages: Some(512), failed_pages: Some(0), ..named("all") },
            PageMover { scanned_pages: Some(2048), ..named("compaction") },
        ];
        let interval = MoverPeriod { movers, lost: LostEvents::default(), ..last_round().interval };
        insta::assert_snapshot!(text(&WatchRound { interval, end: None, ..last_round() }));
    }

    /// Goal: programs get all of it, and the log of a program that the kernel refused.
    #[test]
    fn the_last_round_as_json() {
        let why = "time of calls: the kernel refused the program migrate_start".to_owned();
        let not_told = [NotTold { why, log: Some("R1 invalid mem access".to_owned()) }];
        let pids = [Pid::new(153).unwrap()];
        let facts = WatchFacts { source: "bpf", pids: &pids, not_told: &not_told };
        let value = json(&last_round(), &facts);
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }
}
