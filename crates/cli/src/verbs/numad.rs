//! nodeward when it is called `numad`. It answers `numad -w CPUS[:MB]`, as libvirt asks it, with a
//! list of nodes. It is no daemon: for that there is `nodeward balance`, and options that would
//! start or steer the daemon are refused with the words of nodeward to use instead.

mod args;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use nodeward_linux::{Linux, nodes};
use nodeward_machine::Machine;
use nodeward_model::{CpuId, MachineSnapshot, NodeId, Nodemask, ProcessFilter, Topology};
use nodeward_policy::advice::{NodeOffer, nodes_for};

use crate::machines::kept_empty;
use crate::output;
use args::{NumadCall, NumadQuery};

/// The name of a link to nodeward that makes it act as that program.
pub const NAME: &str = "numad";

/// Time for which loads are measured, in nanoseconds. The kernel counts a running thread's time at
/// each tick, of 10 ms at most, so a load is known to a twentieth.
const WINDOW_NS: u64 = 200_000_000;

/// Runs with these arguments.
pub fn run(arguments: &[String]) -> ExitCode {
    // A running balancer stands back while a process of the name numad is there.
    rustix::thread::set_name(c"nodeward").unwrap_or_default();
    let answer = NumadCall::parse(arguments).and_then(|call| match call {
        NumadCall::Help => Ok(args::USAGE.to_owned()),
        NumadCall::Version => Ok(format!("numad of nodeward {}\n", env!("CARGO_PKG_VERSION"))),
        NumadCall::Query(query) => here(&query).map(|nodes| format!("{nodes}\n")),
    });
    match answer.and_then(|text| output::print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say!("numad: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Advises on this machine.
fn here(query: &NumadQuery) -> Result<Nodemask> {
    let machine = Linux::open();
    let topology = machine.topology()?;
    let kept = kept_empty::by_settings(&topology, None)?;
    let names = nodes::nodestring_context(Path::new("/"), &topology)?;
    advise(&machine, query, &names.allowed, &kept)
}

/// Returns the nodes for a program, of those that this process may have memory on and that are not
/// kept empty: these are never advised, also if the others have no room. Takes a fifth of a second.
fn advise(
    machine: &dyn Machine,
    query: &NumadQuery,
    allowed: &Nodemask,
    kept: &Nodemask,
) -> Result<Nodemask> {
    let mut watch = machine.watch(&ProcessFilter::default())?;
    let first = watch.snapshot()?;
    machine.sleep_ns(WINDOW_NS);
    let second = watch.snapshot()?;
    let topology = machine.topology()?;
    let usable = machine.usable_cpus()?.without(&query.reserved);
    let busy_ppm = busy_ppm(&first, &second, &topology);
    let mut offers = BTreeMap::new();
    let with_both = topology.nodes_with_cpus().and(&topology.nodes_with_memory());
    for node in with_both.and(allowed).without(kept).iter() {
        let cpus = topology.nodes[&node].cpus.and(&usable).len();
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        let busy = busy_ppm.get(&node).copied().unwrap_or(0);
        let idle_ppm = (u64::from(cpus) * 1_000_000).saturating_sub(busy);
        let free_bytes = free_bytes(&second, node, query.counts_cold, machine.page_bytes());
        offers.insert(node, NodeOffer { cpus, idle_ppm, free_bytes });
    }
    offers.retain(|_, offer| offer.cpus > 0);
    if offers.is_empty() {
        let none = kept_empty::no_node_outside(kept);
        bail!("{none} has CPUs and memory that this process may use (cpuset, taskset)");
    }
    Ok(nodes_for(query.need, &offers, &topology))
}

/// Returns the CPU time that processes use on each node, in millionths of a CPU. A process that
/// started since the first snapshot counts from its start.
fn busy_ppm(
    first: &MachineSnapshot,
    second: &MachineSnapshot,
    topology: &Topology,
) -> BTreeMap<NodeId, u64> {
    let elapsed_ns = second.at_ns.saturating_sub(first.at_ns).max(1);
    let threads = |snapshot: &MachineSnapshot| -> BTreeMap<u32, (CpuId, u64)> {
        let all = snapshot.processes.iter().flat_map(|process| &process.threads);
        all.map(|thread| (thread.tid, (thread.cpu, thread.cpu_time_ns))).collect()
    };
    let before = threads(first);
    let mut busy = BTreeMap::new();
    for (tid, (cpu, now_ns)) in threads(second) {
        let before_ns = before.get(&tid).map_or(0, |&(_, ns)| ns);
        // A thread uses one CPU at most, also one with the id of an earlier thread.
        let ran_ns = now_ns.saturating_sub(before_ns).min(elapsed_ns);
        if let Some(node) = topology.node_of_cpu(cpu) {
            *busy.entry(node).or_default() += ran_ns * 1_000_000 / elapsed_ns;
        }
    }
    busy
}

/// Returns the memory that a node can give: free, and cold pages of files if they count.
fn free_bytes(snapshot: &MachineSnapshot, node: NodeId, counts_cold: bool, page: u64) -> u64 {
    let room = snapshot.nodes.get(&node).map(|node| node.headroom).unwrap_or_default();
    let pages = if counts_cold { room.free_or_cold_pages() } else { room.free_pages };
    pages.saturating_mul(page)
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess, FakeThread};
    use nodeward_model::Pid;

    use super::*;

    fn query(words: &[&str]) -> NumadQuery {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        match NumadCall::parse(&words).unwrap() {
            NumadCall::Query(query) => query,
            _ => panic!("a query"),
        }
    }

    /// A process with threads that run all the time on these CPUs.
    fn busy(cpus: &[u32]) -> FakeProcess {
        let thread = |&cpu: &u32| FakeThread::new(CpuId(cpu), "0-7".parse().unwrap(), 1000);
        FakeProcess {
            threads: (100..).zip(cpus.iter().map(thread)).collect(),
            ..FakeProcess::default()
        }
    }

    fn advised(words: &[&str], process: FakeProcess) -> String {
        advised_outside("", words, process).unwrap()
    }

    /// Returns the advice, or why there is none, while the nodes `kept` are kept empty.
    fn advised_outside(kept: &str, words: &[&str], process: FakeProcess) -> Result<String, String> {
        let machine = FakeMachine::with_topology(true, "2n 4c 1t 4GiB");
        machine.spawn(Pid::new(7).unwrap(), process);
        let (allowed, kept) = ("0-1".parse().unwrap(), kept.parse().unwrap());
        let told = advise(&machine, &query(words), &allowed, &kept);
        told.map(|nodes| nodes.to_string()).map_err(|error| error.to_string())
    }

    /// Goal: the node with idle CPUs is advised; both, if one has not enough.
    #[test]
    fn idle_cpus_are_advised() {
        assert_eq!(advised(&["-w", "3"], busy(&[0, 1])), "1", "2 CPUs of node 0 are busy");
        assert_eq!(advised(&["-w", "3"], busy(&[4, 5])), "0");
        assert_eq!(advised(&["-w", "6"], busy(&[0, 1])), "0-1");
    }

    /// Goal: reserved CPUs do not count, and a node all of whose CPUs are reserved is not advised.
    #[test]
    fn reserved_cpus_are_left_out() {
        assert_eq!(advised(&["-R", "0-3", "-w", "2"], busy(&[4, 5, 6])), "1");
    }

    /// Goal: a node that is kept empty is not advised: not if the other is busier, has too little
    /// memory (4 GiB) or too few CPUs (4), and not if all CPUs of the other are reserved.
    #[test]
    fn kept_empty_nodes_are_left_out() {
        let node_0 = Ok("0".to_owned());
        let without_1 = |words: &[&str]| advised_outside("1", words, busy(&[0, 1]));
        assert_eq!(without_1(&["-w", "3"]), node_0);
        assert_eq!(without_1(&["-w", "1:6000"]), node_0);
        assert_eq!(without_1(&["-w", "6"]), node_0);
        let none = without_1(&["-R", "0-3", "-w", "1"]).unwrap_err();
        assert!(none.starts_with("no node outside 1 (balance.keep-empty) has CPUs"), "{none}");
    }

    /// Goal: a process that may use no node is told so.
    #[test]
    fn without_a_node_it_fails() {
        let machine = FakeMachine::new(true);
        let none = Nodemask::new();
        let told = advise(&machine, &query(&["-w", "1"]), &none, &none).unwrap_err().to_string();
        assert!(told.starts_with("no node has CPUs"), "{told}");
    }
}
