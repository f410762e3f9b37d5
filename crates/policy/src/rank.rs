//! Ranks processes by memory away from the CPUs that use it, with the gain of moving it.
//!
//! The model: every thread touches the memory of its process evenly, in proportion to its CPU time.
//! The *distance* of a node is then the mean of the firmware's distances from it to the nodes of
//! the CPU time, weighted with that time; the distance of a process is the mean over its bytes. The
//! *destination* is the node with the smallest distance (of equal ones, the node with most of the
//! memory). A byte elsewhere is *misplaced* by the difference between the destination's part of the
//! CPU time and that of its own node: fully if the threads run on the destination alone, by 2 % if
//! they run 51 to 49. The *gain* is the reduction of the mean distance if all memory were on the
//! destination. A process that is spread over the nodes as evenly as its threads thus ranks low, as
//! it should.

use std::collections::BTreeMap;

use nodeward_model::name::in_json;
use nodeward_model::{CpuId, Name, NodeId, Nodemask, Pid, ProcessLoad};
use serde::Serialize;

const WHOLE_PPM: u128 = 1_000_000;

/// The distance used for a missing one: the usual one to another node.
pub(crate) const REMOTE_DISTANCE: u32 = 20;

/// The input of the ranking for one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The pid of the process.
    pub pid: Pid,
    /// The name of the process.
    pub name: Name,
    /// Bytes on each node.
    pub bytes: BTreeMap<NodeId, u64>,
    /// CPU time on each node, in nanoseconds.
    pub cpu_time_ns: BTreeMap<NodeId, u64>,
    /// True if it ran during the observation; otherwise the CPU time is that since its start.
    pub active: bool,
}

/// A process and the effect of moving its memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RankedProcess {
    /// The pid of the process.
    pub pid: Pid,
    /// The name of the process.
    #[serde(flatten, serialize_with = "in_json")]
    pub name: Name,
    /// Memory away from its CPU time, in bytes.
    pub misplaced_bytes: u64,
    /// The memory of the process on all nodes, in bytes.
    pub bytes: u64,
    /// Bytes on each node.
    pub node_bytes: BTreeMap<NodeId, u64>,
    /// The share of its CPU time on each node, in ppm.
    pub cpu_share_ppm: BTreeMap<NodeId, u64>,
    /// True if it ran during the observation.
    pub active: bool,
    /// The node nearest to its CPU time.
    pub destination: NodeId,
    /// Mean distance of its memory from its CPU time now, in thousandths (10000 is local).
    pub distance_milli: u64,
    /// The same distance with all memory on the destination.
    pub distance_milli_there: u64,
    /// The relative reduction of the mean distance, in ppm.
    pub gain_ppm: u64,
}

/// Returns the CPU time of a process by CPU between two samples, in nanoseconds. A thread's time
/// counts for the CPU where it ran last. A thread that is new counts from its start. If nothing ran
/// in between, the result is the time since the start, and the flag is false.
pub fn cpu_time(before: Option<&ProcessLoad>, now: &ProcessLoad) -> (BTreeMap<CpuId, u64>, bool) {
    let known = before.map_or(&[][..], |load| &load.threads);
    let earlier: BTreeMap<_, _> = known.iter().map(|t| (t.tid, t.cpu_time_ns)).collect();
    let mut recent = BTreeMap::new();
    let mut ever = BTreeMap::new();
    for thread in &now.threads {
        let since = earlier.get(&thread.tid).copied().unwrap_or(0);
        *recent.entry(thread.cpu).or_default() += thread.cpu_time_ns.saturating_sub(since);
        *ever.entry(thread.cpu).or_default() += thread.cpu_time_ns;
    }
    let active = before.is_some() && recent.values().any(|&ns: &u64| ns > 0);
    (if active { recent } else { ever }, active)
}

