//! Rows of `make -j224` of a kernel.

use super::drive::{build, percent, wait_us};
use super::with_depth;
use crate::outcome::Outcome;
use crate::runs::{Run, Runs};
use crate::table::{Expected, Row, Unit};

const SHORT: &str = "build";
const LONG: &str = "build, depth";

pub fn runs() -> Vec<Run> {
    let run = |name| Run::of(name, "compile").driven(build);
    vec![run(SHORT), with_depth(run(LONG))]
}

/// Returns the time spent spinning on any lock.
fn waits(outcome: &Outcome) -> f64 {
    percent(outcome, outcome.counter("zone_waited_ns") + outcome.counter("lru_waited_ns"))
}

/// Returns the time to take pages from zones and to return them: waiting for the lock, and holding
/// it.
fn takes(outcome: &Outcome) -> f64 {
    let names = ["zone_refill_waited_ns", "zone_refill_held_ns"];
    percent(outcome, names.map(|name| outcome.counter(name)).iter().sum())
}

fn both(outcome: &Outcome) -> f64 {
    percent(outcome, outcome.counter("zone_waited_ns") + outcome.counter("zone_held_ns"))
}

fn gives(outcome: &Outcome) -> f64 {
    both(outcome) - takes(outcome)
}

fn visits(runs: &Runs) -> String {
    let told = [SHORT, LONG].map(|name| {
        let of = runs.of(name);
        let visits = of.counter("zone_visits") / of.counter("faulted_pages").max(1.0) * 1000.0;
        format!("{visits:.1} for 1000 pages, which wait {:.1} us", wait_us(of))
    });
    format!("zone_visits: {}; then {}", told[0], told[1])
}

fn memory(runs: &Runs) -> String {
    let told = [SHORT, LONG].map(|name| runs.of(name).number("used GB, first half"));
    format!("used in the first half: {:.1} GB, then {:.1} GB", told[0], told[1])
}

/// Returns a row: a share of the profile with short lists and with long ones, in per cent.
fn share(
    what: &str,
    (short, long): (f64, f64),
    figure: fn(&Outcome) -> f64,
    why: &'static str,
) -> [Row; 2] {
    let row = |lists: &str, expected| {
        Row::profile(format!("build, {lists}: {what}"), Unit::Percent, Expected::One(expected))
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

pub fn rows() -> Vec<Row> {
    let [spin, spin_after] = share(
        "waits for locks",
        (17.00, 12.28),
        waits,
        "A compiler lives for longer than a period, so its list learns a part of what it frees; \
         and behind the zone's lock there is that of a group's lists.",
    );
    let [give, give_after] = share(
        "giving pages back",
        (3.85, 0.54),
        gives,
        "Longer lists give back less often, and more at once.",
    );
    let [take, take_after] = share(
        "taking pages",
        (11.53, 8.33),
        takes,
        "Lists are filled by 63 pages at a time, however long they may be.",
    );
    let sum = share("both", (15.38, 8.87), both, "The sum of taking and giving back.");
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

fn time() -> Row {
    let seconds = |runs: &Runs, name| runs.of(name).number("build s");
    Row::headline("build time, of that with short lists", Unit::Times, Expected::One(1.00))
        .ours(move |runs| seconds(runs, LONG) / seconds(runs, SHORT))
        .counter(move |runs| {
            format!("{:.2} s, then {:.2} s", seconds(runs, SHORT), { seconds(runs, LONG) })
        })
        .why(
            "All compilers together end sooner, but the chain of steps that need each other takes \
             longest, and computes for nearly all of its time.",
        )
}

fn groups() -> Row {
    let waits = |name| {
        move |runs: &Runs| {
            let of = runs.of(name);
            percent(of, of.counter("lru_waited_ns"))
        }
    };
    Row::profile("build, long lists: the lock of a group's lists", Unit::Percent, {
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

fn used() -> Row {
    let used = |runs: &Runs, name| runs.of(name).number("used GB, last quarter");
    Row::profile("build, memory used at the end, of that with short lists", Unit::Times, {
        Expected::One(1.00)
    })
    .ours(move |runs| used(runs, LONG) / used(runs, SHORT))
    .counter(memory)
    .why("Lists hold more while compilers come and go, and are set back where nobody allocates.")
}
