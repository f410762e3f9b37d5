//! How fast memory moves by the number of workers that move pages, or of threads that copy for one
//! of them, on simulated machines. Nothing is fitted on a curve as a whole; what was fitted on one
//! of its points is named.

use anyhow::Result;
use nodeward_mover::Jobs;
use nodeward_scenario::Scenario;

use crate::parallel::{ParallelProgress, parallel_map};
use crate::reproduce::{RunOutcome, ScenarioRun, move_first_process};

/// What grows along a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaledBy {
    /// Workers of nodeward's mover.
    Workers,
    /// Threads that copy for the one caller of move_pages(2).
    Copiers,
}

impl ScaledBy {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Workers => "workers",
            Self::Copiers => "copying threads",
        }
    }
}

/// A curve.
#[derive(Debug)]
pub struct ScalingCurve {
    /// Its name.
    pub name: &'static str,
    /// The machine and its memory.
    pub about: &'static str,
    /// What grows.
    pub by: ScaledBy,
    scenario: &'static str,
    settings: &'static [Settings],
    /// The largest number: that of the destination's CPUs, or of a published curve.
    most: u32,
    /// What memory and link carry of copied pages, in 10^9 bytes per second: the node's bandwidth
    /// by the times that a copied line uses it (`copy-writes`), or the link's, if that is less.
    pub carried_gb_per_s: f64,
    /// Speeds that others measured, in 10^9 bytes per second, by number.
    pub published: &'static [(u32, f64)],
    /// Numbers on whose published speed a parameter was fitted.
    pub fitted: &'static [u32],
}

/// Settings of a scenario.
type Settings = &'static [(&'static str, &'static str)];

/// 2 GiB of base pages.
const BASE: Settings = &[("machine.batch", "512"), ("workload.folios.memory", "2GiB")];
/// 4 GiB of huge pages.
const HUGE: Settings = &[
    ("workload.folios.pages", "huge"),
    ("workload.folios.memory", "4GiB"),
    ("machine.batch", "512"),
];
/// The scenario's own move begins when the workers are done.
const LATE: Settings = &[("action.0.at", "7990ms"), ("time", "8s")];
/// As the topology test of 2025 is simulated for docs/reproduce.md.
const COPIED: Settings = &[
    ("workload.folios.pages", "huge"),
    ("workload.folios.memory", "16GiB"),
    ("action.0.at", "4s"),
    ("time", "8s"),
    ("machine.batch", "512"),
];

/// A curve of workers on the Zen 3 machine.
const ZEN3: ScalingCurve = ScalingCurve {
    name: "",
    about: "",
    by: ScaledBy::Workers,
    scenario: "zen3",
    settings: &[BASE, LATE],
    most: 64,
    carried_gb_per_s: 66.0 / 2.0,
    published: &[],
    fitted: &[],
};

