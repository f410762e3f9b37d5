//! Rows of page_fault1: 56 processes that allocate and free on one socket.

use super::drivers::{after_four_periods, after_start, rate, wait_us, zone_wait_percent};
use super::tuning::{TUNING, with_depth};
use crate::reproduce::figure_table::{Expected, FigureRow, FigureUnit};
use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

const SHORT: &str = "page_fault1";
const LONG: &str = "page_fault1, depth";
const EARLY: &str = "page_fault1, depth, at first";
const EVENTS: &str = "page_fault1, events, at first";

pub fn runs() -> Vec<ScenarioRun> {
    let run = |name| ScenarioRun::new(name, "page-fault");
    vec![
        run(SHORT).driven_by(after_start),
        with_depth(run(LONG)).with_override("time", "10s").driven_by(after_four_periods),
        with_depth(run(EARLY)).with_override("time", "2s"),
        run(EVENTS).with_override(TUNING, "events").with_override("time", "2s"),
    ]
}

fn gb_per_s(outcome: &RunOutcome) -> f64 {
    rate(outcome, "page_fault1") * 4096.0 / 1e9
}

fn counter(of: &RunOutcome) -> String {
    let pages = of.counter("faulted_pages") / of.counter("zone_visits").max(1.0);
    format!("zone_visits: one for {pages:.0} pages; each waits {:.1} us", wait_us(of))
}

fn at_first(runs: &RunOutcomes) -> String {
    let [depth, events] = [EARLY, EVENTS].map(|name| zone_wait_percent(runs.of(name)));
    format!("zone_waited_ns of the first 2 s: {depth:.1} %; with lists of Linux 6.7 {events:.2} %")
}

pub fn rows() -> Vec<FigureRow> {
    vec![
        FigureRow::headline(
            "page_fault1, lists of 370 pages",
            FigureUnit::GbPerS,
            Expected::One(34.3),
        )
        .calibrated("zone-handoff")
        .ours(|runs| gb_per_s(runs.of(SHORT)))
        .counter(|runs| counter(runs.of(SHORT)))
        .why(
            "Lists give out at once what they have, so the zone's lock decides, and it is held \
                 for 119 ns a page.",
        ),
        FigureRow::headline(
            "page_fault1, lists that follow the depth",
            FigureUnit::GbPerS,
            Expected::One(75.0),
        )
        .calibrated("fault")
        .ours(|runs| gb_per_s(runs.of(LONG)))
        .from(34.3, |runs| gb_per_s(runs.of(SHORT)))
        .counter(|runs| counter(runs.of(LONG)))
        .why("Lists hold all that a process frees until it allocates it again."),
        FigureRow::profile("page_fault1 waits for the lock, short lists", FigureUnit::Percent, {
            Expected::One(60.9)
        })
        .ours(|runs| zone_wait_percent(runs.of(SHORT)))
        .counter(|runs| counter(runs.of(SHORT)))
        .why("56 processes need the lock 2.3 times as often as it can be had."),
        FigureRow::profile("page_fault1 waits for the lock, what is left", FigureUnit::Percent, {
            Expected::One(0.2)
        })
        .ours(|runs| zone_wait_percent(runs.of(LONG)))
        .from(60.9, |runs| zone_wait_percent(runs.of(SHORT)))
        .counter(at_first)
        .why("What lists lack of the depth halves with each second, from the fifth to the tenth."),
    ]
}
