//! The figures of a report that fit into a row, by name.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use nodeward_scenario::Scenario;
use nodeward_sim::{
    ActionMoveReport, Counters, CpuTimeKind, Latencies, LatencyReport, SimReport, WorkloadReport,
};

/// The name of the only figure that is not a number.
pub const TRACE_HASH: &str = "trace_hash";

/// The default figures.
const DEFAULT_MEASURES: &[&str] = &[
    "done_per_s",
    "local_ppm",
    "moved_pages",
    "moved_pages_per_s",
    "skipped_pages",
    "allocation_p99_ns",
    "wake_up_p99_ns",
];

const WORKLOAD_MEASURES: [WorkloadMeasure; 4] = [
    ("done_per_s", |workload| Some(workload.done_per_s)),
    ("done", |workload| Some(workload.done)),
    ("local_ppm", |workload| workload.local_ppm),
    ("cpu_ns", |workload| Some(workload.cpu_ns)),
];

const LATENCY_MEASURES: [LatencyMeasure; 4] = [
    ("count", |latency| latency.count),
    ("p50_ns", |latency| latency.p50_ns),
    ("p99_ns", |latency| latency.p99_ns),
    ("max_ns", |latency| latency.max_ns),
];

/// A figure.
pub struct Measure {
    /// The name of its column.
    pub name: String,
    group: &'static str,
    /// The name without that of a workload.
    kind: &'static str,
    evaluate: Of,
}

impl Measure {
    fn new(
        group: &'static str,
        name: impl Into<String>,
        of: impl Fn(&SimReport) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        let of = Box::new(move |report: &SimReport| of(report).map(|number| number.to_string()));
        Self { name: name.into(), group, kind: "", evaluate: of }
    }

    /// Returns its value in a report; empty where there is none.
    pub fn cell(&self, report: &SimReport) -> String {
        (self.evaluate)(report).unwrap_or_default()
    }

    fn has_name(&self, word: &str) -> bool {
        self.name == word || self.kind == word
    }

    fn matches(&self, word: &str) -> bool {
        word == "all" || self.group == word || self.has_name(word)
    }
}

/// Returns the requested figures, in the order of [`all`], or the default ones.
pub fn chosen(scenario: &Scenario, words: &[String]) -> Result<Vec<Measure>> {
    let mut all = all(scenario);
    if words.is_empty() {
        all.retain(|measure| DEFAULT_MEASURES.iter().any(|word| measure.has_name(word)));
        return Ok(all);
    }
    if let Some(word) = words.iter().find(|word| !all.iter().any(|m| m.matches(word))) {
        let groups: BTreeSet<_> = all.iter().map(|measure| measure.group).collect();
        let groups = groups.into_iter().collect::<Vec<_>>().join(", ");
        let names: Vec<_> = all.iter().map(|measure| measure.name.as_str()).collect();
        bail!("there is no figure '{word}'; expected all, {groups}, or of {}", names.join(", "));
    }
    all.retain(|measure| words.iter().any(|word| measure.matches(word)));
    Ok(all)
}

