//! How it went: what a run has to tell, in whole numbers, so that equal runs have equal reports.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use nodeward_model::{Account, NodeId};
use nodeward_scenario::{Action, Kind, REPORT, Workload};
use serde::Serialize;

use crate::actions::MoveRecord;
use crate::counters::Counters;
use crate::latencies::Latencies;
use crate::perfetto::describe;
use crate::series::Point;
use crate::space::Region;
use crate::task::Spent;
use crate::world::{Moment, Picture, World};

/// What part of a run, at its end, stands for how it ended.
const WINDOW_PARTS: u64 = 10;
const SECOND_NS: u128 = 1_000_000_000;

/// A part of a report: what `report` of a scenario may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Where memory was before and after.
    Memory,
    /// What workloads did.
    Workloads,
    /// What nodes did.
    Nodes,
    /// What was done to the workloads.
    Actions,
    /// What CPU time was spent on.
    Time,
    /// How long single things took.
    Latencies,
    /// What hardware and kernel would count.
    Counters,
    /// The curves; in JSON only.
    Curves,
}

impl Section {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 8] = [
        Self::Memory,
        Self::Workloads,
        Self::Nodes,
        Self::Actions,
        Self::Time,
        Self::Latencies,
        Self::Counters,
        Self::Curves,
    ];

    /// The name in scenarios.
    pub fn name(self) -> &'static str {
        REPORT[self as usize]
    }

    /// The one of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|section| section.name() == name)
    }
}

/// How a run went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Of which scenario.
    pub scenario: String,
    /// What it is for.
    pub about: String,
    /// What every choice came from.
    pub seed: u64,
    /// How long it was simulated, in virtual nanoseconds.
    pub virtual_ns: u64,
    /// What stands for all that happened, in hexadecimal.
    pub trace_hash: String,
    /// Events of the simulation.
    pub events: u64,
    /// Base pages of all address spaces, whether they are in memory or not.
    pub mapped_pages: u64,
    /// What the simulator itself keeps for them, in bytes.
    pub kept_bytes: u64,
    /// Its hardware.
    pub machine: MachineReport,
    /// Where memory was before anything was done, if that is a moment of this run, and at the end.
    pub memory: Vec<MemoryReport>,
    /// What workloads did.
    pub workloads: Vec<WorkloadReport>,
    /// What nodes did.
    pub nodes: Vec<NodeReport>,
    /// What was done to the workloads until the end.
    pub actions: Vec<ActionReport>,
    /// What they moved.
    pub moves: Vec<MoveReport>,
    /// How long single things took, by name; without what did not happen.
    pub latencies: BTreeMap<&'static str, LatencyReport>,
    /// CPU time by what it was spent on, in nanoseconds; without what took none.
    pub time_ns: BTreeMap<&'static str, u64>,
    /// What hardware and kernel would count, by name; without what did not happen.
    pub counters: BTreeMap<&'static str, u64>,
    /// Curves.
    pub curves: Curves,
}

/// The hardware in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineReport {
    /// Its nodes.
    pub nodes: usize,
    /// Its CPUs.
    pub cpus: usize,
    /// Its memory.
    pub memory_bytes: u64,
    /// A base page.
    pub page_bytes: u64,
    /// A cache line.
    pub line_bytes: u64,
}

/// Where memory was, and how local its use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// When.
    #[serde(flatten)]
    pub picture: Picture,
    /// Lines from the CPUs' own nodes, of a million, in the time before; none without lines.
    pub local_ppm: Option<u64>,
    /// How long that time is, in virtual nanoseconds.
    pub window_ns: u64,
}

/// What a workload did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadReport {
    /// Its name.
    pub name: String,
    /// Its processes at first.
    pub processes: u32,
    /// Threads of each.
    pub threads: u32,
    /// What it does.
    pub unit: &'static str,
    /// How often it did that.
    pub done: u64,
    /// The same in a second.
    pub done_per_s: u64,
    /// Lines from the CPUs' own nodes, of a million; none without lines.
    pub local_ppm: Option<u64>,
    /// CPU time of all its threads, in nanoseconds.
    pub cpu_ns: u64,
}

