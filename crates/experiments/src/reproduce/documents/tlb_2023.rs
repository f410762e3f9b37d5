//! Table "tlb": batched TLB flushing (2023).

use nodeward_scenario::Scenario;

use super::move_figures::step_percent;
use crate::reproduce::figure_table::{
    Better, DocumentTable, Expected, FigureRow, FigureUnit, Fitted, Improvement, ImprovementGoal,
    ImprovementStep,
};
use crate::reproduce::mover_runs;
use crate::reproduce::run_outcome::RunOutcome;
use crate::reproduce::scenario_runs::{RunOutcomes, ScenarioRun};

/// The only action of both scenarios.
const MOVE: usize = 0;
const ARM: &str = "tlb-2023-arm64";

/// The table.
pub fn table() -> DocumentTable {
    DocumentTable {
        name: "tlb",
        title: "Batched TLB flushing (2023)",
        about: "pmbench on all 112 CPUs of two sockets, whose 2 GiB go back and forth, and memhog \
            of 1 GiB on an Arm machine of 128 CPUs that goes from node 0 to node 1: page by page, \
            and in batches of 512. How many CPUs the seed's Intel machine had and how pmbench was \
            set is not told; both are assumed.",
        runs: runs(),
        fitted: fitted(),
        rows: interrupts().into_iter().chain(broadcasts()).collect(),
        beyond: Some(beyond()),
    }
}

fn runs() -> Vec<ScenarioRun> {
    let x86 = |name| ScenarioRun::new(name, "tlb-2023").with_override("time", "500ms");
    let lanes = |name| ScenarioRun::new(name, "tlb-2023").with_override("action.0.at", "900ms");
    let arm = |name| {
        let run = ScenarioRun::new(name, ARM).with_override("action.0.times", "1");
        run.with_override("action.0.at", "700ms").with_override("time", "3s")
    };
    vec![
        x86("one by one").with_override("machine.batch", "1"),
        x86("batches"),
        arm("arm, one by one").with_override("machine.batch", "1"),
        arm("arm, batches"),
        lanes("worker").driven_by(mover_runs::move_with_one_worker),
        lanes("workers").driven_by(mover_runs::move_with_auto_workers),
        lanes("one node")
            .with_override("workload.pmbench.nodes", "0")
            .driven_by(mover_runs::move_with_auto_workers),
    ]
}

fn fitted() -> Vec<Fitted> {
    let of = |parameter, value, on| Fitted { parameter, value, on };
    vec![
        of("ipi-target", "13 ns", "pages in a second, x86-64"),
        of("unmap", "2.36 us a page, with map and entries", "1 GiB, Arm, one by one"),
        of("broadcast-wait", "2140 ns", "share of ptep_clear_flush, one by one"),
        of("copy", "1.914 GB/s", "share of copy_page, one by one"),
        of("broadcast-drain", "1200 ns", "1 GiB, Arm, batches"),
    ]
}

fn interrupts() -> Vec<FigureRow> {
    let rate = |run| move |runs: &RunOutcomes| pages_per_s(runs.of(run));
    let gain =
        move |runs: &RunOutcomes| (rate("batches")(runs) / rate("one by one")(runs) - 1.0) * 100.0;
    vec![
        FigureRow::headline("more pages in a second", FigureUnit::Percent, Expected::One(291.7))
            .calibrated("ipi-target")
            .ours(gain)
            .counter(|runs| {
                let share = |run| step_percent(runs.of(run), MOVE, &["flush"]);
                let [one, all] = [share("one by one"), share("batches")];
                format!("flushes take {one:.1} % of the time, then {all:.1} %")
            })
            .why("A page costs a flush of all CPUs beside its own work; a batch of 512 one flush."),
        FigureRow::headline(
            "flush interrupts that are saved",
            FigureUnit::Percent,
            Expected::One(99.1),
        )
        .ours(|runs| 100.0 - ipis_left(runs))
        .counter(flushes_of_both)
        .why("The same as below, seen from the other side; what is left says more."),
        FigureRow::profile(
            "flush interrupts that are left",
            FigureUnit::Percent,
            Expected::One(0.9),
        )
        .ours(ipis_left)
        .counter(flushes_of_both)
        .why("A 512th for each page, and nearly four times as many pages in the same time."),
    ]
}

/// Returns the flush interrupts that remain of 100, in the same time.
fn ipis_left(runs: &RunOutcomes) -> f64 {
    let ipis = |run| runs.of(run).counter("flush_ipis");
    ipis("batches") * 100.0 / ipis("one by one")
}

fn flushes_of_both(runs: &RunOutcomes) -> String {
    let ipis = |run| runs.of(run).counter("flush_ipis") / 1e3;
    let [one, all] = [ipis("one by one"), ipis("batches")];
    format!("{one:.0} k interrupts, then {all:.0} k in the same time")
}

fn pages_per_s(outcome: &RunOutcome) -> f64 {
    outcome.moves(MOVE).map(|moved| moved.pages_per_s as f64).next().unwrap_or(f64::NAN)
}

