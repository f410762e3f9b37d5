//! The ranking of processes by memory that is away from their CPU time.

use std::collections::BTreeMap;

use nodeward_machine::{Machine, Result};
use nodeward_model::{CpuId, NodeId, Nodemask, ProcessLoad};
use nodeward_policy::rank::{self, Candidate, RankedProcess};
use serde::Serialize;

use crate::residency::{self, Options};

/// Half-width limit of the interval of each process's shares, in ppm: 5 points, some 400 pages.
const HALF_WIDTH_PPM: u64 = 50_000;
/// Maximum time for one process, in nanoseconds.
const TIME_NS_MAX: u64 = 100_000_000;

/// The machine's topology, as far as a ranking needs it.
pub struct RankingTopology<'a> {
    /// The nodes with memory.
    pub nodes: &'a Nodemask,
    /// The node of a CPU, if the CPU is known.
    pub node_of_cpu: &'a dyn Fn(CpuId) -> Option<NodeId>,
    /// The firmware's distance (SLIT) from a CPU's node to a memory node; 10 is local.
    pub distance: &'a dyn Fn(NodeId, NodeId) -> Option<u32>,
}

/// Processes by misplaced bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ranking {
    /// The processes, the one with most misplaced bytes first.
    pub processes: Vec<RankedProcess>,
    /// Number of processes that we have no permission to read.
    pub denied: u64,
}

/// Ranks processes by two samples of their CPU time taken shortly after each other (`before` and
/// `now`, each in ascending order of pids). Memory is sampled. Processes that end meanwhile are
/// left out.
///
/// # Errors
/// Only those of the machine as a whole, never those of a single process.
pub fn rank(
    machine: &dyn Machine,
    before: &[ProcessLoad],
    now: &[ProcessLoad],
    places: &RankingTopology<'_>,
) -> Result<Ranking> {
    let earlier: BTreeMap<_, _> = before.iter().map(|load| (load.pid, load)).collect();
    let mut candidates = Vec::new();
    let mut denied = 0;
    for load in now {
        match candidate(machine, earlier.get(&load.pid).copied(), load, places) {
            Ok(candidate) => candidates.push(candidate),
            Err(error) if error.is_permission() => denied += 1,
            Err(error) => tracing::debug!(pid = %load.pid, %error, "left out of the ranking"),
        }
    }
    let processes = rank::rank(candidates, places.nodes, places.distance);
    Ok(Ranking { processes, denied })
}

fn candidate(
    machine: &dyn Machine,
    before: Option<&ProcessLoad>,
    now: &ProcessLoad,
    places: &RankingTopology<'_>,
) -> Result<Candidate> {
    let process = machine.open_process(now.pid)?;
    let options = Options {
        files: false,
        half_width_ppm: HALF_WIDTH_PPM,
        time_ns_max: Some(TIME_NS_MAX),
        ..Options::default()
    };
    let total = residency::measure(machine, &*process, &options)?.total();
    let bytes = total.nodes.iter().map(|(&node, s)| (node, s.pages * machine.page_bytes()));
    let (by_cpu, active) = rank::cpu_time(before, now);
    let mut cpu_time_ns = BTreeMap::new();
    for (cpu, ns) in by_cpu {
        if let Some(node) = (places.node_of_cpu)(cpu) {
            *cpu_time_ns.entry(node).or_default() += ns;
        }
    }
    Ok(Candidate {
        pid: now.pid,
        name: now.name.clone(),
        bytes: bytes.collect(),
        cpu_time_ns,
        active,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{Page, Pid, ThreadCpuTime};

    fn load(pid: Pid, cpu_time_ns: u64) -> ProcessLoad {
        let threads = vec![ThreadCpuTime { tid: pid.number(), cpu: CpuId(0), cpu_time_ns }];
        ProcessLoad { pid, name: "worker".into(), non_file_bytes: 1 << 24, threads }
    }

    #[test]
    fn memory_away_from_the_threads_is_found_and_vanished_processes_are_not() {
        let fake = FakeMachine::new(true);
        let [ours, gone] = [7, 8].map(|pid| Pid::new(pid).unwrap());
        let pages: Vec<_> = (0..400).map(|i| Page::on(NodeId(u32::from(i >= 100)))).collect();
        fake.spawn(ours, FakeProcess::with_pages(&pages));
        let places = RankingTopology {
            nodes: &"0-1".parse().unwrap(),
            node_of_cpu: &|cpu| Some(NodeId(cpu.0)),
            distance: &|a, b| Some(if a == b { 10 } else { 20 }),
        };
        let before = [load(ours, 5), load(gone, 5)];
        let now = [load(ours, 9), load(gone, 9)];
        let ranking = rank(&fake, &before, &now, &places).unwrap();
        assert_eq!((ranking.processes.len(), ranking.denied), (1, 0));
        let first = &ranking.processes[0];
        // 300 of 400 pages are on node 1, all CPU time is on node 0. Now (1 x 10 + 3 x 20) / 4 =
        // 17.5.
        assert_eq!((first.pid, first.misplaced_bytes), (ours, 300 * 4096));
        assert_eq!((first.distance_milli, first.gain_ppm), (17_500, 428_571)); // 7.5 / 17.5
        assert!(first.active);
    }
}