/// What a node did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeReport {
    /// Its id.
    pub node: NodeId,
    /// Its CPUs.
    pub cpus: usize,
    /// CPU time that was not idle, of all of them, in nanoseconds.
    pub busy_ns: u64,
    /// Its memory.
    pub memory_bytes: u64,
    /// What nobody uses at the end.
    pub free_bytes: u64,
    /// What its memory delivered in a second: the mean of the curve.
    pub bytes_per_s: u64,
    /// The same at most.
    pub bytes_per_s_max: u64,
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ActionReport {
    /// When, in virtual nanoseconds.
    pub at_ns: u64,
    /// What, in a few words.
    pub what: String,
}

/// What an action moved from a node to another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MoveReport {
    /// Which of the actions, in their order.
    pub action: usize,
    /// The node that was left.
    pub from: NodeId,
    /// The node that was gone to.
    pub to: NodeId,
    /// When it began, in virtual nanoseconds.
    pub began_ns: u64,
    /// When it ended; none if it had not.
    pub ended_ns: Option<u64>,
    /// Base pages that were moved in a second.
    pub pages_per_s: u64,
    /// What became of its pages.
    pub account: Account,
    /// How long each step took, in nanoseconds; without those that took none.
    pub step_ns: BTreeMap<&'static str, u64>,
}

/// How long a thing took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatencyReport {
    /// How often it happened.
    pub count: u64,
    /// A half of them took at most so many nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 did.
    pub p99_ns: u64,
    /// All did.
    pub max_ns: u64,
}

/// Curves over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Curves {
    /// How far points are apart, in virtual nanoseconds.
    pub every_ns: u64,
    /// The points.
    pub points: Vec<Point>,
}

impl World {
    /// How it went so far.
    pub fn report(&self) -> Report {
        let (scenario, now_ns) = (self.scenario(), self.now_ns());
        let machine = MachineReport {
            nodes: self.machine.nodes.len(),
            cpus: self.layout.cpus.len(),
            memory_bytes: self.machine.memory_bytes(),
            page_bytes: self.machine.params.page_bytes,
            line_bytes: self.machine.params.line_bytes,
        };
        let mut points = self.watch.series.points().to_vec();
        if points.last().is_none_or(|last| last.at_ns < now_ns) {
            points.push(self.point());
        }
        let regions = || self.spaces.iter().flat_map(|space| &space.regions);
        let actions = scenario.actions.iter().enumerate();
        let done = actions.filter(|(_, action)| action.at_ns <= now_ns);
        Report {
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            seed: self.seed,
            virtual_ns: now_ns,
            trace_hash: format!("{:016x}", self.trace_hash()),
            events: self.counters.events,
            mapped_pages: regions().map(|region| region.pages).sum(),
            kept_bytes: regions().map(Region::bytes).sum::<usize>() as u64,
            machine,
            memory: self.memory_reports(),
            workloads: self.workload_reports(),
            nodes: (0..self.machine.nodes.len()).map(|n| self.node_report(n, &points)).collect(),
            actions: done.map(|(index, action)| self.action_report(index, action)).collect(),
            moves: self.moves.iter().map(|record| self.move_report(record)).collect(),
            latencies: self.latency_reports(),
            time_ns: by_step(&self.counters.spent_ns),
            counters: self.named_counters(),
            curves: Curves { every_ns: self.watch.series.every_ns(), points },
        }
    }

    fn memory_reports(&self) -> Vec<MemoryReport> {
        let window = self.now_ns / WINDOW_PARTS;
        let end = self.picture(Moment::End);
        let pictures = self.watch.before.iter().cloned().chain([end]);
        let report = |picture: Picture| {
            let (local_ppm, window_ns) = self.locality(picture.at_ns, window);
            MemoryReport { picture, local_ppm, window_ns }
        };
        pictures.map(report).collect()
    }

