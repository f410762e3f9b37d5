//! Rows on the time that a zone's lock is held for a batch, as commit 52166607ecc9 of Linux states
//! it for two machines.

use crate::reproduce::figure_table::{Expected, FigureRow, FigureUnit};
use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

const SAPPHIRE: &[ZoneBatch] = &[
    batch(63, "Sapphire Rapids, 63", 2.33, 2.67),
    batch(127, "Sapphire Rapids, 127", 4.35, 4.22),
    batch(255, "Sapphire Rapids, 255", 8.29, 7.52),
    batch(511, "Sapphire Rapids, 511", 15.79, 14.02),
    batch(1023, "Sapphire Rapids, 1023", 30.25, 25.36),
    batch(2047, "Sapphire Rapids, 2047", 59.39, 45.22),
];
const ICE: &[ZoneBatch] = &[
    batch(63, "Ice Lake, 63", 2.21, 2.02),
    batch(127, "Ice Lake, 127", 4.09, 3.51),
    batch(511, "Ice Lake, 511", 14.85, 11.66),
    batch(2047, "Ice Lake, 2047", 56.54, 39.28),
];
/// Largest batch that parameters were fitted on.
const FITTED_MAX: u32 = 127;

pub fn runs() -> Vec<ScenarioRun> {
    let sapphire = SAPPHIRE
        .iter()
        .map(|batch| run("page-fault", batch).with_override("workload.page_fault1.processes", "1"));
    let ice = ICE.iter().map(|batch| {
        let run = run("loopback", batch).with_override("workload.netperf.processes", "1");
        let run = run.with_override("workload.netperf.under-way", "1000");
        run.with_override("workload.netperf.message", "4KiB")
            .with_override("workload.netperf.buffer", "4KiB")
    });
    sapphire.chain(ice).collect()
}

fn take_us(of: &RunOutcome) -> f64 {
    of.counter("zone_refill_held_ns") / of.counter("zone_refills").max(1.0) / 1e3
}

fn give_us(of: &RunOutcome) -> f64 {
    let held_ns = of.counter("zone_held_ns") - of.counter("zone_refill_held_ns");
    held_ns / (of.counter("zone_visits") - of.counter("zone_refills")).max(1.0) / 1e3
}

fn counter(run: &'static str) -> impl Fn(&RunOutcomes) -> String {
    move |runs| {
        let (visits, held) = ("zone_visits", "zone_held_ns");
        let of = runs.of(run);
        format!("{visits} {:.0}, {held} {:.0}", of.counter(visits), of.counter(held))
    }
}

fn row(
    of: &ZoneBatch,
    what: &str,
    us: f64,
    figure: fn(&RunOutcome) -> f64,
    fitted: [&'static str; 2],
) -> FigureRow {
    let (name, run) = (format!("{} pages {what}", of.run), of.run);
    let row = match of.pages {
        ..=FITTED_MAX => {
            let parameter = fitted[usize::from(of.pages == FITTED_MAX)];
            FigureRow::profile(name, FigureUnit::Us, Expected::One(us)).calibrated(parameter)
        }
        _ => FigureRow::hold_out(name, FigureUnit::Us, Expected::One(us)),
    };
    row.ours(move |runs| figure(runs.of(run)))
        .counter(counter(run))
        .why("A visit has a time of its own, and one for each page.")
}

pub fn rows() -> Vec<FigureRow> {
    let both = |of: &ZoneBatch| {
        [
            row(of, "given back", of.give_us, give_us, ["zone-visit", "zone-hold"]),
            row(of, "taken", of.take_us, take_us, ["zone-refill-visit", "zone-refill"]),
        ]
    };
    let tails =
        [("given back", 84.50, give_us as fn(&RunOutcome) -> f64), ("taken", 140.81, take_us)];
    let tails = tails.map(|(what, us, figure)| {
        let run = SAPPHIRE[SAPPHIRE.len() - 1].run;
        FigureRow::hold_out(format!("{run} pages {what}, p99"), FigureUnit::Us, Expected::One(us))
            .ours(move |runs| figure(runs.of(run)))
            .counter(counter(run))
            .why("A batch always takes the same time here.")
            .lacks(
                "misses, splits and merges of blocks that are dearer in one batch than in another",
            )
    });
    SAPPHIRE.iter().chain(ICE).flat_map(both).chain(tails).collect()
}

/// A batch: its size, the run, and microseconds to return it and to take it.
struct ZoneBatch {
    pages: u32,
    run: &'static str,
    give_us: f64,
    take_us: f64,
}

const fn batch(pages: u32, run: &'static str, give_us: f64, take_us: f64) -> ZoneBatch {
    ZoneBatch { pages, run, give_us, take_us }
}

/// Returns a run with lists of two batches, so that each batch is transferred as a whole.
fn run(scenario: &'static str, batch: &ZoneBatch) -> ScenarioRun {
    ScenarioRun::new(batch.run, scenario)
        .with_override("machine.pcp-batch", &batch.pages.to_string())
        .with_override("machine.pcp-high", &(2 * batch.pages).to_string())
        .with_override("time", "500ms")
}
