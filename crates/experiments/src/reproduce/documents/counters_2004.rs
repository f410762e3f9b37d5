//! Table "2004": migration by hardware counters.

use anyhow::Result;
use nodeward_scenario::Scenario;

use crate::reproduce::counter_driven::{self, CounterStrategy, PageSearch, PageSelector};
use crate::reproduce::figure_table::{
    Better, DocumentTable, Expected, FigureRow, FigureUnit, Fitted, Improvement, ImprovementGoal,
    ImprovementStep,
};
use crate::reproduce::page_search::LoopOrder;
use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

/// Counting interval. For the seed a page is worth its move from about 1000 misses on, and with all
/// memory spread each of its 128 lines is missed every 0.32 s.
const PERIOD_NS: u64 = 2_500_000_000;
/// Time to read counters and decide: the mail says 1 to 2 s.
const READING_NS: u64 = 1_500_000_000;
/// Time lost because of faulty node controllers: the mail says about 10 s.
const FAULTY_NS: u64 = 10_000_000_000;
/// Pages in 750 MB, of 1024 times 1024 bytes.
const PAGES: f64 = 750.0 * 1_048_576.0 / 16_384.0;

const AS_POSTED: CounterStrategy = CounterStrategy {
    period_ns: PERIOD_NS,
    selector: PageSelector::MostUsed,
    search: PageSearch::List(LoopOrder::ListInside),
    reported_overhead_ns: READING_NS + FAULTY_NS,
    workers: 1,
};

/// The table.
pub fn table() -> DocumentTable {
    DocumentTable {
        name: "2004",
        title: "Migration by hardware counters (2004)",
        about: "An OpenMP program of 1 GB on 16 CPUs of four nodes of Itanium 2. Memory is placed \
            by hand, or spread over all nodes; then pages go where 2048 counters a node say, by \
            the posted call, which compares each page table entry with each address of a list. \
            What counters and faulty controllers take is given by the mail, the search comes from \
            a model of the caches. Calls do not hold a lock that faults wait for.",
        runs: runs(),
        fitted: vec![
            Fitted { parameter: "lines a CPU", value: "195.9 M", on: "random or round robin" },
            Fitted { parameter: "workload.openmp.compute", value: "223 ns", on: "placed by hand" },
        ],
        rows: rows(),
        beyond: Some(beyond()),
    }
}

fn runs() -> Vec<ScenarioRun> {
    let run = |name| ScenarioRun::new(name, "wide-2004");
    let without = |name| run(name).with_override("machine.counter-entries", "0");
    // A tool without overhead: neither calls nor pages cost anything.
    let free =
        ["unmap", "unmap-page", "map", "map-page", "move-call", "broadcast", "broadcast-wait"];
    let zero =
        free.iter().fold(run("zero"), |run, key| run.with_override(&format!("machine.{key}"), "0"));
    let zero = zero
        .with_override("machine.copy", "1000000GB/s")
        .with_override("machine.copy-parallel", "128000");
    vec![
        without("by-hand")
            .with_override("workload.openmp.place", "first-touch")
            .driven_by(counter_driven::run_unmoved),
        without("spread").driven_by(counter_driven::run_unmoved),
        zero.driven_by(run_without_overhead),
        run("real").driven_by(run_as_posted),
        run("inverted").driven_by(run_inverted_loops),
        run("set").driven_by(run_set_lookup),
        run("addresses").driven_by(run_virtual_addresses),
        run("sound").driven_by(run_sound_controllers),
        run("hot").driven_by(run_hot_pages),
        run("lanes").driven_by(run_four_workers),
        without("next-touch").driven_by(counter_driven::run_next_touch),
    ]
}

fn run_without_overhead(scenario: &Scenario) -> Result<RunOutcome> {
    counter_driven::run_counter_driven(
        scenario,
        CounterStrategy {
            search: PageSearch::VirtualAddresses,
            reported_overhead_ns: 0,
            ..AS_POSTED
        },
    )
}

fn run_as_posted(scenario: &Scenario) -> Result<RunOutcome> {
    counter_driven::run_counter_driven(scenario, AS_POSTED)
}

fn run_inverted_loops(scenario: &Scenario) -> Result<RunOutcome> {
    counter_driven::run_counter_driven(
        scenario,
        CounterStrategy { search: PageSearch::List(LoopOrder::EntriesInside), ..AS_POSTED },
    )
}

fn run_set_lookup(scenario: &Scenario) -> Result<RunOutcome> {
    counter_driven::run_counter_driven(
        scenario,
        CounterStrategy { search: PageSearch::Set, ..AS_POSTED },
    )
}

fn run_virtual_addresses(scenario: &Scenario) -> Result<RunOutcome> {
    counter_driven::run_counter_driven(
        scenario,
        CounterStrategy { search: PageSearch::VirtualAddresses, ..AS_POSTED },
    )
}

/// As `addresses`, with working controllers.
const SOUND: CounterStrategy = CounterStrategy {
    search: PageSearch::VirtualAddresses,
    reported_overhead_ns: READING_NS,
    ..AS_POSTED
};

fn run_sound_controllers(scenario: &Scenario) -> Result<RunOutcome> {
    counter_driven::run_counter_driven(scenario, SOUND)
}

