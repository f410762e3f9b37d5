//! Table "zen3": move rates that others measured on Zen 3. Parameters are fitted to some rows,
//! never to hold-outs.

use super::move_figures::{gb_per_s, step_percent};
use crate::reproduce::figure_table::{
    Better, DocumentTable, Expected, FigureRow, FigureUnit, Fitted, Improvement, ImprovementGoal,
    ImprovementStep,
};
use crate::reproduce::mover_runs;
use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

/// The action that moves; an exchange also has one that moves in the opposite direction.
const MOVE: usize = 0;
const BACK: usize = 1;

/// Measured folio sizes, as scenarios write them.
const SIZES: [&str; 6] = ["base", "16KiB", "64KiB", "256KiB", "1MiB", "huge"];

const COPIERS: [CopierFigures; 5] = [
    CopierFigures {
        label: "1 thread",
        run_names: ["1t 4K", "1t 16K", "1t 64K", "1t 256K", "1t 1M", "1t 2M"],
        set: ("machine.copiers", "1"),
        gb_per_s: [3.73, 5.53, 5.90, 6.50, 6.92, 10.67],
        fitted: [Some("unmap"), None, Some("unmap-page"), None, None, Some("copy")],
        why: "A folio costs something, each of its entries too, and a huge page has one entry.",
    },
    CopierFigures {
        label: "4 threads",
        run_names: ["4t 4K", "4t 16K", "4t 64K", "4t 256K", "4t 1M", "4t 2M"],
        set: ("machine.copiers", "4"),
        gb_per_s: [4.72, 8.41, 10.08, 10.45, 12.38, 31.41],
        fitted: [None; 6],
        why: "Only the copy is shared: the fewer entries there are, the more threads help.",
    },
    CopierFigures {
        label: "16 threads",
        run_names: ["16t 4K", "16t 16K", "16t 64K", "16t 256K", "16t 1M", "16t 2M"],
        set: ("machine.copiers", "16"),
        gb_per_s: [4.77, 8.95, 10.36, 11.58, 13.00, 35.89],
        fitted: [None; 6],
        why: "What is left are entries, or memory that is fetched before it is written.",
    },
    CopierFigures {
        label: "1 channel",
        run_names: ["1c 4K", "1c 16K", "1c 64K", "1c 256K", "1c 1M", "1c 2M"],
        set: ("machine.dma-channels", "1"),
        gb_per_s: [2.75, 2.86, 3.28, 5.03, 4.78, 12.50],
        fitted: [Some("dma"), None, None, None, None, None],
        why: "A channel copies slower than a thread does.",
    },
    CopierFigures {
        label: "16 channels",
        run_names: ["16c 4K", "16c 16K", "16c 64K", "16c 256K", "16c 1M", "16c 2M"],
        set: ("machine.dma-channels", "16"),
        gb_per_s: [4.61, 9.08, 11.14, 13.69, 15.44, 63.69],
        fitted: [None; 6],
        why: "They write past the caches, so that what is left are entries, or memory and link.",
    },
];

const THREADS: [&str; 5] = ["1", "2", "4", "8", "16"];

const PLACES: [SpreadFigures; 2] = [
    SpreadFigures {
        label: "spread over complexes",
        run_names: ["spread 1", "spread 2", "spread 4", "spread 8", "spread 16"],
        choice: "complexes",
        gb_per_s: [10.6, 17.2, 29.9, 37.1, 36.2],
        fitted: [None, None, None, None, Some("bandwidth")],
        why: "Each complex brings its own way to memory, until memory itself is full.",
    },
    SpreadFigures {
        label: "one complex first",
        run_names: ["packed 1", "packed 2", "packed 4", "packed 8", "packed 16"],
        choice: "cores",
        gb_per_s: [10.4, 10.9, 11.0, 11.1, 17.9],
        fitted: [None, None, None, Some("complex-bandwidth"), None],
        why: "One thread nearly fills the way of a complex, so more of them bring nothing.",
    },
];

