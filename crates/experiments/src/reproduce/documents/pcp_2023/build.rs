//! Rows of `make -j224` of a kernel.

use super::drivers::{percent_of_cpu_time, run_build, wait_us};
use super::tuning::with_depth;
use crate::reproduce::figure_table::{Expected, FigureRow, FigureUnit};
use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

const SHORT: &str = "build";
const LONG: &str = "build, depth";

pub fn runs() -> Vec<ScenarioRun> {
    let run = |name| ScenarioRun::new(name, "compile").driven_by(run_build);
    vec![run(SHORT), with_depth(run(LONG))]
}

/// Returns the time spent spinning on any lock.
fn lock_wait_percent(outcome: &RunOutcome) -> f64 {
    percent_of_cpu_time(
        outcome,
        outcome.counter("zone_waited_ns") + outcome.counter("lru_waited_ns"),
    )
}

/// Returns the time to take pages from zones and to return them: waiting for the lock, and holding
/// it.
fn refill_percent(outcome: &RunOutcome) -> f64 {
    let names = ["zone_refill_waited_ns", "zone_refill_held_ns"];
    percent_of_cpu_time(outcome, names.map(|name| outcome.counter(name)).iter().sum())
}

fn zone_lock_percent(outcome: &RunOutcome) -> f64 {
    percent_of_cpu_time(
        outcome,
        outcome.counter("zone_waited_ns") + outcome.counter("zone_held_ns"),
    )
}

fn free_percent(outcome: &RunOutcome) -> f64 {
    zone_lock_percent(outcome) - refill_percent(outcome)
}

fn visits(runs: &RunOutcomes) -> String {
    let told = [SHORT, LONG].map(|name| {
        let of = runs.of(name);
        let visits = of.counter("zone_visits") / of.counter("faulted_pages").max(1.0) * 1000.0;
        format!("{visits:.1} for 1000 pages, which wait {:.1} us", wait_us(of))
    });
    format!("zone_visits: {}; then {}", told[0], told[1])
}

fn memory(runs: &RunOutcomes) -> String {
    let told = [SHORT, LONG].map(|name| runs.of(name).number("used GB, first half"));
    format!("used in the first half: {:.1} GB, then {:.1} GB", told[0], told[1])
}

/// Returns a row: a share of the profile with short lists and with long ones, in per cent.
fn share(
    what: &str,
    (short, long): (f64, f64),
    figure: fn(&RunOutcome) -> f64,
    why: &'static str,
) -> [FigureRow; 2] {
    let row = |lists: &str, expected| {
        FigureRow::profile(
            format!("build, {lists}: {what}"),
            FigureUnit::Percent,
            Expected::One(expected),
        )
        .counter(visits)
        .why(why)
    };
    [
        row("short lists", short).ours(move |runs| figure(runs.of(SHORT))),
        row("long lists", long)
            .ours(move |runs| figure(runs.of(LONG)))
            .from(short, move |runs| figure(runs.of(SHORT))),
    ]
}

pub fn rows() -> Vec<FigureRow> {
    let [spin, spin_after] = share(
        "waits for locks",
        (17.00, 12.28),
        lock_wait_percent,
        "A compiler lives for longer than a period, so its list learns a part of what it frees; \
         and behind the zone's lock there is that of a group's lists.",
    );
    let [give, give_after] = share(
        "giving pages back",
        (3.85, 0.54),
        free_percent,
        "Longer lists give back less often, and more at once.",
    );
    let [take, take_after] = share(
        "taking pages",
        (11.53, 8.33),
        refill_percent,
        "Lists are filled by 63 pages at a time, however long they may be.",
    );
    let sum = share("both", (15.38, 8.87), zone_lock_percent, "The sum of taking and giving back.");
    let shares = [
        spin.calibrated("cpu-time of cc"),
        spin_after,
        take,
        take_after,
        give,
        give_after.calibrated("memory of cc"),
    ];
    let shares = shares.into_iter().chain(sum);
    [time()].into_iter().chain(shares).chain([groups(), used()]).collect()
}

fn time() -> FigureRow {
    let seconds = |runs: &RunOutcomes, name| runs.of(name).number("build s");
    FigureRow::headline(
        "build time, of that with short lists",
        FigureUnit::Times,
        Expected::One(1.00),
    )
    .ours(move |runs| seconds(runs, LONG) / seconds(runs, SHORT))
    .counter(move |runs| {
        format!("{:.2} s, then {:.2} s", seconds(runs, SHORT), { seconds(runs, LONG) })
    })
    .why(
        "All compilers together end sooner, but the chain of steps that need each other takes \
             longest, and computes for nearly all of its time.",
    )
}

fn groups() -> FigureRow {
    let waits = |name| {
        move |runs: &RunOutcomes| {
            let of = runs.of(name);
            percent_of_cpu_time(of, of.counter("lru_waited_ns"))
        }
    };
    FigureRow::profile("build, long lists: the lock of a group's lists", FigureUnit::Percent, {
        Expected::One(1.96)
    })
    .ours(waits(LONG))
    .from(1.21, waits(SHORT))
    .counter(|runs| format!("lru_visits: {:.0}", runs.of(LONG).counter("lru_visits")))
    .calibrated("lru-hold")
    .why(
        "All compilers are in one group: with the zone's lock out of the way, faults come faster \
         to the next lock, once for each 15 pages that come or go.",
    )
}

fn used() -> FigureRow {
    let used = |runs: &RunOutcomes, name| runs.of(name).number("used GB, last quarter");
    FigureRow::profile(
        "build, memory used at the end, of that with short lists",
        FigureUnit::Times,
        Expected::One(1.00),
    )
    .ours(move |runs| used(runs, LONG) / used(runs, SHORT))
    .counter(memory)
    .why("Lists hold more while compilers come and go, and are set back where nobody allocates.")
}