/// A horizon of a minute: moves pay after few misses, so counters are read often.
const HOT: CounterStrategy = CounterStrategy {
    selector: PageSelector::HotPages(60_000_000_000),
    period_ns: PERIOD_NS / 10,
    ..SOUND
};

fn run_hot_pages(scenario: &Scenario) -> Result<RunOutcome> {
    counter_driven::run_counter_driven(scenario, HOT)
}

fn run_four_workers(scenario: &Scenario) -> Result<RunOutcome> {
    counter_driven::run_counter_driven(scenario, CounterStrategy { workers: 4, ..HOT })
}

fn seconds(run: &'static str) -> impl Fn(&RunOutcomes) -> f64 + Send + Sync + 'static {
    move |runs| runs.of(run).number("seconds")
}

/// Returns the time to move 750 MB, in seconds, at the rate of a run's calls.
fn moving(runs: &RunOutcomes, run: &str) -> f64 {
    let run = runs.of(run);
    run.number("moving-s") * PAGES / run.number("moved").max(1.0)
}

fn elapsed(name: &str, run: &'static str, seed: f64) -> FigureRow {
    FigureRow::headline(name, FigureUnit::Seconds, Expected::One(seed)).ours(seconds(run)).counter(
        move |runs| format!("{:.1} % of lines local at the end", runs.of(run).number("local")),
    )
}

fn in_rounds(row: FigureRow, run: &'static str) -> FigureRow {
    row.counter(move |runs| {
        let run = runs.of(run);
        let (rounds, moved) = (run.number("rounds"), run.number("moved"));
        let (moving, local) = (run.number("moving-s"), run.number("local"));
        format!("{moved:.0} pages in {rounds:.0} rounds and {moving:.2} s; {local:.1} % local then")
    })
}

fn search(row: FigureRow, run: &'static str) -> FigureRow {
    row.counter(move |runs| {
        let us = runs.of(run).number("ns-an-address") / 1e3;
        format!("{us:.1} us of search for each address of a list")
    })
}

fn rows() -> Vec<FigureRow> {
    vec![
        elapsed("placed by hand", "by-hand", 86.0)
            .calibrated("workload.openmp.compute")
            .why("Each thread computes, and waits 200 ns for each of its misses."),
        elapsed("random or round robin", "spread", 121.0).calibrated("lines a CPU").why(
            "Three of four misses wait 450 ns; what a CPU waits for in all is fitted on the \
                difference.",
        ),
        in_rounds(elapsed("without overhead", "zero", 92.0), "zero").why(
            "2048 counters a node see a part of the pages in a period, the rest is lost; so it \
                takes many periods of 2.5 s until all pages are where they are used.",
        ),
        in_rounds(elapsed("real", "real", 106.0), "real").why(
            "Every second of calls and deciding on one CPU is one that all threads wait for at a \
                barrier; 1.5 s of deciding and 10 s lost to faulty controllers are \
                given by the mail.",
        ),
        search(
            FigureRow::headline("to move 750 MB", FigureUnit::Seconds, Expected::Between(2.0, 3.0))
                .ours(|runs| moving(runs, "real")),
            "real",
        )
        .why("A list of 16 KiB stays in the first cache: a comparison takes a cycle."),
        search(
            FigureRow::headline(
                "the same, loops inverted",
                FigureUnit::Seconds,
                Expected::Between(10.0, 12.0),
            )
            .ours(|runs| moving(runs, "inverted")),
            "inverted",
        )
        .why("Half a MiB of entries streams from the third cache, and each is tested first."),
        search(
            FigureRow::headline(
                "inverted by posted order",
                FigureUnit::Times,
                Expected::Between(4.0, 5.0),
            )
            .ours(|runs| moving(runs, "inverted") / moving(runs, "real")),
            "inverted",
        )
        .why("The comparisons are the same, and as many; copies are a small part of both."),
    ]
}

fn beyond() -> Improvement {
    Improvement {
        figure: "time of the program",
        unit: FigureUnit::Seconds,
        better: Better::Lower,
        steps: vec![
            ImprovementStep::new("the seed", "As it was posted.", seconds("real")),
            ImprovementStep::new(
                "set lookup",
                "Frames of a list are bits of a set: entries are gone through once a call.",
                seconds("set"),
            ),
            ImprovementStep::new(
                "virtual addresses",
                "Calls name pages as the process does; nothing is searched for.",
                seconds("addresses"),
            ),
            ImprovementStep::new(
                "controllers that work",
                "The 10 s of work-arounds are not lost.",
                seconds("sound"),
            ),
            ImprovementStep::new(
                "policy::hot",
                "A page is worth its move if the misses of the minute ahead cost more, so counters \
                    are read ten times as often.",
                seconds("hot"),
            ),
            ImprovementStep::new(
                "lanes",
                "A thread on each node moves its part of the lists.",
                seconds("lanes"),
            ),
            ImprovementStep::new(
                "next touch instead of counters",
                "Every page moves once, in the fault of the thread that touches it next.",
                seconds("next-touch"),
            ),
        ],
        goal: ImprovementGoal {
            figure: 92.0,
            what: "the seed's estimate for a tool without overhead",
        },
    }
}