/// 4 GiB are 2048 huge pages, or 128 times sixteen.
const ONE: f64 = 2048.0;
const SIXTEEN: f64 = 128.0;

const SIBLINGS: [SiblingFigure; 4] = [
    SiblingFigure {
        name: "2017: a huge page, 1 thread",
        run: "one, 1 thread",
        gb_per_s: 3.0,
        fitted: Some("copy"),
        calls: ONE,
        why: "The copy by one thread, and a call for each page.",
    },
    SiblingFigure {
        name: "2017: a huge page, 8 threads",
        run: "one, 8 threads",
        gb_per_s: 8.6,
        fitted: None,
        calls: ONE,
        why: "Only the copy gets shorter: the call, the page's entry and the dispatch stay.",
    },
    SiblingFigure {
        name: "2017: 16 huge pages at a time, 8 threads",
        run: "sixteen, 8 threads",
        gb_per_s: 14.4,
        fitted: None,
        calls: SIXTEEN,
        why: "Two whole pages for each thread; memory that fetches what it writes is full.",
    },
    SiblingFigure {
        name: "2017: 16 huge pages at a time, 16 channels",
        run: "sixteen, 16 channels",
        gb_per_s: 11.0,
        fitted: Some("dma"),
        calls: SIXTEEN,
        why: "What the copy engine can copy.",
    },
];

/// Fixed cost of a call: the parameter `move-call`.
const CALL_US: f64 = 60.0;

/// The table.
pub fn table() -> DocumentTable {
    DocumentTable {
        name: "zen3",
        title: "Figures of others",
        about: "Move_pages(2) of 1 GiB between two Zen 3 sockets of 32 cores with patches of 2025: \
            by size of folio, number of threads, channels of a copy engine, and place of the \
            threads; and the series of 2017 beside the first seed on two E5-2640v3. Complexes are \
            taken to have 8 cores. Parameters were fitted on the rows that are named below, and \
            on no hold-out; but all rows lay in view meanwhile, and memory, complexes, the copy \
            engine and what lies between `copy` and those rows (misses under way, lines that are \
            fetched before they are written) were tried until the topology test, too, came out \
            near: hold-outs of Zen 3 are no blind predictions. Huge pages are moved for longer \
            than the seed did, until pipes are steady.",
        runs: runs(),
        fitted: fitted(),
        rows: rows(),
        beyond: Some(beyond()),
    }
}

