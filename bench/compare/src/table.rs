//! The results of the runs: a row for each workload under each balancer.

use serde::Serialize;

use crate::balancers::BalancerSetup;
use crate::median_range::MedianRange;
use crate::run::RunResult;
use crate::settings::CompareSettings;
use crate::workloads::LabWorkload;

/// Target locality, and the window over which it is taken, in milliseconds.
const LOCALITY_GOAL: f64 = 0.9;
const WINDOW_MS: u64 = 1000;
/// Number of parts in which a run's locality is drawn.
const PARTS: u64 = 10;

/// All rows.
#[derive(Clone, Debug, Serialize)]
pub struct CompareTable {
    /// The rows, in the order of the settings.
    pub rows: Vec<CompareRow>,
}

/// A workload under a balancer.
#[derive(Clone, Debug, Serialize)]
pub struct CompareRow {
    /// The workload's name.
    pub workload: String,
    /// The balancer's name.
    pub balancer: String,
    /// Number of runs.
    pub runs: usize,
    /// Number of runs in which a balancer that must move pages moved none.
    pub idle_runs: usize,
    /// The figures; `None` if no run ended well.
    pub cells: Option<RowFigures>,
    /// The error of a failed run.
    pub failure: Option<String>,
}

/// The figures of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowFigures {
    /// Local last-level misses in per cent; `None` without misses.
    pub local: Option<MedianRange>,
    /// The same in each tenth of the time until the first task ended: medians of all runs.
    pub parts: Vec<Option<f64>>,
    /// The same in the last quarter of that time.
    pub settled: Option<MedianRange>,
    /// Seconds until 90 % of the misses in a window of a second were local, and of those from there
    /// until the first task ended; infinite if that never happened.
    pub to_90_s: Option<MedianRange>,
    /// Migrated base pages.
    pub pages: MedianRange,
    /// Pages that the balancer reports as moved, minus those that the kernel counts until the
    /// balancer ended. If it is not 0, one of them is wrong or other pages moved, too. `None` if
    /// the balancer reports none.
    pub told_more: Option<MedianRange>,
    /// CPU time of the balancer and of the kernel on behalf of the tasks, in per cent of one CPU.
    pub cpu: MedianRange,
    /// Seconds until all tasks had ended.
    pub took_s: MedianRange,
    /// Work per time, relative to the first balancer's in the same repeat.
    pub work: Option<MedianRange>,
}

impl CompareTable {
    /// Creates the table of these runs; a failed run has its error.
    pub fn of(settings: &CompareSettings, runs: &[(RunKey, Result<RunResult, String>)]) -> Self {
        let first = settings.balancers.first().map(|first| first.balancer.name.clone());
        let row = |workload: &LabWorkload, contender: &BalancerSetup| {
            let mine = |key: &RunKey| key.matches(&workload.name, &contender.balancer.name);
            let results = runs.iter().filter(|(key, _)| mine(key)).map(|(_, result)| result);
            let good: Vec<&RunResult> = results.clone().filter_map(|r| r.as_ref().ok()).collect();
            let idle =
                |run: &&&RunResult| contender.must_move && run.end.look.overhead.migrated == 0;
            let base = |run: &RunResult| {
                let same = RunKey { balancer: first.clone()?, ..RunKey::of(run) };
                runs.iter().find(|(key, _)| *key == same)?.1.as_ref().ok()
            };
            CompareRow {
                workload: workload.name.clone(),
                balancer: contender.balancer.name.clone(),
                runs: good.len(),
                idle_runs: good.iter().filter(idle).count(),
                cells: cells(&good, base),
                failure: results.clone().find_map(|result| result.as_ref().err().cloned()),
            }
        };
        let rows = settings.workloads.iter().flat_map(|workload| {
            settings.balancers.iter().map(move |contender| row(workload, contender))
        });
        Self { rows: rows.collect() }
    }
}

/// The identity of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunKey {
    /// The workload's name.
    pub workload: String,
    /// The balancer's name.
    pub balancer: String,
    /// The number of the repeat.
    pub repeat: u32,
}

impl RunKey {
    fn of(run: &RunResult) -> Self {
        let (workload, balancer) = (run.workload.clone(), run.balancer.clone());
        Self { workload, balancer, repeat: run.repeat }
    }

    fn matches(&self, workload: &str, balancer: &str) -> bool {
        self.workload == workload && self.balancer == balancer
    }
}

fn cells<'a>(
    runs: &[&RunResult],
    base: impl Fn(&RunResult) -> Option<&'a RunResult>,
) -> Option<RowFigures> {
    let each =
        |figure: &dyn Fn(&RunResult) -> f64| MedianRange::of(runs.iter().map(|run| figure(run)));
    let all = |figure: &dyn Fn(&RunResult) -> Option<f64>| {
        MedianRange::of(runs.iter().filter_map(|run| figure(run)))
    };
    let took_s = |run: &RunResult| seconds(run.end.look.at_ms);
    Some(RowFigures {
        local: all(&|run| percent(run.track.local_share(0, u64::MAX))),
        parts: parts(runs),
        settled: all(&|run| percent(settled(run))),
        to_90_s: all(&to_90_s),
        pages: each(&|run| run.end.look.overhead.migrated as f64)?,
        told_more: all(&|run| Some(run.end.told? as f64 - run.end.migrated as f64)),
        cpu: each(&cpu_percent)?,
        took_s: each(&took_s)?,
        work: all(&|run| Some(took_s(base(run)?) / took_s(run))),
    })
}

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| share * 100.0)
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// Returns the locality in the last quarter, without its last window: threads of a task do not end
/// at once, and other threads then rightly move to the idle CPUs.
fn settled(run: &RunResult) -> Option<f64> {
    let until_ms = run.first_end_ms.saturating_sub(WINDOW_MS);
    run.track.local_share(until_ms * 3 / 4, until_ms)
}