/// Extracts a figure from a report; `None` where there is none.
type Of = Box<dyn Fn(&SimReport) -> Option<String> + Send + Sync>;
/// A figure of a workload, without the workload's name.
type WorkloadMeasure = (&'static str, fn(&WorkloadReport) -> Option<u64>);
/// A figure of a latency, without the latency's name.
type LatencyMeasure = (&'static str, fn(&LatencyReport) -> u64);

/// Returns all figures of a scenario's report, in the order of columns.
fn all(scenario: &Scenario) -> Vec<Measure> {
    let workloads = scenario.workloads.iter().flat_map(|workload| of_workload(&workload.name));
    workloads
        .chain(moves())
        .chain(latencies())
        .chain(time())
        .chain(run())
        .chain(counters())
        .collect()
}

fn of_workload(name: &str) -> impl Iterator<Item = Measure> + use<> {
    let name = name.to_owned();
    WORKLOAD_MEASURES.into_iter().map(move |(kind, of)| {
        let wanted = name.clone();
        let find = move |report: &SimReport| {
            report.workloads.iter().find(|workload| workload.name == wanted).and_then(of)
        };
        Measure { kind, ..Measure::new("workloads", format!("{name}.{kind}"), find) }
    })
}

fn moves() -> Vec<Measure> {
    let new = |name, of: fn(&SimReport) -> u64| Measure::new("moves", name, move |r| Some(of(r)));
    vec![
        new("moved_pages", moved),
        new("moved_pages_per_s", |report| {
            let rate = u128::from(moved(report)) * 1_000_000_000;
            let rate = rate.checked_div(u128::from(under_way_ns(report))).unwrap_or(0);
            u64::try_from(rate).unwrap_or(u64::MAX)
        }),
        new("skipped_pages", |report| {
            report.moves.iter().map(|moved| moved.account.skipped_total()).sum()
        }),
        new("moves_ns", under_way_ns),
        Measure::new("moves", "end_local_ppm", |report| report.memory.last()?.local_ppm),
    ]
}

fn moved(report: &SimReport) -> u64 {
    report.moves.iter().map(|moved| moved.account.moved).sum()
}

/// Returns the time during which at least one move was in progress.
fn under_way_ns(report: &SimReport) -> u64 {
    let span =
        |moved: &ActionMoveReport| (moved.began_ns, moved.ended_ns.unwrap_or(report.virtual_ns));
    let mut spans: Vec<_> = report.moves.iter().map(span).collect();
    spans.sort_unstable();
    let (mut all_ns, mut until_ns) = (0, 0);
    for (began_ns, ended_ns) in spans {
        all_ns += ended_ns.saturating_sub(began_ns.max(until_ns));
        until_ns = until_ns.max(ended_ns);
    }
    all_ns
}

fn latencies() -> Vec<Measure> {
    let names = Latencies::default().named().map(|(name, _)| name);
    let measure = |name: &'static str, (part, of): LatencyMeasure| {
        let column = format!("{}_{part}", name.replace('-', "_"));
        Measure::new("latencies", column, move |report| report.latencies.get(name).map(of))
    };
    names.into_iter().flat_map(|name| LATENCY_MEASURES.map(|of| measure(name, of))).collect()
}

fn time() -> Vec<Measure> {
    let measure = |spent: CpuTimeKind| {
        let name = spent.name();
        let of = move |report: &SimReport| Some(report.time_ns.get(name).copied().unwrap_or(0));
        Measure::new("time", format!("{name}_ns"), of)
    };
    CpuTimeKind::ALL.map(measure).into()
}

fn run() -> Vec<Measure> {
    let hash = Box::new(|report: &SimReport| Some(report.trace_hash.clone()));
    vec![
        Measure::new("run", "virtual_ns", |report| Some(report.virtual_ns)),
        Measure::new("run", "events", |report| Some(report.events)),
        Measure::new("run", "mapped_pages", |report| Some(report.mapped_pages)),
        Measure { name: TRACE_HASH.to_owned(), group: "run", kind: "", evaluate: hash },
    ]
}

fn counters() -> Vec<Measure> {
    let measure = |(name, _): (&'static str, u64)| {
        let of = move |report: &SimReport| Some(report.counters.get(name).copied().unwrap_or(0));
        Measure::new("counters", name, of)
    };
    Counters::default().named().into_iter().map(measure).collect()
}

#[cfg(test)]
mod tests {
    use nodeward_sim::World;

    use super::*;

    fn names(words: &[&str]) -> Vec<String> {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        let scenario = Scenario::find("two-socket").unwrap();
        chosen(&scenario, &words).unwrap().into_iter().map(|measure| measure.name).collect()
    }

    /// Goal: columns have unique names, and a fixed order whatever the order of words.
    #[test]
    fn columns_are_stable() {
        let all = names(&["all"]);
        let set: BTreeSet<_> = all.iter().collect();
        assert_eq!(set.len(), all.len(), "{all:?}");
        assert_eq!(names(&["moved_pages", "done"]), names(&["done", "moved_pages"]));
        assert_eq!(names(&["stream.done", "local_ppm"]), ["stream.done", "stream.local_ppm"]);
        let usual = names(&[]);
        assert_eq!(usual[0], "stream.done_per_s");
        assert_eq!(
            usual.len(),
            DEFAULT_MEASURES.len(),
            "every word of the usual ones means one: {usual:?}"
        );
        assert_eq!(names(&["time"]).len(), CpuTimeKind::ALL.len());
    }

    /// Goal: every counter of a report has a column with the same number.
    #[test]
    fn figures_are_those_of_the_report() {
        let sets = [("time", "20ms"), ("action.0.at", "5ms")];
        let scenario = Scenario::find_with("two-socket", &sets).unwrap();
        let mut world = World::new(&scenario, 1);
        while !world.run_events(scenario.time_ns, 4096) {}
        let report = world.report();
        let cell = |name: &str| {
            let measures = all(&scenario);
            let measure = measures.iter().find(|measure| measure.name == name);
            measure.unwrap_or_else(|| panic!("{name}")).cell(&report)
        };
        assert!(report.counters.len() > 3);
        for (name, count) in &report.counters {
            assert_eq!(cell(name), count.to_string(), "{name}");
        }
        for (name, ns) in &report.time_ns {
            assert_eq!(cell(&format!("{name}_ns")), ns.to_string(), "{name}");
        }
        for (name, latency) in &report.latencies {
            let name = name.replace('-', "_");
            assert_eq!(cell(&format!("{name}_p99_ns")), latency.p99_ns.to_string(), "{name}");
        }
        assert_eq!(cell("stream.done"), report.workloads[0].done.to_string());
        assert_eq!(cell("moved_pages"), report.moves[0].account.moved.to_string());
        assert_eq!(cell(TRACE_HASH), report.trace_hash);
        assert_eq!((cell("virtual_ns").as_str(), cell("oom_kills").as_str()), ("20000000", "0"));
    }

    /// Goal: time in which several moves overlap counts once, and pauses do not count.
    #[test]
    fn moves_side_by_side_take_their_time_once() {
        let scenario = Scenario::find("two-socket").unwrap();
        let mut report = World::new(&scenario, 1).report();
        let part = |began_ns, ended_ns, moved| ActionMoveReport {
            action: 0,
            from: nodeward_model::NodeId(0),
            to: nodeward_model::NodeId(1),
            began_ns,
            ended_ns,
            pages_per_s: 0,
            account: nodeward_model::Account { moved, ..nodeward_model::Account::default() },
            step_ns: std::collections::BTreeMap::new(),
        };
        report.virtual_ns = 120;
        report.moves = vec![
            part(110, None, 5),
            part(10, Some(30), 20),
            part(20, Some(40), 7),
            part(25, Some(35), 8),
        ];
        // 10 to 40 and 110 to 120; 40 pages in 40 ns are 10^9 a second.
        assert_eq!(under_way_ns(&report), 40);
        let rate = moves().into_iter().find(|measure| measure.name == "moved_pages_per_s").unwrap();
        assert_eq!(rate.cell(&report), "1000000000");
    }

    /// Goal: an unknown word is refused with the known ones.
    #[test]
    fn unknown_figures_are_refused() {
        let scenario = Scenario::find("two-socket").unwrap();
        let error = chosen(&scenario, &["beauty".to_owned()]).err().unwrap().to_string();
        for word in ["'beauty'", "counters", "stream.done_per_s", "flush_ipis"] {
            assert!(error.contains(word), "{word}: {error}");
        }
    }
}