/// Ranks processes by misplaced bytes in descending order, then by pid. `nodes` are those with
/// memory; `distance` is the firmware's from a CPU's node to a memory node (10 is local). Processes
/// without memory or CPU time are left out, because they have no distance.
pub fn rank(
    candidates: Vec<Candidate>,
    nodes: &Nodemask,
    distance: &dyn Fn(NodeId, NodeId) -> Option<u32>,
) -> Vec<RankedProcess> {
    let judged =
        candidates.into_iter().filter_map(|candidate| rank_process(candidate, nodes, distance));
    let mut ranked: Vec<RankedProcess> = judged.collect();
    ranked.sort_by_key(|r| (std::cmp::Reverse(r.misplaced_bytes), r.pid));
    ranked
}

fn rank_process(
    candidate: Candidate,
    nodes: &Nodemask,
    distance: &dyn Fn(NodeId, NodeId) -> Option<u32>,
) -> Option<RankedProcess> {
    let bytes: u64 = candidate.bytes.values().sum();
    let cpu_share_ppm = shares(&candidate.cpu_time_ns)?;
    let far = |node| mean_distance_milli(&cpu_share_ppm, node, distance);
    let held = |node: &NodeId| candidate.bytes.get(node).copied().unwrap_or(0);
    let destination = nodes
        .iter()
        .min_by_key(|n| (far(*n), std::cmp::Reverse(held(n)), *n))
        .filter(|_| bytes > 0)?;
    let now = mean_over_bytes(&candidate.bytes, bytes, far);
    let there = far(destination);
    Some(RankedProcess {
        misplaced_bytes: misplaced(&candidate.bytes, &cpu_share_ppm, destination),
        bytes,
        active: candidate.active,
        destination,
        distance_milli: now,
        distance_milli_there: there,
        gain_ppm: part_ppm(now.saturating_sub(there).into(), now.into()),
        pid: candidate.pid,
        name: candidate.name,
        node_bytes: candidate.bytes,
        cpu_share_ppm,
    })
}

/// Returns the parts of the whole in ppm; `None` if the whole is zero.
fn shares(amounts: &BTreeMap<NodeId, u64>) -> Option<BTreeMap<NodeId, u64>> {
    let whole: u128 = amounts.values().copied().map(u128::from).sum();
    let share = |(&node, &amount)| (node, part_ppm(u128::from(amount), whole));
    (whole > 0).then(|| amounts.iter().map(share).filter(|&(_, ppm)| ppm > 0).collect())
}

fn mean_distance_milli(
    cpu_share_ppm: &BTreeMap<NodeId, u64>,
    node: NodeId,
    distance: &dyn Fn(NodeId, NodeId) -> Option<u32>,
) -> u64 {
    let to = |&cpu_node: &NodeId| distance(cpu_node, node).unwrap_or(REMOTE_DISTANCE);
    let weighed = cpu_share_ppm.iter().map(|(cpu, &ppm)| u128::from(to(cpu)) * u128::from(ppm));
    saturating_u64(weighed.sum::<u128>() / 1000)
}

fn mean_over_bytes(bytes: &BTreeMap<NodeId, u64>, whole: u64, far: impl Fn(NodeId) -> u64) -> u64 {
    let weighed = bytes.iter().map(|(&node, &held)| u128::from(far(node)) * u128::from(held));
    saturating_u64(weighed.sum::<u128>() / u128::from(whole.max(1)))
}

fn misplaced(
    bytes: &BTreeMap<NodeId, u64>,
    cpu_share_ppm: &BTreeMap<NodeId, u64>,
    destination: NodeId,
) -> u64 {
    let share = |node| cpu_share_ppm.get(&node).copied().unwrap_or(0);
    let excess = |node| u128::from(share(destination).saturating_sub(share(node)));
    let weighed = bytes.iter().map(|(&node, &held)| u128::from(held) * excess(node));
    saturating_u64(weighed.sum::<u128>() / WHOLE_PPM)
}

fn part_ppm(part: u128, whole: u128) -> u64 {
    saturating_u64((part * WHOLE_PPM + whole / 2) / whole.max(1))
}

