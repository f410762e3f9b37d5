//! Rows of netperf's SCTP_STREAM_MANY over the loopback device.

use super::drivers::{after_start, after_two_periods, rate};
use super::tuning::{TUNING, with_depth};
use crate::reproduce::figure_table::{
    Better, Expected, FigureRow, FigureUnit, Improvement, ImprovementGoal, ImprovementStep,
};
use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

const SHORT: &str = "SCTP";
const LONG: &str = "SCTP, depth";
const BOUND: &str = "SCTP, lists at their bound";
const EVENTS: &str = "SCTP, events";
const TOGETHER: &str = "SCTP, threads together";
/// Sockets of the seed's machine, of which one is simulated.
const SOCKETS: f64 = 2.0;
/// Processes per socket.
const PAIRS: f64 = 32.0;
/// Bits per message; a run with twice that exists, too.
const MESSAGE_BITS: f64 = 16384.0 * 8.0;

pub fn runs() -> Vec<ScenarioRun> {
    let run = |name| ScenarioRun::new(name, "loopback");
    vec![
        run(SHORT).driven_by(after_start),
        with_depth(run(LONG)).with_override("time", "3s").driven_by(after_two_periods),
        // 128 GiB / 4 KiB / 8 / 64 CPUs
        run(BOUND).with_override("machine.pcp-high", "65536").driven_by(after_start),
        run(EVENTS).with_override(TUNING, "events").driven_by(after_start),
        run(TOGETHER).with_override("workload.netperf.together", "true").driven_by(after_start),
    ]
}

/// Returns the rate of a process, in megabits per second.
fn mbit_per_s(runs: &RunOutcomes, name: &str) -> f64 {
    rate(runs.of(name), "netperf") / PAIRS * MESSAGE_BITS / 1e6
}

/// Returns the 99th percentile of the time of allocations, or frees, in microseconds.
fn p99_us(outcome: &RunOutcome, what: &str) -> f64 {
    outcome.report.latencies.get(what).map_or(0.0, |all| all.p99_ns as f64 / 1e3)
}

/// Returns the wake-ups of CPUs in a deep idle state, in per cent of all.
fn deep_share(outcome: &RunOutcome) -> f64 {
    let all = outcome.report.latencies.get("wake-up").map_or(0, |wakes| wakes.count);
    100.0 * outcome.counter("deep_wakes") / all.max(1) as f64
}

fn visits(runs: &RunOutcomes) -> String {
    let told = [SHORT, LONG].map(|name| {
        let of = runs.of(name);
        let messages = rate(of, "netperf") * of.number("seconds");
        format!("{:.1}", 100.0 * of.counter("zone_visits") / messages.max(1.0))
    });
    format!("zone_visits: {} for 100 messages, then {}", told[0], told[1])
}

fn listed(runs: &RunOutcomes, name: &str) -> f64 {
    SOCKETS * runs.of(name).number("listed GB")
}

fn lists(runs: &RunOutcomes) -> String {
    let told = [SHORT, LONG, EVENTS, TOGETHER].map(|name| listed(runs, name));
    let [short, long, events, together] = told;
    format!("{short:.2} GB, then {long:.2}; Linux 6.7 {events:.2}, threads together {together:.2}")
}

pub fn rows() -> Vec<FigureRow> {
    throughput().into_iter().chain(cpus()).chain([memory()]).chain(latencies()).collect()
}

fn throughput() -> Vec<FigureRow> {
    let why = "\
        Threads take turns, so what a message waits for in the allocator counts in full; and who \
        waits for less long sleeps less deeply.";
    let mbit = |name: &'static str| move |runs: &RunOutcomes| mbit_per_s(runs, name);
    let gain =
        |runs: &RunOutcomes| 100.0 * (mbit_per_s(runs, LONG) / mbit_per_s(runs, SHORT) - 1.0);
    vec![
        FigureRow::headline(
            "SCTP, short lists: Mbit/s of a process",
            FigureUnit::Count,
            Expected::One(7136.0),
        )
        .calibrated("cpu-time of netperf")
        .ours(mbit(SHORT))
        .counter(visits)
        .why(why),
        FigureRow::headline(
            "SCTP, long lists: Mbit/s of a process",
            FigureUnit::Count,
            Expected::One(8489.0),
        )
        .ours(mbit(LONG))
        .from(7136.0, mbit(SHORT))
        .counter(visits)
        .why(why),
        FigureRow::profile(
            "SCTP, the gain of long lists",
            FigureUnit::Percent,
            Expected::One(19.0),
        )
        .ours(gain)
        .counter(visits)
        .why("With locks out of the way a message is sooner there, and so is its reader."),
    ]
}

