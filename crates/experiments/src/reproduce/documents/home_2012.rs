//! Table "2012": home nodes.

use crate::reproduce::figure_table::{
    Better, DocumentTable, Expected, FigureRow, FigureUnit, Fitted, Improvement, ImprovementGoal,
    ImprovementStep,
};
use crate::reproduce::home_runs;
use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

/// Share of lines requested by demand misses: the event of the seed (offcore response 0x0b: reads,
/// reads for ownership, write-backs) excludes prefetches.
const DEMAND: f64 = 0.60;
/// Counting time of the seed, in seconds.
const WITHOUT_S: f64 = 2.010_446;
const WITH_S: f64 = 2.010_707;

/// The table.
pub fn table() -> DocumentTable {
    DocumentTable {
        name: "2012",
        title: "Home nodes (2012)",
        about: "48 processes that stream through 230 MB each on two sockets of six cores with two \
            threads. Without the patches the scheduler is blind to memory. With them processes get \
            a home by load, fresh pages come from there, the balancer of CPUs prefers it (one task \
            for each look at other nodes), and a thread on each node evens homes out every two \
            seconds; pages follow by migrate-on-fault.",
        runs: runs(),
        fitted: vec![
            Fitted {
                parameter: "demand",
                value: "0.60 of all lines",
                on: "local misses in 2 s without",
            },
            Fitted { parameter: "machine.stray", value: "330", on: "local share with" },
        ],
        rows: rows(),
        beyond: Some(beyond()),
    }
}

fn runs() -> Vec<ScenarioRun> {
    let run = |name| ScenarioRun::new(name, "home-2012").with_override("time", "120s");
    vec![
        run("blind").driven_by(home_runs::kernel_alone),
        run("numad").with_override("scheduler", "numad").driven_by(home_runs::kernel_alone),
        run("nudged").driven_by(home_runs::nudge_threads),
        run("moved").driven_by(home_runs::nudge_threads_and_move_memory),
    ]
}

/// Returns millions of counted misses in a number of seconds.
fn millions(outcome: &RunOutcome, which: &str, seconds: f64) -> f64 {
    outcome.number(which) * DEMAND * seconds / 1e6
}

/// Returns the per cent of lines that are local.
fn local(outcome: &RunOutcome) -> f64 {
    100.0 * outcome.number("local") / sum(outcome)
}

/// Returns lines per second.
fn sum(outcome: &RunOutcome) -> f64 {
    outcome.number("local") + outcome.number("remote")
}

fn gain(runs: &RunOutcomes) -> f64 {
    100.0 * (sum(runs.of("numad")) / sum(runs.of("blind")) - 1.0)
}

fn misses(name: &str, run: &'static str, which: &'static str, seed: f64) -> FigureRow {
    let seconds = if run == "blind" { WITHOUT_S } else { WITH_S };
    FigureRow::headline(name, FigureUnit::Millions, Expected::One(seed))
        .ours(move |runs| millions(runs.of(run), which, seconds))
        .counter(move |runs| {
            let run = runs.of(run);
            let (lines, moves) = (run.number(which) / 1e6, run.number("node-moves"));
            format!("{lines:.1} M lines/s {which}; {moves:.1} tasks/s change nodes")
        })
}

fn rows() -> Vec<FigureRow> {
    vec![
        misses("local misses in 2 s without", "blind", "local", 259.668_750)
            .calibrated("demand")
            .why(
                "A scheduler that is blind to memory has a task on the node of its memory half of \
                    the time; a few more lines are local because those threads are faster.",
            ),
        misses("remote misses in 2 s without", "blind", "remote", 262.170_142)
            .why("The other half; how many there are in all is fitted, the split is not."),
        misses("local misses in 2 s with", "numad", "local", 496.860_345).why(
            "Tasks are pulled home at each look at other nodes, one at a time, and taken away by \
                looks that find a node shorter than it is.",
        ),
        misses("remote misses in 2 s with", "numad", "remote", 78.292_565).why(
            "Tasks wait away from home for the next look, 512 ms; and homes change every two \
                seconds, before their tasks do.",
        ),
        FigureRow::headline("local share with", FigureUnit::Percent, Expected::One(86.39))
            .calibrated("machine.stray")
            .ours(|runs| local(runs.of("numad")))
            .from(49.76, |runs| local(runs.of("blind")))
            .counter(|runs| {
                let pages = runs.of("numad").counter("migrated_pages") / 60.0;
                format!("{pages:.0} pages/s follow to another home")
            })
            .why("As many tasks are away as stray between two looks that bring one home."),
        FigureRow::headline("gain of the sum", FigureUnit::Percent, Expected::One(10.215))
            .ours(gain)
            .counter(|runs| {
                let [without, with] = ["blind", "numad"].map(|run| sum(runs.of(run)) / 1e6);
                format!("{without:.1} to {with:.1} M lines/s")
            })
            .why(
                "A socket has so many misses under way; that many by their mean latency is what \
                    it gets, as far as memory delivers it: remote ones keep their places longer.",
            ),
    ]
}

fn beyond() -> Improvement {
    Improvement {
        figure: "lines that are local",
        unit: FigureUnit::Percent,
        better: Better::Higher,
        steps: vec![
            ImprovementStep::new("blind", "Nothing knows of memory.", |runs| {
                local(runs.of("blind"))
            }),
            ImprovementStep::new("the patches of 2012", "Homes by load, in the kernel.", |runs| {
                local(runs.of("numad"))
            }),
            ImprovementStep::new(
                "nudging instead of patches",
                "`nodeward balance` brings threads home, where most of their memory is as far as \
                    CPUs have time: once a second, and up to eight times while the kernel takes \
                    many away again.",
                |runs| local(runs.of("nudged")),
            ),
            ImprovementStep::new(
                "page moves that pay",
                "What a process has elsewhere is moved by calls if its misses cost more in the \
                    time for which it is expected to go on.",
                |runs| local(runs.of("moved")),
            ),
        ],
        goal: ImprovementGoal { figure: 95.0, what: "95 % local, where the patches had 86.4 %" },
    }
}
