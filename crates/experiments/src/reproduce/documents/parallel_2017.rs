//! Table "2017": parallel page migration.

use nodeward_policy::break_even::BreakEven;

use super::move_figures::{step_percent, step_us};
use crate::reproduce::figure_table::{
    Better, DocumentTable, Expected, FigureRow, FigureUnit, Fitted, Improvement, ImprovementGoal,
    ImprovementStep,
};
use crate::reproduce::mover_runs;
use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

/// The scenario's actions: base pages, then huge ones.
const BASE: usize = 0;
const HUGE: usize = 1;
/// Number of pages of each size.
const BASE_PAGES: f64 = 100_000.0;
const HUGE_PAGES: f64 = 195.0;
/// The seed's `nr_copythreads`.
const THREADS: u32 = 8;

/// The table.
pub fn table() -> DocumentTable {
    DocumentTable {
        name: "2017",
        title: "Parallel page migration (2017)",
        about: "Two E5-2650: 100000 base pages and 195 huge ones go from one socket to the other, \
            by the kernel that splits huge pages, by one that moves them whole, and by one that \
            copies each page with eight threads. The seed's two runs are a spread; of those with \
            threads the slower one is taken for a machine that has other work: sixteen threads on \
            the destination that read and write memory of the source. A pipe that fills at once \
            takes some milliseconds to slow everybody down, which the fit of the link makes up \
            for.",
        runs: runs(),
        fitted: fitted(),
        rows: rows(),
        beyond: Some(beyond()),
    }
}

fn runs() -> Vec<ScenarioRun> {
    let of = |name| ScenarioRun::new(name, "page-migration-2017");
    let batches = |name| of(name).with_override("machine.batch", "512");
    // The mover moves, so the scenario's own actions are delayed until after the run.
    let lanes = |name| {
        let late = batches(name)
            .with_override("action.0.at", "2800ms")
            .with_override("action.1.at", "2800ms");
        late.driven_by(mover_runs::move_with_auto_workers)
    };
    let channels = |run: ScenarioRun| {
        run.with_override("machine.dma-channels", "16").with_override("machine.dma", "750MB/s")
    };
    vec![
        of("splits").with_override("machine.huge-migration", "split"),
        of("whole"),
        of("threads").with_override("machine.copiers", "8"),
        of("threads, busy")
            .with_override("machine.copiers", "8")
            .with_override("workload.other.start", "0"),
        batches("batches"),
        batches("batches, threads").with_override("machine.copiers", "8"),
        lanes("lanes"),
        channels(lanes("lanes, engine")),
    ]
}

fn fitted() -> Vec<Fitted> {
    let of = |parameter, value, on| Fitted { parameter, value, on };
    vec![
        of("unmap", "1.19 us a page, with map and entries", "base pages, split kernel"),
        of("copy", "3.4 GB/s", "huge pages, moved whole"),
        of("dispatch", "1050 ns", "base pages, 8 threads"),
        of("link-bandwidth", "6.5 GB/s", "huge pages, 8 threads, both runs"),
    ]
}

fn rows() -> Vec<FigureRow> {
    let headline = |name, run: &'static str, action, expected| {
        FigureRow::headline(name, FigureUnit::Ms, expected)
            .ours(move |runs| runs.of(run).move_ms(action))
    };
    vec![
        headline("base pages, split kernel", "splits", BASE, Expected::Between(238.0, 247.0))
            .calibrated("unmap")
            .counter(|runs| page_parts(runs.of("splits"), BASE))
            .why("One page after the other: unmap it, copy it with one thread, map it."),
        headline("huge pages, split kernel", "splits", HUGE, Expected::Between(252.0, 257.0))
            .counter(|runs| page_parts(runs.of("splits"), HUGE))
            .why("Each becomes 512 base pages first, so they cost what base pages cost."),
        headline("base pages, whole kernel", "whole", BASE, Expected::Between(262.0, 302.0))
            .counter(|runs| page_parts(runs.of("whole"), BASE))
            .why("Nothing about base pages changed: the seed's difference is that of its runs."),
        headline("huge pages, moved whole", "whole", HUGE, Expected::Between(120.0, 129.0))
            .calibrated("copy")
            .counter(|runs| huge_parts(runs.of("whole")))
            .why("One unmap and one map for 512 pages: what is left is the copy by one thread."),
        headline("base pages, 8 threads", "threads", BASE, Expected::One(1589.0))
            .calibrated("dispatch")
            .counter(|runs| page_parts(runs.of("threads"), BASE))
            .why("Each page is cut in eight, and handing out 512 bytes takes longer than them."),
        headline("base pages, 8 threads, busy", "threads, busy", BASE, Expected::One(1932.0))
            .counter(|runs| switches(runs.of("threads, busy")))
            .why("Helpers interrupt who has their CPU, and the page waits for the last of them."),
        headline("huge pages, 8 threads", "threads", HUGE, Expected::One(54.0))
            .calibrated("link-bandwidth")
            .counter(|runs| huge_parts(runs.of("threads")))
            .why("Eight threads fill the link, and their dispatch is small beside 2 MiB."),
        headline("huge pages, 8 threads, busy", "threads, busy", HUGE, Expected::One(86.0))
            .calibrated("link-bandwidth")
            .counter(|runs| huge_parts(runs.of("threads, busy")))
            .why("Threads on the siblings of the copying CPUs take their part of the link."),
    ]
}