    /// Local lines of a million in the time before a moment, as far as the curve tells, and how
    /// long that time is.
    fn locality(&self, at_ns: u64, window_ns: u64) -> (Option<u64>, u64) {
        let series = &self.watch.series;
        let now = (at_ns == self.now_ns).then(|| self.point());
        let Some(to) = now.as_ref().or_else(|| series.at(at_ns)) else { return (None, 0) };
        let Some(from) = series.at(to.at_ns.saturating_sub(window_ns)) else { return (None, 0) };
        let local = to.local_lines - from.local_lines;
        let all = local + to.remote_lines - from.remote_lines;
        (share_ppm(local, all), to.at_ns - from.at_ns)
    }

    fn workload_reports(&self) -> Vec<WorkloadReport> {
        let workloads = &self.scenario().workloads;
        let mut cpu_ns = vec![0; workloads.len()];
        for task in &self.tasks {
            if let Some(workload) = task.workload {
                cpu_ns[workload] += task.ran_ns;
            }
        }
        let report = |(index, workload): (usize, &Workload)| {
            let [local, remote] = self.watch.lines[index];
            let done = self.counters.done.get(&workload.name).copied().unwrap_or(0);
            WorkloadReport {
                name: workload.name.clone(),
                processes: workload.processes,
                threads: workload.threads,
                unit: unit(&workload.kind),
                done,
                done_per_s: per_s(done, self.now_ns),
                local_ppm: share_ppm(local, local + remote),
                cpu_ns: cpu_ns[index],
            }
        };
        workloads.iter().enumerate().map(report).collect()
    }

    fn node_report(&self, node: usize, points: &[Point]) -> NodeReport {
        let cpus = &self.layout.cpus_of_node[node];
        let entry = &self.machine.nodes[node];
        let rates = points.iter().map(|point| point.nodes[node].bytes_per_s);
        let count = (rates.len() as u128).max(1);
        let sum = rates.clone().map(u128::from).sum::<u128>();
        NodeReport {
            node: entry.id,
            cpus: cpus.len(),
            busy_ns: cpus.iter().map(|&cpu| self.cpus[cpu].busy_ns).sum(),
            memory_bytes: entry.memory_bytes,
            free_bytes: self.memory.free(node) * self.machine.params.page_bytes,
            bytes_per_s: u64::try_from(sum / count).unwrap_or(u64::MAX),
            bytes_per_s_max: rates.max().unwrap_or(0),
        }
    }

    fn move_report(&self, record: &MoveRecord) -> MoveReport {
        let id = |node: usize| self.layout.node_ids[node];
        MoveReport {
            action: record.action,
            from: id(record.from),
            to: id(record.to),
            began_ns: record.began_ns,
            ended_ns: record.ended_ns,
            pages_per_s: record.pages_per_s(self.now_ns),
            account: record.account.clone(),
            step_ns: by_step(&record.step_ns),
        }
    }

    fn action_report(&self, index: usize, action: &Action) -> ActionReport {
        let outcome = self.outcome_of(index).map(|outcome| format!(": {outcome}"));
        let what = describe(action) + &outcome.unwrap_or_default();
        ActionReport { at_ns: action.at_ns, what }
    }

    fn latency_reports(&self) -> BTreeMap<&'static str, LatencyReport> {
        let all = self.latencies.named();
        let some = all.into_iter().filter(|(_, histogram)| !histogram.is_empty());
        let probe_ns = |name| if TRACED.contains(&name) { self.machine.params.probe_ns } else { 0 };
        some.map(|(name, histogram)| (name, latency(histogram, probe_ns(name)))).collect()
    }

    fn named_counters(&self) -> BTreeMap<&'static str, u64> {
        self.counters.named().into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

