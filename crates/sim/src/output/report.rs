//! The report of a run. All values are integers, so that equal runs have equal reports.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use nodeward_model::{Account, NodeId};
use nodeward_scenario::{Action, REPORT, Workload, WorkloadKind};
use serde::Serialize;

use super::action_text::describe_action;
use crate::memory::MemoryRegion;
use crate::statistics::{CpuTimeKind, Moment, MoveRecord, Point, ResidencySnapshot};
use crate::world::World;

/// The last part (1/10) of a run, over which its final locality is measured.
const END_WINDOW_PARTS: u64 = 10;
const SECOND_NS: u128 = 1_000_000_000;

/// A section of a report, as `report` of a scenario names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Memory placement before and after.
    Memory,
    /// Work of the workloads.
    Workloads,
    /// Activity of the nodes.
    Nodes,
    /// Actions on the workloads.
    Actions,
    /// CPU time by purpose.
    Time,
    /// Latency of single operations.
    Latencies,
    /// Counters of hardware and kernel.
    Counters,
    /// Time series; in JSON only.
    Curves,
}

impl Section {
    /// All sections, in the order of the report.
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

    /// Returns the name in scenarios.
    pub fn name(self) -> &'static str {
        REPORT[self as usize]
    }

    /// Returns the section of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|section| section.name() == name)
    }
}

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SimReport {
    /// Name of the scenario.
    pub scenario: String,
    /// Its description.
    pub about: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// Simulated time, in virtual nanoseconds.
    pub virtual_ns: u64,
    /// Hash of everything that happened, in hexadecimal.
    pub trace_hash: String,
    /// Events of the simulation.
    pub events: u64,
    /// Base pages of all address spaces, whether they are in memory or not.
    pub mapped_pages: u64,
    /// Memory that the simulator needs to record them, in bytes.
    pub kept_bytes: u64,
    /// The hardware.
    pub machine: MachineReport,
    /// Memory placement before the first action (if the run includes that moment) and at the end.
    pub memory: Vec<MemoryReport>,
    /// Work of the workloads.
    pub workloads: Vec<WorkloadReport>,
    /// Activity of the nodes.
    pub nodes: Vec<NodeReport>,
    /// Actions on the workloads until the end.
    pub actions: Vec<ActionReport>,
    /// Pages moved by those actions.
    pub moves: Vec<ActionMoveReport>,
    /// Latencies of operations by name, without those that did not occur.
    pub latencies: BTreeMap<&'static str, LatencyReport>,
    /// CPU time by purpose, in nanoseconds, without zeros.
    pub time_ns: BTreeMap<&'static str, u64>,
    /// Counters of hardware and kernel by name, without zeros.
    pub counters: BTreeMap<&'static str, u64>,
    /// Time series.
    pub curves: Curves,
}

/// The hardware in numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineReport {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of CPUs.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Bytes per base page.
    pub page_bytes: u64,
    /// Bytes per cache line.
    pub line_bytes: u64,
}

/// Memory placement at a moment, and the locality of accesses before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// The moment and the pages by node.
    #[serde(flatten)]
    pub snapshot: ResidencySnapshot,
    /// Lines from the CPUs' own nodes, per million, in the window before. `None` without lines.
    pub local_ppm: Option<u64>,
    /// Length of that window, in virtual nanoseconds.
    pub window_ns: u64,
}

/// The work of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadReport {
    /// Its name.
    pub name: String,
    /// Its processes at the start.
    pub processes: u32,
    /// Threads per process.
    pub threads: u32,
    /// Unit of its work.
    pub unit: &'static str,
    /// Work done, in that unit.
    pub done: u64,
    /// Work done per second.
    pub done_per_s: u64,
    /// Lines from the CPUs' own nodes, per million. `None` without lines.
    pub local_ppm: Option<u64>,
    /// CPU time of all its threads, in nanoseconds.
    pub cpu_ns: u64,
}