/// Returns the time to 90 %; `None` without misses.
fn to_90_s(run: &RunResult) -> Option<f64> {
    let reached = run.track.time_to_locality_ms(LOCALITY_GOAL, WINDOW_MS, run.first_end_ms);
    let reached = reached.map_or(f64::INFINITY, seconds);
    (run.track.misses() > 0).then_some(reached)
}

fn cpu_percent(run: &RunResult) -> f64 {
    let look = run.end.look;
    let used_us = look.overhead.balancer_us + look.overhead.system_us;
    used_us as f64 / (look.at_ms.max(1) * 1000) as f64 * 100.0
}

fn parts(runs: &[&RunResult]) -> Vec<Option<f64>> {
    let parts = runs.iter().map(|run| run.track.parts(run.first_end_ms, PARTS));
    let parts: Vec<Vec<Option<f64>>> = parts.collect();
    let median =
        |part: usize| MedianRange::of(parts.iter().filter_map(|parts| percent(parts[part])));
    (0..PARTS as usize).map(|part| median(part).map(|spread| spread.median)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use nodeward_lab::GuestKernel;
    use nodeward_runner::{CounterSample, RunEnd, RunOverhead};

    use super::*;
    use crate::balancers;
    use crate::miss_timeline::{MissSample, MissTimeline};

    fn settings() -> CompareSettings {
        CompareSettings {
            workloads: vec![LabWorkload::find("crossed").unwrap()],
            balancers: balancers().into_iter().take(5).collect(),
            repeats: 2,
            lead_ns: 0,
            size_bytes: 512 << 20,
            passes: 16,
            kernel: GuestKernel::V6_12,
            llc_bytes: 1 << 20,
            miss_delay_ns: 200,
            populate: true,
        }
    }

    /// Returns a run of `took_s` seconds in which 1000 misses a second become local after `turn_s`.
    fn run(balancer: &str, repeat: u32, took_s: u64, turn_s: u64, pages: u64) -> RunResult {
        let at = |second: u64| {
            let remote = second.min(turn_s) * 1000;
            MissSample { at_ms: second * 1000, local: second * 1000 - remote, remote }
        };
        let overhead = RunOverhead {
            migrated: pages,
            balancer_us: took_s * 5_000,
            system_us: took_s * 10_000,
            ..RunOverhead::default()
        };
        let look = CounterSample { at_ms: took_s * 1000, passes: 16, overhead };
        let told = (balancer == "nodeward").then_some(pages + 1);
        RunResult {
            workload: "crossed".to_owned(),
            balancer: balancer.to_owned(),
            repeat,
            first_end_ms: took_s * 1000,
            track: MissTimeline((0..=took_s).map(at).collect()),
            looks: Vec::new(),
            end: RunEnd { look, told, migrated: pages, ..RunEnd::default() },
        }
    }

    /// Returns a table with a row of every kind.
    pub fn sample() -> (CompareSettings, CompareTable) {
        let runs = [
            Ok(run("nothing", 0, 40, 40, 0)),
            Ok(run("kernel", 0, 25, 5, 262_144)),
            Ok(run("numad", 0, 40, 40, 0)),
            Ok(run("hand", 0, 20, 0, 0)),
            Ok(run("nodeward", 0, 20, 2, 1000)),
            Ok(run("nothing", 1, 44, 44, 0)),
            Ok(run("kernel", 1, 22, 3, 262_000)),
            Ok(run("numad", 1, 30, 15, 131_072)),
            Err("the guest says: no".to_owned()),
            Ok(run("nodeward", 1, 20, 2, 1000)),
        ];
        let names = ["nothing", "kernel", "numad", "hand", "nodeward"];
        let key = |place: usize| RunKey {
            workload: "crossed".to_owned(),
            balancer: names[place % 5].to_owned(),
            repeat: (place / 5) as u32,
        };
        let runs: Vec<_> = runs.into_iter().enumerate().map(|(n, run)| (key(n), run)).collect();
        let settings = settings();
        let table = CompareTable::of(&settings, &runs);
        (settings, table)
    }

    /// Goal: each figure follows its definition.
    #[test]
    fn figures_of_a_row() {
        let (_, table) = sample();
        let cells = table.rows[1].cells.clone().unwrap();
        let of = |median, least, most| MedianRange { median, least, most };
        // 5 of 25 s are remote, and 3 of 22: 80 % and 86.4 % local.
        let local = cells.local.unwrap();
        assert_eq!((local.least, (local.most * 10.0).round()), (80.0, 864.0));
        assert_eq!(cells.settled, Some(of(100.0, 100.0, 100.0)));
        assert_eq!(cells.to_90_s, Some(of(5.0, 4.0, 6.0))); // a second after the turn
        assert_eq!(cells.pages, of(262_072.0, 262_000.0, 262_144.0));
        assert_eq!(cells.cpu, of(1.5, 1.5, 1.5)); // (5 + 10) ms a second
        assert_eq!(cells.work, Some(of(1.8, 1.6, 2.0))); // 40/25 and 44/22
        assert_eq!(table.rows[0].cells.clone().unwrap().to_90_s.unwrap().median, f64::INFINITY);
    }

    /// Goal: failed runs, and runs in which nothing moved, are reported.
    #[test]
    fn what_does_not_count_is_told() {
        let (_, table) = sample();
        let told: Vec<_> = table.rows.iter().map(|row| (row.runs, row.idle_runs)).collect();
        assert_eq!(told, [(2, 0), (2, 0), (2, 1), (1, 0), (2, 0)]);
        assert_eq!(table.rows[3].failure.as_deref(), Some("the guest says: no"));
    }
}