impl Latencies {
    /// All of them, by the names in reports.
    pub fn named(&self) -> [(&'static str, &Histogram<u64>); 4] {
        let Self { allocation, freeing, wake, round_trip } = self;
        [
            ("allocation", allocation),
            ("freeing", freeing),
            ("wake-up", wake),
            ("round-trip", round_trip),
        ]
    }
}

impl Counters {
    /// All that reports tell, by the names there.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        let counters = self;
        let all = [
            ("local_lines", counters.local_lines),
            ("remote_lines", counters.remote_lines),
            ("flush_ipis", counters.flush_ipis),
            ("faulted_pages", counters.faulted_pages),
            ("freed_pages", counters.freed_pages),
            ("migrated_pages", counters.migrated_pages),
            ("zone_visits", counters.zone_visits),
            ("zone_waited_ns", counters.zone_waited_ns),
            ("zone_held_ns", counters.zone_held_ns),
            ("zone_refills", counters.zone_refills),
            ("zone_refill_waited_ns", counters.zone_refill_waited_ns),
            ("zone_refill_held_ns", counters.zone_refill_held_ns),
            ("lru_visits", counters.lru_visits),
            ("lru_waited_ns", counters.lru_waited_ns),
            ("huge_faults", counters.huge_faults),
            ("list_drains", counters.list_drains),
            ("oom_kills", counters.oom_kills),
            ("flushes", counters.flushes),
            ("lazy_faults", counters.lazy_faults),
            ("lazy_pages", counters.lazy_pages),
            ("numa_scans", counters.numa_scans),
            ("numa_moves", counters.numa_moves),
            ("numa_swaps", counters.numa_swaps),
            ("called_pages", counters.called_pages),
            ("cache_hits", counters.cache_hits),
            ("tlb_walks", counters.tlb_walks),
            ("flight_waits", counters.flight_waits),
            ("switches", counters.switches),
            ("deep_wakes", counters.deep_wakes),
            ("task_moves", counters.task_moves),
            ("task_node_moves", counters.task_node_moves),
            ("failed_allocations", counters.failed_allocations),
            ("turned_back", counters.turned_back),
            ("late_answers", counters.late_answers),
            ("lost_samples", counters.lost_samples),
            ("stale_looks", counters.stale_looks),
            ("forks", counters.forks),
            ("copied_on_write", counters.copied_on_write),
        ];
        all.to_vec()
    }
}

/// Times by their names, in the order of [`Spent::ALL`].
fn by_step(ns: &[u64; Spent::ALL.len()]) -> BTreeMap<&'static str, u64> {
    let times = Spent::ALL.into_iter().zip(*ns);
    times.filter(|(_, ns)| *ns > 0).map(|(spent, ns)| (spent.name(), ns)).collect()
}

/// What a tracer would time with a probe of its own at both ends.
const TRACED: [&str; 2] = ["allocation", "freeing"];

fn latency(histogram: &Histogram<u64>, probe_ns: u64) -> LatencyReport {
    LatencyReport {
        count: histogram.len(),
        p50_ns: histogram.value_at_quantile(0.5) + probe_ns,
        p99_ns: histogram.value_at_quantile(0.99) + probe_ns,
        max_ns: histogram.max() + probe_ns,
    }
}

/// What a workload counts.
fn unit(kind: &Kind) -> &'static str {
    match kind {
        Kind::Triad { .. } | Kind::Random { .. } | Kind::Phases { .. } | Kind::MovingSet { .. } => {
            "lines"
        }
        Kind::PageFault | Kind::Hog => "pages",
        Kind::Compile { .. } => "lives",
        Kind::PingPong { .. } | Kind::Stream { .. } => "messages",
    }
}

/// A part of a whole, in millionths; none of nothing.
fn share_ppm(part: u64, whole: u64) -> Option<u64> {
    let ppm = (u128::from(part) * 1_000_000).checked_div(u128::from(whole))?;
    u64::try_from(ppm).ok()
}

/// How often in a second.
fn per_s(count: u64, ns: u64) -> u64 {
    let rate = (u128::from(count) * SECOND_NS).checked_div(u128::from(ns)).unwrap_or(0);
    u64::try_from(rate).unwrap_or(u64::MAX)
}