/// All curves.
pub static CURVES: [ScalingCurve; 8] = [
    ScalingCurve { name: "base", about: "Zen 3, 2 sockets of 32 cores: base pages", ..ZEN3 },
    ScalingCurve {
        name: "huge",
        about: "the same machine: huge pages",
        settings: &[HUGE, LATE],
        ..ZEN3
    },
    ScalingCurve {
        name: "lru-lock",
        about: "base pages, with the locks of the page lists (LRU) held ten times as long",
        settings: &[BASE, LATE, &[("machine.lru-hold", "600ns"), ("machine.lru-handoff", "3us")]],
        ..ZEN3
    },
    ScalingCurve {
        name: "zone-lock",
        about: "base pages, with the lock of the zone held ten times as long",
        settings: &[
            BASE,
            LATE,
            &[("machine.zone-hold", "395ns"), ("machine.zone-handoff", "13us")],
        ],
        ..ZEN3
    },
    ScalingCurve {
        name: "link",
        about: "base pages, over a link with a quarter of the bandwidth",
        settings: &[BASE, LATE, &[("machine.link-bandwidth", "24GB/s")]],
        carried_gb_per_s: 24.0,
        ..ZEN3
    },
    ScalingCurve {
        name: "xeon",
        about: "E5-2650, 2 sockets of 8 cores (2017): base pages over a link of 6.5 GB/s",
        scenario: "page-migration-2017",
        settings: &[&[
            ("machine.batch", "512"),
            ("workload.base.memory", "2GiB"),
            ("action.0.at", "2900ms"),
            ("action.1.at", "2900ms"),
        ]],
        most: 16,
        carried_gb_per_s: 6.5,
        ..ZEN3
    },
    ScalingCurve {
        name: "spread",
        about: "huge pages by one caller, its copying threads spread over core complexes",
        by: ScaledBy::Copiers,
        settings: &[COPIED, &[("machine.copier-choice", "complexes")]],
        most: 16,
        published: &[(1, 10.6), (2, 17.2), (4, 29.9), (8, 37.1), (16, 36.2)],
        fitted: &[1, 16],
        ..ZEN3
    },
    ScalingCurve {
        name: "packed",
        about: "the same, with copying threads on one core complex first",
        by: ScaledBy::Copiers,
        settings: &[COPIED, &[("machine.copier-choice", "cores")]],
        most: 16,
        published: &[(1, 10.4), (2, 10.9), (4, 11.0), (8, 11.1), (16, 17.9)],
        fitted: &[1, 8],
        ..ZEN3
    },
];

/// A point of a curve.
#[derive(Clone, Debug)]
pub struct ScalingPoint {
    /// The number of workers or threads.
    pub count: u32,
    /// The speed, in 10^9 bytes per second.
    pub gb_per_s: f64,
    /// CPU time for a base page that moved, by step, in nanoseconds: waits for locks are in
    /// `unmap` and `map`, waits for memory in `copy`.
    pub step_ns: StepNs,
    /// The speed that others measured.
    pub published_gb_per_s: Option<f64>,
}

/// CPU time by step, in nanoseconds for a base page.
#[derive(Clone, Copy, Debug)]
pub struct StepNs {
    /// Taking it out of sight, with its copy's page.
    pub unmap: f64,
    /// Copying.
    pub copy: f64,
    /// Bringing it back.
    pub map: f64,
}

/// A curve with its points.
#[derive(Clone, Debug)]
pub struct ScalingResult {
    /// The curve.
    pub curve: &'static ScalingCurve,
    /// Its points, by number.
    pub points: Vec<ScalingPoint>,
}

impl ScalingCurve {
    /// Returns those of these numbers that the machine has CPUs for.
    pub fn counts<'a>(&self, all: &'a [u32]) -> impl Iterator<Item = u32> + use<'a> {
        let most = self.most;
        all.iter().copied().filter(move |&count| count <= most)
    }

    /// Returns whether a speed is more than memory and link carry: the model slows a full pipe down
    /// from millisecond to millisecond, and workers whose batches begin together escape it. A tenth
    /// is allowed.
    pub fn is_too_fast(&self, gb_per_s: f64) -> bool {
        gb_per_s > self.carried_gb_per_s * 1.1
    }

    /// Returns the command that simulates a point.
    pub fn command(&self, count: u32) -> String {
        let sets = self.settings().map(|(key, value)| format!(" --set {key}={value}"));
        let sets: String = sets.collect();
        match self.by {
            ScaledBy::Workers => format!(
                "nodeward move --machine sim:{} 1000 0 1 --jobs {count}{sets}",
                self.scenario
            ),
            ScaledBy::Copiers => {
                format!("nodeward sim {} --set machine.copiers={count}{sets}", self.scenario)
            }
        }
    }

    fn settings(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.settings.iter().flat_map(|settings| settings.iter().copied())
    }

    fn simulate(&self, count: u32) -> Result<ScalingPoint> {
        let own = [("machine.copiers", count.to_string())];
        let own = own.iter().filter(|_| self.by == ScaledBy::Copiers);
        let own = own.map(|(key, value)| ((*key).to_owned(), value.clone()));
        let sets = self.settings().map(|(key, value)| (key.to_owned(), value.to_owned()));
        let scenario = Scenario::find_with(self.scenario, &sets.chain(own).collect::<Vec<_>>())?;
        let (outcome, ms) = match self.by {
            ScaledBy::Workers => {
                let outcome = move_first_process(&scenario, Jobs::Fixed(count))?;
                let ms = outcome.number("moving_ms");
                (outcome, ms)
            }
            ScaledBy::Copiers => {
                let outcome = ScenarioRun::run(&scenario)?;
                let ms = outcome.move_ms(0);
                (outcome, ms)
            }
        };
        Ok(self.point(count, &outcome, ms))
    }

    fn point(&self, count: u32, outcome: &RunOutcome, ms: f64) -> ScalingPoint {
        let pages = outcome.counter("migrated_pages");
        let bytes = pages * outcome.report.machine.page_bytes as f64;
        let step = |name| {
            let ns = outcome.report.time_ns.get(name).copied().unwrap_or(0);
            ns as f64 / pages.max(1.0)
        };
        let published = self.published.iter().find(|(other, _)| *other == count);
        ScalingPoint {
            count,
            gb_per_s: bytes / 1e6 / ms,
            step_ns: StepNs { unmap: step("unmap"), copy: step("copy"), map: step("map") },
            published_gb_per_s: published.map(|(_, speed)| *speed),
        }
    }
}

