//! A scenario of a machine, to begin with: its nodes as they are, and a program to be replaced.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodeward_model::topology::Node;
use nodeward_model::{NodeId, Topology};

const MEASURED: &str = "measured here: loads of lines that depend on each other";
const HEAD: &str = "\
# This machine, as nodeward found it. What runs on it is an example: write your programs in its
# place. docs/how-to/write-a-scenario.md shows how, docs/reference/scenarios.md has every key.
# What is not here has the default of a present server: bandwidth, caches, costs of the kernel.
";
const EXAMPLE: &str = "
# Programs with two threads each, whose memory begins on the node farthest from them.
[[workload]]
name = \"mine\"
kind = \"triad\"
processes = 4
threads = 2
memory = \"256MiB\"
populated = true
place = \"away\"
";

/// Returns the text of the scenario. `latencies` are nanoseconds that CPUs of the first node wait
/// for a line of the second's, where they were measured.
pub fn scenario(topology: &Topology, latencies: &BTreeMap<(NodeId, NodeId), u64>) -> String {
    let (nodes, cpus) = (topology.nodes.len(), topology.cpus.len());
    let mut text = format!("{HEAD}about = \"this machine: nodes {nodes}, CPUs {cpus}\"\n");
    if let Some(distances) = &topology.distances {
        let rows: Vec<_> = distances.rows().map(|(_, row)| row).collect();
        let _ = writeln!(text, "distances = {rows:?}");
    }
    text += "symmetric = false\ntime = \"30s\"\nsample = \"100ms\"\n";
    let latency = |from, to| latencies.get(&(from, to)).copied();
    for (&id, node) in &topology.nodes {
        text += &node_table(id, node, latency(id, id));
    }
    for (&(from, to), &ns) in latencies.iter().filter(|((from, to), _)| from != to) {
        let _ = writeln!(text, "\n[[link]]\nfrom = {from}\nto = {to}");
        text += &latency_line(ns);
    }
    text + EXAMPLE
}

fn node_table(id: NodeId, node: &Node, latency_ns: Option<u64>) -> String {
    let mib = node.memory_bytes.unwrap_or(0) >> 20;
    let cpus = if node.cpus.is_empty() { "0".to_owned() } else { format!("\"{}\"", node.cpus) };
    let mut text = format!("\n[[node]]\nid = {id}\n");
    let _ = writeln!(text, "cpus = {cpus}\nmemory = \"{mib}MiB\"");
    text + &latency_ns.map(latency_line).unwrap_or_default()
}

fn latency_line(ns: u64) -> String {
    format!("latency = \"{}ns\" # {MEASURED}\n", ns.max(1))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nodeward_linux::sysfs;
    use nodeward_scenario::Scenario;

    use super::*;

    fn captured(name: &str) -> Topology {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysfs").join(name);
        let root = tempfile::tempdir().unwrap();
        sysfs::unpack(&std::fs::read_to_string(path).unwrap(), root.path()).unwrap();
        sysfs::read_topology(root.path()).unwrap()
    }

    /// Goal: of every kind of machine the text is a scenario that can be read: with the nodes,
    /// CPUs, memory and distances of the machine, and the latencies that were measured.
    #[test]
    fn any_machine_is_a_scenario() {
        for name in [
            "one-node-vm",
            "two-nodes",
            "four-nodes-hole",
            "memoryless",
            "cpuless",
            "asymmetric",
            "twelve-nodes",
        ] {
            let topology = captured(&format!("{name}.txt"));
            let ids: Vec<NodeId> = topology.nodes.keys().copied().collect();
            // The last one may be the first. Less than a nanosecond is told as one.
            let last = ids[ids.len() - 1];
            let latencies = BTreeMap::from([((ids[0], last), 0), ((ids[0], ids[0]), 91)]);
            let text = scenario(&topology, &latencies);
            let read =
                Scenario::parse(name, &text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
            assert_eq!(read.machine.nodes.len(), ids.len());
            for (node, (id, seen)) in read.machine.nodes.iter().zip(&topology.nodes) {
                assert_eq!((node.id, &node.cpus), (*id, &seen.cpus), "{name}");
                assert_eq!(node.memory_bytes >> 20, seen.memory_bytes.unwrap_or(0) >> 20, "{name}");
            }
            let untold = Topology { distances: None, ..topology.clone() };
            Scenario::parse(name, &scenario(&untold, &latencies)).expect("as far as any other");
            let distances = topology.distances.expect("a captured machine tells its distances");
            let rows: Vec<_> = distances.rows().map(|(_, row)| row).collect();
            assert_eq!(read.machine.distances, rows, "{name}");
            assert_eq!(text.matches("\nlatency = \"91ns\" #").count(), 1, "{text}");
        }
    }
}