fn cpus() -> Vec<FigureRow> {
    let idle = |name: &'static str| move |runs: &RunOutcomes| runs.of(name).number("idle");
    let busy =
        |name: &'static str| move |runs: &RunOutcomes| SOCKETS * runs.of(name).number("busy CPUs");
    let counter = move |runs: &RunOutcomes| {
        let deep = [SHORT, LONG].map(|name| deep_share(runs.of(name)));
        let wakes = format!("{:.0} % of wake-ups are deep, then {:.0} %", deep[0], deep[1]);
        format!("{:.1} CPUs at work, then {:.1}; {wakes}", busy(SHORT)(runs), busy(LONG)(runs))
    };
    let why = "\
        A pair has one thread at work at a time, and each turn begins with a wake-up: of a CPU \
        that was idle for a turn of the other thread, and deeply so if that had to wait for locks.";
    vec![
        FigureRow::profile("SCTP, short lists: idle", FigureUnit::Percent, Expected::One(73.05))
            .calibrated("wake")
            .ours(idle(SHORT))
            .counter(counter)
            .why(why),
        FigureRow::profile("SCTP, long lists: idle", FigureUnit::Percent, Expected::One(63.73))
            .calibrated("deep-after")
            .ours(idle(LONG))
            .from(73.05, idle(SHORT))
            .counter(counter)
            .why(why),
        FigureRow::profile(
            "SCTP, long lists: tasks on CPUs",
            FigureUnit::Count,
            Expected::One(45.6),
        )
        .ours(busy(LONG))
        .from(34.1, busy(SHORT))
        .counter(counter)
        .why(why),
    ]
}

/// 8492875 kB less 5479861 kB.
fn memory() -> FigureRow {
    FigureRow::profile(
        "SCTP, memory that long lists take more, in GB",
        FigureUnit::Count,
        Expected::One(3.09),
    )
    .ours(|runs| listed(runs, LONG) - listed(runs, SHORT))
    .counter(lists)
    .why(
        "Senders and receivers come to one CPU after the other, so each list swings as far as \
             chance takes it, or until runs drain it.",
    )
}

fn latencies() -> Vec<FigureRow> {
    let row = |title: &str, name: &'static str, what: &'static str, seed, why| {
        FigureRow::profile(format!("SCTP, {title}"), FigureUnit::Us, Expected::One(seed))
            .ours(move |runs| p99_us(runs.of(name), what))
            .counter(visits)
            .why(why)
    };
    let p99 = |what: &'static str| move |runs: &RunOutcomes| p99_us(runs.of(SHORT), what);
    let (takes, gives) = ("allocation", "freeing");
    vec![
        row("short lists: p99 of an allocation", SHORT, takes, 4.28, {
            "One run of 7 comes from the zone, waits for its lock, and pays for 7."
        }),
        row("long lists: p99 of an allocation", LONG, takes, 2.21, {
            "More than one of 100 come from the zone still, but nobody is there to wait for."
        })
        .from(4.28, p99(takes)),
        row("short lists: p99 of a free", SHORT, gives, 4.11, {
            "A list that gave back passes on each run that it gets, until somebody allocates there."
        }),
        row("long lists: p99 of a free", LONG, gives, 0.87, {
            "Lists seldom give back, so fewer runs go on to the zone, and the tracer is most of it."
        })
        .from(4.11, p99(gives))
        .calibrated("probe"),
    ]
}

pub fn beyond() -> Improvement {
    let step = |name, why, run: &'static str| {
        ImprovementStep::new(name, why, move |runs| mbit_per_s(runs, run))
    };
    Improvement {
        figure: "SCTP, Mbit/s of a process",
        unit: FigureUnit::Count,
        better: Better::Higher,
        steps: vec![
            step("lists of Linux before 6.7", "they keep 252 pages", SHORT),
            step("lists that follow the depth", "the RFC, in its third second", LONG),
            step(
                "vm.percpu_pagelist_high_fraction=8",
                "on old kernels: all lists may have 65536 pages at once, and for ever",
                BOUND,
            ),
            step(
                "event-tuned lists",
                "those of Linux 6.7 pass on whole batches where others pass on single runs",
                EVENTS,
            ),
            step(
                "home of a pair on one CPU, with short lists",
                "what one thread frees the other one allocates, and nobody waits for a wake-up",
                TOGETHER,
            ),
        ],
        goal: ImprovementGoal { figure: 8489.0, what: "the seed's with longer lists" },
    }
}