fn broadcasts() -> Vec<FigureRow> {
    const ONE: &str = "arm, one by one";
    const ALL: &str = "arm, batches";
    let seconds = |run| move |runs: &RunOutcomes| runs.of(run).move_ms(MOVE) / 1e3;
    let share = |run, steps: &'static [&'static str]| {
        move |runs: &RunOutcomes| step_percent(runs.of(run), MOVE, steps)
    };
    let flushes =
        |run| move |runs: &RunOutcomes| format!("{} flushes", runs.of(run).counter("flushes"));
    let parts = |run| {
        move |runs: &RunOutcomes| {
            let percent = |step| step_percent(runs.of(run), MOVE, &[step]);
            let [unmap, flush, copy, map] = ["unmap", "flush", "copy", "map"].map(percent);
            format!("unmap {unmap:.1}, flush {flush:.1}, copy {copy:.1}, map {map:.1} %")
        }
    };
    vec![
        FigureRow::headline("1 GiB, Arm, one by one", FigureUnit::Seconds, Expected::One(2.068))
            .calibrated("unmap")
            .ours(seconds(ONE))
            .counter(flushes(ONE))
            .why("Each page waits until 128 CPUs have heard of it."),
        FigureRow::headline("1 GiB, Arm, batches", FigureUnit::Seconds, Expected::One(1.161))
            .calibrated("broadcast-drain")
            .ours(seconds(ALL))
            .from(2.068, seconds(ONE))
            .counter(flushes(ALL))
            .why(
                "One wait for 512 pages; and more is gained than the flush took: copies that \
                    follow each other are not drained by a barrier each, a fit and no derivation.",
            ),
        FigureRow::profile(
            "share of copy_page, one by one",
            FigureUnit::Percent,
            Expected::One(42.34),
        )
        .calibrated("copy")
        .ours(share(ONE, &["copy"]))
        .counter(parts(ONE))
        .why("One thread copies, at what is left of a core's misses behind a barrier."),
        FigureRow::profile(
            "share of ptep_clear_flush, one by one",
            FigureUnit::Percent,
            Expected::One(27.78),
        )
        .calibrated("broadcast-wait")
        .ours(share(ONE, &["flush"]))
        .counter(parts(ONE))
        .why("TLBI is handed over in no time, and DSB waits for the farthest CPU."),
        FigureRow::profile(
            "share of rmap_walk_anon, one by one",
            FigureUnit::Percent,
            Expected::One(33.99),
        )
        .ours(|runs| step_percent(runs.of(ONE), MOVE, &["flush"]) + entries_percent(runs.of(ONE)))
        .counter(parts(ONE))
        .why("The flush is a part of it; the rest are a page's two entries in page tables."),
        FigureRow::profile(
            "share of migrate_folio_extra, batches",
            FigureUnit::Percent,
            Expected::One(67.4),
        )
        .ours(share(ALL, &["copy", "map"]))
        .from(51.07, share(ONE, &["copy", "map"]))
        .counter(parts(ALL))
        .why("With the flush gone, time goes to the copy and what comes behind it."),
    ]
}

/// Returns the share of page table entries in the time of a move, in per cent: two per page.
fn entries_percent(outcome: &RunOutcome) -> f64 {
    let params = Scenario::find(ARM).map(|scenario| scenario.machine.params).unwrap_or_default();
    let ns = params.unmap_page_ns + params.map_page_ns;
    let pages = outcome.moves(MOVE).map(|moved| moved.account.moved).next().unwrap_or(0);
    (pages * ns) as f64 / outcome.move_ms(MOVE) / 1e4
}

fn beyond() -> Improvement {
    let millions = |run| move |runs: &RunOutcomes| pages_per_s(runs.of(run)) / 1e6;
    let moved = |run| {
        move |runs: &RunOutcomes| {
            let outcome = runs.of(run);
            outcome.number("pages") / outcome.number("moving_ms") / 1e3
        }
    };
    Improvement {
        figure: "base pages of pmbench that are moved in a second",
        unit: FigureUnit::Millions,
        better: Better::Higher,
        steps: vec![
            ImprovementStep::new(
                "one by one",
                "The kernel before the seed.",
                millions("one by one"),
            ),
            ImprovementStep::new("batches", "What the seed does.", millions("batches")),
            ImprovementStep::new(
                "planned calls",
                "nodeward hands the kernel long runs of pages that are there and must move, on a \
                    core of the destination; its looks and page lists are in the time.",
                moved("worker"),
            ),
            ImprovementStep::new(
                "workers",
                "As many as `policy::ramp` finds worth it, each with page tables of its own: their \
                    flushes and copies overlap.",
                moved("workers"),
            ),
            ImprovementStep::new(
                "program on one node",
                "A home keeps its threads together: half as many CPUs are interrupted, and workers \
                    have the other node for themselves.",
                moved("one node"),
            ),
        ],
        goal: ImprovementGoal { figure: 1.2, what: "twice as many as with the seed's batches" },
    }
}