fn page_parts(outcome: &RunOutcome, action: usize) -> String {
    let copy = step_percent(outcome, action, &["copy"]);
    let us = step_us(outcome, action, "copy", BASE_PAGES);
    format!("copy {us:.2} us a page, {copy:.0} % of the time")
}

fn huge_parts(outcome: &RunOutcome) -> String {
    let us = step_us(outcome, HUGE, "copy", HUGE_PAGES);
    format!("copy {us:.0} us a huge page, of {:.0} us", outcome.move_ms(HUGE) * 1e3 / HUGE_PAGES)
}

fn switches(outcome: &RunOutcome) -> String {
    format!("{:.2} M changes of tasks", outcome.counter("switches") / 1e6)
}

fn beyond() -> Improvement {
    let lanes = |run: &'static str| move |runs: &RunOutcomes| runs.of(run).number("moving_ms");
    Improvement {
        figure: "100000 base pages to the other socket",
        unit: FigureUnit::Ms,
        better: Better::Lower,
        steps: vec![
            ImprovementStep::new("8 threads for each page", "What the seed does.", |runs| {
                runs.of("threads").move_ms(BASE)
            }),
            ImprovementStep::new(
                "as many threads as pay",
                "`policy::break_even` finds that a page is copied before it is handed out.",
                |runs| by_threads(runs, 1, ["whole", "threads"]),
            ),
            ImprovementStep::new(
                "batches of 512 pages",
                "One flush and one hand-out for 2 MiB, to as many threads as pay for that.",
                |runs| by_threads(runs, 512, ["batches", "batches, threads"]),
            ),
            ImprovementStep::new(
                "lanes",
                "Workers move whole batches side by side, one to a core near the destination, as \
                    many as `policy::ramp` finds worth it: steps of different batches overlap.",
                lanes("lanes"),
            ),
            ImprovementStep::new(
                "copy engine",
                "Sixteen channels copy for all lanes, as on the machine of the sibling series. The \
                    link is full already, so what is saved is CPU time, and no time.",
                lanes("lanes, engine"),
            ),
        ],
        goal: ImprovementGoal { figure: 238.0, what: "the seed's faster run without threads" },
    }
}

/// Returns the time of the run with the thread count that pays for a number of pages, of those with
/// one and with eight threads. The costs of a hand-over and of a page are measured, as everywhere
/// in nodeward: here on the runs that move page by page.
fn by_threads(runs: &RunOutcomes, pages: u64, [one, eight]: [&str; 2]) -> f64 {
    let [whole, threads] = ["whole", "threads"].map(|run| runs.of(run));
    let lost_ms = threads.move_ms(BASE) - whole.move_ms(BASE);
    let hand_over_ns = lost_ms * 1e6 / BASE_PAGES / f64::from(THREADS);
    let copy_ns = step_us(whole, BASE, "copy", 1.0) * 1e3;
    let measured = BreakEven::measured(hand_over_ns as u64, BASE_PAGES as u64, copy_ns as u64);
    match measured.lanes_for(pages, THREADS) {
        1 => runs.of(one).move_ms(BASE),
        THREADS => runs.of(eight).move_ms(BASE),
        _ => f64::NAN, // no such run: the step would be outside of any tolerance
    }
}
