//! `nodeward bench`: measurements of nodeward on this machine.

mod agent;
mod balance;
mod calls;
mod limits;
mod pager;
mod pool;

use anyhow::Result;
use nodeward_model::{NodeId, Topology};
use nodeward_proof::NodeRoute;

use crate::args::{BenchArgs, Benchmark};
use crate::message::exit::Exit;

/// Measures.
pub fn run(args: &BenchArgs) -> Result<Exit> {
    match &args.benchmark {
        Benchmark::Pager(args) => pager::run(args),
        Benchmark::Pool(args) => pool::run(args),
        Benchmark::Calls(args) => calls::run(args),
        Benchmark::Limits(args) => limits::run(args),
        Benchmark::Balance(args) => balance::run(args),
        Benchmark::Agent(args) => agent::run(args),
    }
}

/// Returns 1, 2, 4 and so on, up to the number of CPUs.
fn doublings(cpus: u32) -> Vec<u32> {
    (0..32).map(|power| 1 << power).take_while(|&threads| threads <= cpus).collect()
}

/// Returns the first two nodes with memory; the only one twice.
fn first_nodes(topology: &Topology) -> NodeRoute {
    let with_memory = topology.nodes_with_memory();
    let from = with_memory.first().unwrap_or(NodeId(0));
    NodeRoute { from, to: with_memory.iter().nth(1).unwrap_or(from) }
}
