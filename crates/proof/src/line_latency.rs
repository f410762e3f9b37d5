//! The latency of memory: loads of lines, each of which depends on the one before.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::thread;
use std::time::Instant;

use nodeward_model::{CpuId, NodeId, Topology};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Xorshift64;

const LINE_BYTES: usize = 64;
/// Loads of one measurement: about a millisecond, so that some are not interrupted.
const LOADS: usize = 10_000;
/// Measurements of a pair of nodes; the least counts, because everything that disturbs adds to it.
const TRIES: usize = 50;

/// Measures how long a CPU of one node waits for a line from another, in nanoseconds, for each pair
/// of nodes with CPUs and memory. `bytes` are read of each node; they should be several times the
/// caches. Nodes without CPUs are left out, because memory comes from there only by request; so are
/// nodes on whose CPUs this thread may not run.
pub fn line_latencies(topology: &Topology, bytes: u64) -> BTreeMap<(NodeId, NodeId), u64> {
    let with_cpus = topology.nodes.iter().filter(|(_, node)| node.has_memory());
    let nodes = with_cpus.filter_map(|(&id, node)| Some((id, node.cpus.iter().next()?)));
    let nodes: Vec<(NodeId, CpuId)> = nodes.collect();
    let mut measured = BTreeMap::new();
    for &(to, memory_cpu) in &nodes {
        let Some(circle) = on_cpu(memory_cpu, || LineCircle::new(bytes as usize)) else { continue };
        for &(from, cpu) in &nodes {
            let ns = on_cpu(cpu, || circle.ns_per_line());
            measured.extend(ns.map(|ns| ((from, to), ns)));
        }
    }
    measured
}

/// A line, and the position of the next one.
#[repr(align(64))]
struct ChainedLine(u32);

/// Lines in one circle, in random order, so that no prefetcher knows the next one.
struct LineCircle(Vec<ChainedLine>);

impl LineCircle {
    /// Maps lines of `bytes` bytes together, two lines at least. The calling thread touches them
    /// first, so they lie on its node.
    fn new(bytes: usize) -> Self {
        let count = (bytes / LINE_BYTES).clamp(2, u32::MAX as usize);
        let mut lines: Vec<ChainedLine> = (0..count as u32).map(ChainedLine).collect();
        // Sattolo's algorithm: a permutation that is one circle.
        let mut random = Xorshift64::new(1);
        for at in (1..count).rev() {
            let other = random.below(at);
            let next = lines[at].0;
            lines[at].0 = std::mem::replace(&mut lines[other].0, next);
        }
        Self(lines)
    }

    /// Goes on from a line, load by load.
    fn follow(&self, from: u32, loads: usize) -> u32 {
        (0..loads).fold(from, |at, _| self.0[at as usize].0)
    }

    /// Returns nanoseconds for a line, as the calling thread gets it.
    fn ns_per_line(&self) -> u64 {
        let mut at = 0;
        let mut measured = || {
            let begin = Instant::now();
            at = black_box(self.follow(at, LOADS));
            begin.elapsed().as_nanos() as u64 / LOADS as u64
        };
        (0..TRIES).map(|_| measured()).min().unwrap_or(0)
    }
}

/// Runs `work` on a thread that stays on a CPU; `None` if it may not run there.
fn on_cpu<T: Send>(cpu: CpuId, work: impl FnOnce() -> T + Send) -> Option<T> {
    let cpu = cpu.0 as usize;
    let pinned = || {
        let mut only = CpuSet::new();
        (cpu < CpuSet::MAX_CPU).then(|| only.set(cpu))?;
        sched_setaffinity(None, &only).ok().map(|()| work())
    };
    thread::scope(|scope| scope.spawn(pinned).join().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a circle goes through every line once before it comes back.
    #[test]
    fn a_circle_has_every_line() {
        for count in [2, 3, 1000] {
            let circle = LineCircle::new(count * LINE_BYTES);
            let mut at = 0;
            let mut seen = vec![false; count];
            for _ in 0..count {
                at = circle.follow(at, 1);
                assert!(!std::mem::replace(&mut seen[at as usize], true), "{at} of {count} again");
            }
            assert_eq!(at, 0);
        }
    }

    /// Goal: what cannot be measured is left out: nodes without CPUs or without memory, and CPUs
    /// that are not there.
    #[test]
    fn what_cannot_be_measured_is_left_out() {
        use nodeward_model::Cpumask;
        use nodeward_model::topology::Node;
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let usable = (0..1024).find(|&cpu| allowed.is_set(cpu)).unwrap() as u32;
        let node = |cpus: &[u32], memory_bytes| Node {
            cpus: cpus.iter().map(|&cpu| CpuId(cpu)).collect::<Cpumask>(),
            memory_bytes: Some(memory_bytes),
            ..Node::default()
        };
        let nodes = [(&[usable][..], 1), (&[], 1), (&[usable], 0), (&[4000], 1)];
        let nodes = nodes.map(|(cpus, gib)| node(cpus, gib << 30));
        let nodes = (0..).map(NodeId).zip(nodes).collect();
        let topology = Topology { nodes, ..Topology::default() };
        let measured: Vec<_> = line_latencies(&topology, 1 << 20).into_keys().collect();
        assert_eq!(measured, [(NodeId(0), NodeId(0))]);
    }
}