/// The activity of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeReport {
    /// Its id.
    pub node: NodeId,
    /// Number of its CPUs.
    pub cpus: usize,
    /// Busy time of all its CPUs, in nanoseconds.
    pub busy_ns: u64,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// Unused memory at the end, in bytes.
    pub free_bytes: u64,
    /// Mean bandwidth that its memory delivered, in bytes per second.
    pub bytes_per_s: u64,
    /// Maximum of the same.
    pub bytes_per_s_max: u64,
}

/// An action that was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ActionReport {
    /// Its time, in virtual nanoseconds.
    pub at_ns: u64,
    /// Its description in a few words.
    pub what: String,
}

/// Pages that an action moved from a node to another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ActionMoveReport {
    /// Index of the action.
    pub action: usize,
    /// The source node.
    pub from: NodeId,
    /// The destination node.
    pub to: NodeId,
    /// Start time, in virtual nanoseconds.
    pub began_ns: u64,
    /// End time. `None` if it had not ended.
    pub ended_ns: Option<u64>,
    /// Base pages moved per second.
    pub pages_per_s: u64,
    /// Pages moved and skipped.
    pub account: Account,
    /// Time of each step, in nanoseconds, without zeros.
    pub step_ns: BTreeMap<&'static str, u64>,
}

/// Latency of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatencyReport {
    /// Number of operations.
    pub count: u64,
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// Maximum, in nanoseconds.
    pub max_ns: u64,
}

/// Time series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Curves {
    /// Interval between points, in virtual nanoseconds.
    pub every_ns: u64,
    /// The points.
    pub points: Vec<Point>,
}

impl World {
    /// Returns the report of the run so far.
    pub fn report(&self) -> SimReport {
        let (scenario, now_ns) = (self.scenario(), self.now_ns());
        let machine = MachineReport {
            nodes: self.machine.nodes.len(),
            cpus: self.layout.cpus.len(),
            memory_bytes: self.machine.memory_bytes(),
            page_bytes: self.machine.params.page_bytes,
            line_bytes: self.machine.params.line_bytes,
        };
        let mut points = self.recorder.series.points().to_vec();
        if points.last().is_none_or(|last| last.at_ns < now_ns) {
            points.push(self.point());
        }
        let regions = || self.spaces.iter().flat_map(|space| &space.regions);
        let actions = scenario.actions.iter().enumerate();
        let done = actions.filter(|(_, action)| action.at_ns <= now_ns);
        SimReport {
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            seed: self.seed,
            virtual_ns: now_ns,
            trace_hash: format!("{:016x}", self.trace_hash()),
            events: self.counters.events,
            mapped_pages: regions().map(|region| region.pages).sum(),
            kept_bytes: regions().map(MemoryRegion::state_bytes).sum::<usize>() as u64,
            machine,
            memory: self.memory_reports(),
            workloads: self.workload_reports(),
            nodes: (0..self.machine.nodes.len()).map(|n| self.node_report(n, &points)).collect(),
            actions: done.map(|(index, action)| self.action_report(index, action)).collect(),
            moves: self.moves.iter().map(|record| self.move_report(record)).collect(),
            latencies: self.latency_reports(),
            time_ns: named_times(&self.counters.spent_ns),
            counters: self.named_counters(),
            curves: Curves { every_ns: self.recorder.series.every_ns(), points },
        }
    }

    fn memory_reports(&self) -> Vec<MemoryReport> {
        let window = self.now_ns / END_WINDOW_PARTS;
        let end = self.residency_snapshot(Moment::End);
        let snapshots = self.recorder.before.iter().cloned().chain([end]);
        let report = |snapshot: ResidencySnapshot| {
            let (local_ppm, window_ns) = self.locality(snapshot.at_ns, window);
            MemoryReport { snapshot, local_ppm, window_ns }
        };
        snapshots.map(report).collect()
    }

    /// Returns the local lines per million in the window before a moment, as far as the time series
    /// covers it, and the length of that window.
    fn locality(&self, at_ns: u64, window_ns: u64) -> (Option<u64>, u64) {
        let series = &self.recorder.series;
        let now = (at_ns == self.now_ns).then(|| self.point());
        let Some(to) = now.as_ref().or_else(|| series.point_at(at_ns)) else { return (None, 0) };
        let Some(from) = series.point_at(to.at_ns.saturating_sub(window_ns)) else {
            return (None, 0);
        };
        let local = to.local_lines - from.local_lines;
        let all = local + to.remote_lines - from.remote_lines;
        (share_ppm(local, all), to.at_ns - from.at_ns)
    }

