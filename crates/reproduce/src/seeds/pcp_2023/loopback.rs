//! SCTP_STREAM_MANY of netperf over the loopback device.

use super::drive::{after_start, after_two_periods, rate};
use super::{TUNING, with_depth};
use crate::outcome::Outcome;
use crate::runs::{Run, Runs};
use crate::table::{Better, Beyond, Expected, Goal, Row, Step, Unit};

const SHORT: &str = "SCTP";
const LONG: &str = "SCTP, depth";
const BOUND: &str = "SCTP, lists at their bound";
const EVENTS: &str = "SCTP, events";
const TOGETHER: &str = "SCTP, threads together";
/// Of which the simulated one is one.
const SOCKETS: f64 = 2.0;
/// Processes on one.
const PAIRS: f64 = 32.0;
/// What a message carries; its two copies take twice that.
const MESSAGE_BITS: f64 = 16384.0 * 8.0;

const IDLE: &str = "\
    what makes CPUs less idle when messages come faster: idle states, and SCTP's own windows and \
    timers; here who waits no more for a lock leaves more of the time to waits for the partner";
const FLOOR: &str = "what interrupts and the tracer itself add to the 10 ns of a list";
const AT_ONCE: &str = "\
    a list that gives back less at once: with up to 189 pages fewer than one free of 100 sees it";

pub fn runs() -> Vec<Run> {
    let run = |name| Run::of(name, "loopback");
    vec![
        run(SHORT).driven(after_start),
        with_depth(run(LONG)).set("time", "3s").driven(after_two_periods),
        // 128 GiB / 4 KiB / 8 / 64 CPUs
        run(BOUND).set("machine.pcp-high", "65536").driven(after_start),
        run(EVENTS).set(TUNING, "events").driven(after_start),
        run(TOGETHER).set("workload.netperf.together", "true").driven(after_start),
    ]
}

/// Of a process, in megabits a second.
fn mbit_per_s(runs: &Runs, name: &str) -> f64 {
    rate(runs.of(name), "netperf") / PAIRS * MESSAGE_BITS / 1e6
}

/// What 99 of 100 allocations, or frees, take at most.
fn p99_us(outcome: &Outcome, what: &str) -> f64 {
    outcome.report.latencies.get(what).map_or(0.0, |all| all.p99_ns as f64 / 1e3)
}

fn visits(runs: &Runs) -> String {
    let told = [SHORT, LONG].map(|name| {
        let of = runs.of(name);
        let messages = rate(of, "netperf") * of.number("seconds");
        format!("{:.1}", 100.0 * of.counter("zone_visits") / messages.max(1.0))
    });
    format!("zone_visits: {} for 100 messages, then {}", told[0], told[1])
}

fn listed(runs: &Runs, name: &str) -> f64 {
    SOCKETS * runs.of(name).number("listed GB")
}

fn lists(runs: &Runs) -> String {
    let told = [SHORT, LONG, EVENTS, TOGETHER].map(|name| listed(runs, name));
    let [short, long, events, together] = told;
    format!("{short:.2} GB, then {long:.2}; Linux 6.7 {events:.2}, threads together {together:.2}")
}

pub fn rows() -> Vec<Row> {
    throughput().into_iter().chain(cpus()).chain([memory()]).chain(latencies()).collect()
}

fn throughput() -> Vec<Row> {
    let why = "Threads take turns, so what a message waits for in the allocator counts in full.";
    let mbit = |name: &'static str| move |runs: &Runs| mbit_per_s(runs, name);
    let gain = |runs: &Runs| 100.0 * (mbit_per_s(runs, LONG) / mbit_per_s(runs, SHORT) - 1.0);
    vec![
        Row::headline("SCTP, short lists: Mbit/s of a process", Unit::Count, Expected::One(7136.0))
            .calibrated("cpu-time of netperf")
            .ours(mbit(SHORT))
            .counter(visits)
            .why(why),
        Row::headline("SCTP, long lists: Mbit/s of a process", Unit::Count, Expected::One(8489.0))
            .ours(mbit(LONG))
            .from(7136.0, mbit(SHORT))
            .counter(visits)
            .why(why),
        Row::profile("SCTP, the gain of long lists", Unit::Percent, Expected::One(19.0))
            .calibrated("buffer of netperf")
            .ours(gain)
            .counter(visits)
            .why("With locks out of the way a message is sooner there by what they took."),
    ]
}

