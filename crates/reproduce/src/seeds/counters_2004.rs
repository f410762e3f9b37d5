//! Table "2004": migration by hardware counters.

use anyhow::Result;
use nodeward_scenario::Scenario;

use crate::counted::{self, Chooser, Search, Way};
use crate::outcome::Outcome;
use crate::runs::{Run, Runs};
use crate::search::Order;
use crate::table::{Better, Beyond, Expected, Fitted, Goal, Row, Step, Table, Unit};

/// Counting interval. For the seed a page is worth its move from about 1000 misses on, and with all
/// memory spread each of its 128 lines is missed every 0.32 s.
const PERIOD_NS: u64 = 2_500_000_000;
/// Time to read counters and decide: the mail says 1 to 2 s.
const READING_NS: u64 = 1_500_000_000;
/// Time lost because of faulty node controllers: the mail says about 10 s.
const FAULTY_NS: u64 = 10_000_000_000;
/// Pages in 750 MB, of 1024 times 1024 bytes.
const PAGES: f64 = 750.0 * 1_048_576.0 / 16_384.0;

const SEED: Way = Way {
    period_ns: PERIOD_NS,
    chooser: Chooser::Seed,
    search: Search::List(Order::ListInside),
    given_ns: READING_NS + FAULTY_NS,
    lanes: 1,
};

/// The table.
pub fn table() -> Table {
    Table {
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

fn runs() -> Vec<Run> {
    let run = |name| Run::of(name, "wide-2004");
    let without = |name| run(name).set("machine.counter-entries", "0");
    // A tool without overhead: neither calls nor pages cost anything.
    let free =
        ["unmap", "unmap-page", "map", "map-page", "move-call", "broadcast", "broadcast-wait"];
    let zero = free.iter().fold(run("zero"), |run, key| run.set(&format!("machine.{key}"), "0"));
    let zero = zero.set("machine.copy", "1000000GB/s").set("machine.copy-parallel", "128000");
    vec![
        without("by-hand").set("workload.openmp.place", "first-touch").driven(counted::alone),
        without("spread").driven(counted::alone),
        zero.driven(zero_overhead),
        run("real").driven(real),
        run("inverted").driven(inverted),
        run("set").driven(set),
        run("addresses").driven(addresses),
        run("sound").driven(sound),
        run("hot").driven(hot),
        run("lanes").driven(lanes),
        without("next-touch").driven(counted::next_touch),
    ]
}

fn zero_overhead(scenario: &Scenario) -> Result<Outcome> {
    counted::counted(scenario, Way { search: Search::Nothing, given_ns: 0, ..SEED })
}

fn real(scenario: &Scenario) -> Result<Outcome> {
    counted::counted(scenario, SEED)
}

fn inverted(scenario: &Scenario) -> Result<Outcome> {
    counted::counted(scenario, Way { search: Search::List(Order::EntriesInside), ..SEED })
}

fn set(scenario: &Scenario) -> Result<Outcome> {
    counted::counted(scenario, Way { search: Search::Set, ..SEED })
}

fn addresses(scenario: &Scenario) -> Result<Outcome> {
    counted::counted(scenario, Way { search: Search::Nothing, ..SEED })
}

/// As `addresses`, with working controllers.
const SOUND: Way = Way { search: Search::Nothing, given_ns: READING_NS, ..SEED };

fn sound(scenario: &Scenario) -> Result<Outcome> {
    counted::counted(scenario, SOUND)
}

/// A horizon of a minute: moves pay after few misses, so counters are read often.
const HOT: Way = Way { chooser: Chooser::Hot(60_000_000_000), period_ns: PERIOD_NS / 10, ..SOUND };

fn hot(scenario: &Scenario) -> Result<Outcome> {
    counted::counted(scenario, HOT)
}

fn lanes(scenario: &Scenario) -> Result<Outcome> {
    counted::counted(scenario, Way { lanes: 4, ..HOT })
}

fn seconds(run: &'static str) -> impl Fn(&Runs) -> f64 + Send + Sync + 'static {
    move |runs| runs.of(run).number("seconds")
}

/// Returns the time to move 750 MB, in seconds, at the rate of a run's calls.
fn moving(runs: &Runs, run: &str) -> f64 {
    let run = runs.of(run);
    run.number("moving-s") * PAGES / run.number("moved").max(1.0)
}

fn elapsed(name: &str, run: &'static str, seed: f64) -> Row {
    Row::headline(name, Unit::Seconds, Expected::One(seed)).ours(seconds(run)).counter(
        move |runs| format!("{:.1} % of lines local at the end", runs.of(run).number("local")),
    )
}

fn in_rounds(row: Row, run: &'static str) -> Row {
    row.counter(move |runs| {
        let run = runs.of(run);
        let (rounds, moved) = (run.number("rounds"), run.number("moved"));
        let (moving, local) = (run.number("moving-s"), run.number("local"));
        format!("{moved:.0} pages in {rounds:.0} rounds and {moving:.2} s; {local:.1} % local then")
    })
}

fn search(row: Row, run: &'static str) -> Row {
    row.counter(move |runs| {
        let us = runs.of(run).number("ns-an-address") / 1e3;
        format!("{us:.1} us of search for each address of a list")
    })
}

fn rows() -> Vec<Row> {
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
            Row::headline("to move 750 MB", Unit::Seconds, Expected::Between(2.0, 3.0))
                .ours(|runs| moving(runs, "real")),
            "real",
        )
        .why("A list of 16 KiB stays in the first cache: a comparison takes a cycle."),
        search(
            Row::headline("the same, loops inverted", Unit::Seconds, Expected::Between(10.0, 12.0))
                .ours(|runs| moving(runs, "inverted")),
            "inverted",
        )
        .why("Half a MiB of entries streams from the third cache, and each is tested first."),
        search(
            Row::headline("inverted by posted order", Unit::Times, Expected::Between(4.0, 5.0))
                .ours(|runs| moving(runs, "inverted") / moving(runs, "real")),
            "inverted",
        )
        .why("The comparisons are the same, and as many; copies are a small part of both."),
    ]
}

fn beyond() -> Beyond {
    Beyond {
        figure: "time of the program",
        unit: Unit::Seconds,
        better: Better::Lower,
        steps: vec![
            Step::new("the seed", "As it was posted.", seconds("real")),
            Step::new(
                "set lookup",
                "Frames of a list are bits of a set: entries are gone through once a call.",
                seconds("set"),
            ),
            Step::new(
                "virtual addresses",
                "Calls name pages as the process does; nothing is searched for.",
                seconds("addresses"),
            ),
            Step::new(
                "controllers that work",
                "The 10 s of work-arounds are not lost.",
                seconds("sound"),
            ),
            Step::new(
                "policy::hot",
                "A page is worth its move if the misses of the minute ahead cost more, so counters \
                    are read ten times as often.",
                seconds("hot"),
            ),
            Step::new(
                "lanes",
                "A thread on each node moves its part of the lists.",
                seconds("lanes"),
            ),
            Step::new(
                "next touch instead of counters",
                "Every page moves once, in the fault of the thread that touches it next.",
                seconds("next-touch"),
            ),
        ],
        goal: Goal { figure: 92.0, what: "the seed's estimate for a tool without overhead" },
    }
}