    fn workload_reports(&self) -> Vec<WorkloadReport> {
        let workloads = &self.scenario().workloads;
        let mut cpu_ns = vec![0; workloads.len()];
        for task in &self.tasks {
            if let Some(workload) = task.workload {
                cpu_ns[workload] += task.cpu_time_ns;
            }
        }
        let report = |(index, workload): (usize, &Workload)| {
            let [local, remote] = self.recorder.workload_lines[index];
            let done = self.counters.work_done.get(&workload.name).copied().unwrap_or(0);
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

    fn move_report(&self, record: &MoveRecord) -> ActionMoveReport {
        let id = |node: usize| self.layout.node_ids[node];
        ActionMoveReport {
            action: record.action,
            from: id(record.from),
            to: id(record.to),
            began_ns: record.began_ns,
            ended_ns: record.ended_ns,
            pages_per_s: record.pages_per_s(self.now_ns),
            account: record.account.clone(),
            step_ns: named_times(&record.step_ns),
        }
    }

    fn action_report(&self, index: usize, action: &Action) -> ActionReport {
        let outcome = self.hotplug_outcome(index, action).map(|outcome| format!(": {outcome}"));
        let what = describe_action(action) + &outcome.unwrap_or_default();
        ActionReport { at_ns: action.at_ns, what }
    }

    /// Describes the outcome of an action on the machine in words. `None` for other actions, and
    /// while the action is running.
    fn hotplug_outcome(&self, index: usize, action: &Action) -> Option<String> {
        let mut records = self.hotplugs.iter();
        let record = records.find(|record| record.action == index && record.ended_ns.is_some())?;
        Some(record.outcome(&action.kind))
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

/// Returns times by step name, from values in the order of [`CpuTimeKind::ALL`].
fn named_times(ns: &[u64; CpuTimeKind::ALL.len()]) -> BTreeMap<&'static str, u64> {
    let times = CpuTimeKind::ALL.into_iter().zip(*ns);
    times.filter(|(_, ns)| *ns > 0).map(|(spent, ns)| (spent.name(), ns)).collect()
}

/// Latencies that a tracer would measure with a probe at both ends, which adds its own cost.
const TRACED: [&str; 2] = ["allocation", "freeing"];

fn latency(histogram: &Histogram<u64>, probe_ns: u64) -> LatencyReport {
    LatencyReport {
        count: histogram.len(),
        p50_ns: histogram.value_at_quantile(0.5) + probe_ns,
        p99_ns: histogram.value_at_quantile(0.99) + probe_ns,
        max_ns: histogram.max() + probe_ns,
    }
}

/// Returns the unit that a workload counts.
fn unit(kind: &WorkloadKind) -> &'static str {
    match kind {
        WorkloadKind::Triad { .. }
        | WorkloadKind::Random { .. }
        | WorkloadKind::Phases { .. }
        | WorkloadKind::MovingSet { .. }
        | WorkloadKind::Database { .. } => "lines",
        WorkloadKind::PageFault | WorkloadKind::Hog => "pages",
        WorkloadKind::Compile { .. } => "lives",
        WorkloadKind::PingPong { .. } | WorkloadKind::Stream { .. } => "messages",
    }
}

/// Returns a part of a whole in millionths, or `None` if the whole is 0.
fn share_ppm(part: u64, whole: u64) -> Option<u64> {
    let ppm = (u128::from(part) * 1_000_000).checked_div(u128::from(whole))?;
    u64::try_from(ppm).ok()
}

/// Returns a rate per second.
fn per_s(count: u64, ns: u64) -> u64 {
    let rate = (u128::from(count) * SECOND_NS).checked_div(u128::from(ns)).unwrap_or(0);
    u64::try_from(rate).unwrap_or(u64::MAX)
}