fn cpus() -> Vec<Row> {
    let idle = |name: &'static str| move |runs: &Runs| runs.of(name).number("idle");
    let busy = |name: &'static str| move |runs: &Runs| SOCKETS * runs.of(name).number("busy CPUs");
    let counter = move |runs: &Runs| {
        format!("CPUs that are not idle: {:.1}, then {:.1}", busy(SHORT)(runs), busy(LONG)(runs))
    };
    let why = "Each turn begins with a wake-up, and a pair has one thread at work at a time.";
    vec![
        Row::profile("SCTP, short lists: idle", Unit::Percent, Expected::One(73.05))
            .calibrated("wake")
            .ours(idle(SHORT))
            .counter(counter)
            .why(why),
        Row::profile("SCTP, long lists: idle", Unit::Percent, Expected::One(63.73))
            .ours(idle(LONG))
            .from(73.05, idle(SHORT))
            .counter(counter)
            .why(why)
            .lacks(IDLE),
        Row::profile("SCTP, long lists: tasks on CPUs", Unit::Count, Expected::One(45.6))
            .ours(busy(LONG))
            .from(34.1, busy(SHORT))
            .counter(counter)
            .why(why)
            .lacks(IDLE),
    ]
}

/// 8492875 kB less 5479861 kB.
fn memory() -> Row {
    Row::profile("SCTP, memory that long lists take more, in GB", Unit::Count, Expected::One(3.09))
        .ours(|runs| listed(runs, LONG) - listed(runs, SHORT))
        .counter(lists)
        .why(
            "Senders and receivers come to one CPU after the other, so each list swings as far as \
             chance takes it.",
        )
        .lacks("a scheduler that leaves threads where they are for as long as the kernel's does")
}

fn latencies() -> Vec<Row> {
    let p99 =
        |name: &'static str, what: &'static str| move |runs: &Runs| p99_us(runs.of(name), what);
    let row = |name: &str, what: &'static str, short: f64, long: f64| {
        let title = |lists: &str| format!("SCTP, {lists} lists: p99 of {name}");
        [
            Row::profile(title("short"), Unit::Us, Expected::One(short))
                .ours(p99(SHORT, what))
                .counter(visits)
                .why("One buffer of 63 goes to the zone, waits, and pays for a batch.")
                .lacks(AT_ONCE),
            Row::profile(title("long"), Unit::Us, Expected::One(long))
                .ours(p99(LONG, what))
                .from(short, p99(SHORT, what))
                .counter(visits)
                .why("Fewer than one of 100 wait for the zone.")
                .lacks(FLOOR),
        ]
    };
    let allocation = row("an allocation", "allocation", 4.28, 2.21);
    allocation.into_iter().chain(row("a free", "freeing", 4.11, 0.87)).collect()
}

pub fn beyond() -> Beyond {
    let step =
        |name, why, run: &'static str| Step::new(name, why, move |runs| mbit_per_s(runs, run));
    Beyond {
        figure: "SCTP, Mbit/s of a process",
        unit: Unit::Count,
        better: Better::Higher,
        steps: vec![
            step("lists of Linux before 6.7", "they keep 252 pages", SHORT),
            step("lists that follow the depth", "the RFC, in its third second", LONG),
            step(
                "vm.percpu_pagelist_high_fraction=8",
                "on old kernels: all lists may have 65536 pages at once, and for ever",
                BOUND,
            ),
            step("event-tuned lists", "they are long enough after the first pass", EVENTS),
            step(
                "home of a pair on one CPU, with short lists",
                "what one thread frees the other one allocates, and nobody waits for a wake-up",
                TOGETHER,
            ),
        ],
        goal: Goal { figure: 8489.0, what: "the seed's with longer lists" },
    }
}