/// A row of the table of 2025: a copy method, and its rate for each folio size.
struct CopierFigures {
    label: &'static str,
    /// Names of the runs, by size.
    run_names: [&'static str; 6],
    set: (&'static str, &'static str),
    gb_per_s: [f64; 6],
    /// Parameter fitted on each size, if any.
    fitted: [Option<&'static str>; 6],
    why: &'static str,
}

/// A column of the topology test of 2025: the placement of threads, and their copy rates.
struct SpreadFigures {
    label: &'static str,
    run_names: [&'static str; 5],
    choice: &'static str,
    gb_per_s: [f64; 5],
    fitted: [Option<&'static str>; 5],
    why: &'static str,
}

/// A figure of the series of 2017 beside the first seed, on E5-2640v3.
struct SiblingFigure {
    name: &'static str,
    run: &'static str,
    gb_per_s: f64,
    fitted: Option<&'static str>,
    /// Number of calls that the figure includes.
    calls: f64,
    why: &'static str,
}

/// Returns a run with folios of a size; huge pages are so fast that more of them are needed.
fn zen3(name: &'static str, pages: &str) -> ScenarioRun {
    let run = ScenarioRun::new(name, "zen3").with_override("workload.folios.pages", pages);
    match pages {
        "huge" => {
            let more = run.with_override("workload.folios.memory", "16GiB");
            more.with_override("action.0.at", "4s").with_override("time", "8s")
        }
        _ => run,
    }
}

fn runs() -> Vec<ScenarioRun> {
    let mut runs = Vec::new();
    for CopierFigures { run_names: names, set: (key, value), .. } in COPIERS {
        let sizes = names.into_iter().zip(SIZES);
        runs.extend(sizes.map(|(name, size)| zen3(name, size).with_override(key, value)));
    }
    for SpreadFigures { run_names: names, choice, .. } in PLACES {
        let threads = names.into_iter().zip(THREADS);
        runs.extend(threads.map(|(name, threads)| {
            let run = zen3(name, "huge").with_override("machine.copier-choice", choice);
            run.with_override("machine.copiers", threads).with_override("machine.batch", "512")
        }));
    }
    let sibling = |name| ScenarioRun::new(name, "exchange-2017");
    let sixteen = |name| sibling(name).with_override("machine.batch", "8192");
    let lanes = |name| {
        zen3(name, "base")
            .with_override("action.0.at", "1100ms")
            .with_override("machine.batch", "512")
    };
    runs.extend([
        sibling("one, 1 thread"),
        sibling("one, 8 threads").with_override("machine.copiers", "8"),
        sixteen("sixteen, 8 threads").with_override("machine.copiers", "8"),
        sixteen("sixteen, 16 channels").with_override("machine.dma-channels", "16"),
        sixteen("exchange")
            .with_override("machine.copiers", "8")
            .with_override("action.1.at", "2s"),
        lanes("lane").driven_by(mover_runs::move_with_one_worker),
        lanes("lanes").driven_by(mover_runs::move_with_auto_workers),
    ]);
    runs
}

fn fitted() -> Vec<Fitted> {
    let of = |parameter, value, on| Fitted { parameter, value, on };
    vec![
        of("unmap", "140 ns a folio, and 80 to map it", "base pages, 1 thread"),
        of("unmap-page", "140 ns an entry, and 140 to map it", "folios of 64KiB, 1 thread"),
        of("copy", "10.95 GB/s", "huge pages, 1 thread"),
        of("dma", "5.3 GB/s", "base pages, 1 channel"),
        of("bandwidth", "66 GB/s", "16 threads, spread over complexes"),
        of("complex-bandwidth", "32 GB/s", "8 threads, one complex first"),
        of("copy", "3.4 GB/s", "2017: a huge page, 1 thread"),
        of("dma", "750 MB/s", "2017: 16 huge pages at a time, 16 channels"),
    ]
}

fn rows() -> Vec<FigureRow> {
    let sizes =
        COPIERS.iter().flat_map(|copiers| (0..SIZES.len()).map(|at| copier_row(copiers, at)));
    let places =
        PLACES.iter().flat_map(|places| (0..THREADS.len()).map(|at| spread_row(places, at)));
    let siblings = SIBLINGS.iter().map(sibling_row);
    sizes.chain(places).chain(siblings).chain([exchange()]).collect()
}

/// Returns a hold-out row, or a calibrated one if a parameter was fitted on it.
fn row(name: String, gb_per_s: f64, fitted: Option<&'static str>) -> FigureRow {
    let expected = Expected::One(gb_per_s);
    match fitted {
        Some(parameter) => {
            FigureRow::profile(name, FigureUnit::GbPerS, expected).calibrated(parameter)
        }
        None => FigureRow::hold_out(name, FigureUnit::GbPerS, expected),
    }
}

/// Returns the shares of unmap, copy and map in the time of a run.
fn parts(run: &'static str) -> impl Fn(&RunOutcomes) -> String + Send + Sync + 'static {
    move |runs| {
        let percent = |step| step_percent(runs.of(run), MOVE, &[step]);
        let [unmap, copy, map] = ["unmap", "copy", "map"].map(percent);
        format!("unmap {unmap:.0}, copy {copy:.0}, map {map:.0} %")
    }
}

fn copier_row(copiers: &CopierFigures, at: usize) -> FigureRow {
    let size = match SIZES[at] {
        "base" => "base pages".to_owned(),
        "huge" => "huge pages".to_owned(),
        size => format!("folios of {size}"),
    };
    let run = copiers.run_names[at];
    let row = row(format!("{size}, {}", copiers.label), copiers.gb_per_s[at], copiers.fitted[at])
        .ours(move |runs| gb_per_s(runs.of(run), MOVE, 0.0, 0.0))
        .counter(parts(run))
        .why(copiers.why);
    match copiers.label {
        "1 channel" => row.lacks(
            "what makes a channel faster with large pieces: it copies any at one rate, fitted on \
                base pages",
        ),
        _ => row,
    }
}

fn spread_row(places: &SpreadFigures, at: usize) -> FigureRow {
    let run = places.run_names[at];
    let plural = if THREADS[at] == "1" { "" } else { "s" };
    let name = format!("{} thread{plural}, {}", THREADS[at], places.label);
    row(name, places.gb_per_s[at], places.fitted[at])
        .ours(move |runs| gb_per_s(runs.of(run), MOVE, 0.0, 0.0))
        .counter(parts(run))
        .why(places.why)
}

fn sibling_row(sibling: &SiblingFigure) -> FigureRow {
    let (run, calls) = (sibling.run, sibling.calls);
    row(sibling.name.to_owned(), sibling.gb_per_s, sibling.fitted)
        .ours(move |runs| gb_per_s(runs.of(run), MOVE, calls - 1.0, CALL_US))
        .counter(parts(run))
        .why(sibling.why)
        .lacks(
            "how fast memory fills: it is known to be full after a millisecond, and a huge page is \
                copied by then",
        )
}

/// Returns the row of two simultaneous moves in opposite directions.
fn exchange() -> FigureRow {
    let ms = |runs: &RunOutcomes| {
        let outcome = runs.of("exchange");
        let [there, back] = [MOVE, BACK].map(|action| outcome.move_ms(action));
        there.max(back) + SIXTEEN * CALL_US / 1e3
    };
    let bytes = |runs: &RunOutcomes| {
        let outcome = runs.of("exchange");
        [MOVE, BACK]
            .map(|action| super::move_figures::gigabytes(outcome, action))
            .iter()
            .sum::<f64>()
    };
    row("2017: 16 huge pages change places with 16, 8 threads".to_owned(), 17.8, None)
        .ours(move |runs| bytes(runs) * 1e3 / ms(runs))
        .counter(parts("exchange"))
        .why("Both nodes read and write, so each way gets two thirds of what it had alone.")
}

fn beyond() -> Improvement {
    let threads = |run| move |runs: &RunOutcomes| gb_per_s(runs.of(run), MOVE, 0.0, 0.0);
    let moved = |run| {
        move |runs: &RunOutcomes| {
            let outcome = runs.of(run);
            let bytes = outcome.number("pages") * outcome.report.machine.page_bytes as f64;
            bytes / outcome.number("moving_ms") / 1e6
        }
    };
    Improvement {
        figure: "1 GiB of base pages to the other socket",
        unit: FigureUnit::GbPerS,
        better: Better::Higher,
        steps: vec![
            ImprovementStep::new("1 thread", "The kernel.", threads("1t 4K")),
            ImprovementStep::new("16 threads that copy", "The patches of 2025.", threads("16t 4K")),
            ImprovementStep::new(
                "1 worker",
                "nodeward's planned calls on a stock kernel.",
                moved("lane"),
            ),
            ImprovementStep::new(
                "workers",
                "As many as `policy::ramp` finds worth it, on complexes in turn: entries are \
                    changed in parallel, too.",
                moved("lanes"),
            ),
        ],
        goal: ImprovementGoal { figure: 10.0, what: "three times the stock kernel" },
    }
}