fn saturating_u64(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeward_model::ThreadCpuTime;

    const GIB: u64 = 1 << 30;

    fn by_node(amounts: &[u64]) -> BTreeMap<NodeId, u64> {
        (0..).map(NodeId).zip(amounts.iter().copied()).collect()
    }

    fn candidate(pid: u32, bytes: &[u64], cpu_time_ns: &[u64]) -> Candidate {
        Candidate {
            pid: Pid::new(pid).unwrap(),
            name: format!("p{pid}").into(),
            bytes: by_node(bytes),
            cpu_time_ns: by_node(cpu_time_ns),
            active: true,
        }
    }

    /// Local 10, remote 21; node 2 has memory and no CPU and is at distance 31 from all nodes.
    fn check(candidates: Vec<Candidate>) -> Vec<RankedProcess> {
        let distance = |from: NodeId, to: NodeId| match (from == to, to.0) {
            (true, _) => Some(10),
            (false, 2) => Some(31),
            (false, _) => Some(21),
        };
        rank(candidates, &"0-2".parse().unwrap(), &distance)
    }

    #[test]
    fn memory_away_from_every_thread_is_misplaced_whole() {
        let ranked = check(vec![candidate(5, &[GIB, 3 * GIB], &[100, 0])]);
        let first = &ranked[0];
        assert_eq!((first.misplaced_bytes, first.destination), (3 * GIB, NodeId(0)));
        // (1 x 10 + 3 x 21) / 4 = 18.25 now, 10 there: 8.25 / 18.25 = 45.2055 % is saved.
        assert_eq!((first.distance_milli, first.distance_milli_there), (18_250, 10_000));
        assert_eq!(first.gain_ppm, 452_055);
    }

    #[test]
    fn memory_spread_as_the_threads_are_is_hardly_misplaced() {
        let ranked = check(vec![candidate(5, &[GIB, GIB], &[51, 49])]);
        // Of the GiB on node 1 the part 0.51 - 0.49 = 2 %.
        assert_eq!(ranked[0].misplaced_bytes, GIB / 50);
    }

    #[test]
    fn a_node_without_cpus_is_never_the_destination_of_busy_threads() {
        let ranked = check(vec![candidate(5, &[0, 0, GIB], &[0, 7])]);
        assert_eq!((ranked[0].destination, ranked[0].misplaced_bytes), (NodeId(1), GIB));
    }

    #[test]
    fn the_order_is_by_misplaced_bytes_then_by_pid() {
        let ranked = check(vec![
            candidate(9, &[0, GIB], &[1, 0]),
            candidate(8, &[GIB, 0], &[1, 0]),
            candidate(7, &[0, GIB], &[1, 0]),
            candidate(6, &[0, 2 * GIB], &[1, 0]),
            candidate(4, &[0, 0], &[1, 0]),   // no memory
            candidate(3, &[GIB, 0], &[0, 0]), // never ran
        ]);
        let pids: Vec<_> = ranked.iter().map(|r| r.pid.number()).collect();
        assert_eq!(pids, [6, 7, 9, 8]);
    }

    fn load(threads: &[(u32, u32, u64)]) -> ProcessLoad {
        let thread = |&(tid, cpu, cpu_time_ns)| ThreadCpuTime { tid, cpu: CpuId(cpu), cpu_time_ns };
        ProcessLoad {
            pid: Pid::new(1).unwrap(),
            name: Name::default(),
            non_file_bytes: 0,
            threads: threads.iter().map(thread).collect(),
        }
    }

    #[test]
    fn cpu_time_is_what_was_added_where_the_thread_is_now() {
        let before = load(&[(1, 0, 1000), (2, 1, 500)]);
        let now = load(&[(1, 0, 1000), (2, 0, 530), (3, 2, 7)]);
        let expected: BTreeMap<_, _> = [(CpuId(0), 30), (CpuId(2), 7)].into();
        let (seen, active) = cpu_time(Some(&before), &now);
        assert!(active && seen.into_iter().filter(|(_, ns)| *ns > 0).eq(expected));
    }

    #[test]
    fn the_time_since_the_start_stands_in_for_a_sleeper() {
        let now = load(&[(1, 3, 1000)]);
        assert_eq!(cpu_time(Some(&now), &now), ([(CpuId(3), 1000)].into(), false));
        assert!(!cpu_time(None, &now).1);
    }
}