/// Simulates curves at these numbers, `jobs` points at a time. `watch` counts the points.
///
/// # Errors
/// If a simulation fails, which none of the built-in scenarios does.
pub fn run_all(
    curves: &[&'static ScalingCurve],
    counts: &[u32],
    jobs: usize,
    watch: &ParallelProgress,
) -> Result<Vec<ScalingResult>> {
    let points = |curve: &&'static ScalingCurve| {
        let curve = *curve;
        curve.counts(counts).map(move |count| (curve, count))
    };
    let items: Vec<_> = curves.iter().flat_map(points).collect();
    let simulate = |(curve, count): &(&ScalingCurve, u32)| curve.simulate(*count);
    let points = parallel_map(&items, jobs, watch, simulate);
    let mut points = points.into_iter().collect::<Result<Vec<_>>>()?.into_iter();
    let of_curve = |curve: &&'static ScalingCurve| ScalingResult {
        curve,
        points: points.by_ref().take(curve.counts(counts).count()).collect(),
    };
    Ok(curves.iter().map(of_curve).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: two workers are nearly twice as fast as one, as nothing is full yet, and the steps of
    /// a page are the machine's: 0.14 + 0.14 us to unmap and 0.08 + 0.14 us to map, with what the
    /// lists and locks cost.
    #[test]
    fn two_workers_are_nearly_twice_as_fast() {
        let watch = ParallelProgress::default();
        let results = run_all(&[&CURVES[0]], &[1, 2, 128], 2, &watch).unwrap();
        let [one, two] = &results[0].points[..] else { panic!("two points: {results:?}") };
        assert_eq!((one.count, two.count, watch.completed()), (1, 2, 2));
        let times = two.gb_per_s / one.gb_per_s;
        assert!((1.8..=2.0).contains(&times), "{times}");
        let StepNs { unmap, copy, map } = one.step_ns;
        assert!((280.0..500.0).contains(&unmap) && (220.0..400.0).contains(&map), "{one:?}");
        // 4 KiB at 10.95 GB/s are 374 ns.
        assert!((374.0..500.0).contains(&copy), "{one:?}");
        assert!(!CURVES[0].is_too_fast(36.2) && CURVES[0].is_too_fast(36.4), "33 and a tenth");
    }

    /// Goal: the command of a point tells all of it.
    #[test]
    fn points_have_commands() {
        let command = CURVES[4].command(8);
        assert!(command.starts_with("nodeward move --machine sim:zen3 1000 0 1 --jobs 8"));
        assert!(command.ends_with("--set machine.link-bandwidth=24GB/s"), "{command}");
        assert!(CURVES[6].command(2).starts_with("nodeward sim zen3 --set machine.copiers=2"));
    }
}
