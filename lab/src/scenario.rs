//! A machine as a TOML file: its nodes, their CPUs and memory, the distances between them.
//!
//! Parsing checks everything that can be checked without a hypervisor, so that a [`Scenario`] in
//! hand is a machine that makes sense.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use nodeward_model::units::parse_bytes;
use nodeward_model::{CpuId, Cpumask, NodeId};
use serde::Deserialize;

/// The distance of a node from itself, as firmware tables have it.
pub const DISTANCE_LOCAL: u8 = 10;
/// The distance between two nodes when a scenario has no table.
const DISTANCE_REMOTE: u8 = 20;
/// The largest distance; 255 would mean that one node cannot reach the other.
const DISTANCE_MAX: u8 = 254;
/// Node ids stay below this, which is what the hypervisor can describe.
const NODE_ID_LIMIT: u32 = 64;
/// A machine of more CPUs is too slow to be of use when each is a thread of an emulator.
const CPUS_MAX: u32 = 64;
/// Memory comes in pieces of this many bytes, so that every node can be made of 2 MiB pages.
const MEMORY_STEP: u64 = 2 << 20;
/// A kernel of today and what it unpacks at boot want this many bytes over all nodes.
const MEMORY_MIN: u64 = 512 << 20;

/// The scenarios that come with the lab, by name.
pub const BUILT_IN: [(&str, &str); 5] = [
    ("two-nodes", include_str!("../../scenarios/two-nodes.toml")),
    ("four-nodes-hole", include_str!("../../scenarios/four-nodes-hole.toml")),
    ("cpuless", include_str!("../../scenarios/cpuless.toml")),
    ("memoryless", include_str!("../../scenarios/memoryless.toml")),
    ("asymmetric", include_str!("../../scenarios/asymmetric.toml")),
];

/// A machine to run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// What to call it in messages and file names.
    pub name: String,
    /// What the machine is for, in a sentence; may be empty.
    pub about: String,
    /// The nodes, by ascending id; never empty.
    pub nodes: Vec<Node>,
    /// `distances[i][j]`: what `nodes[i]` pays to reach `nodes[j]`; 10 on the diagonal.
    pub distances: Vec<Vec<u8>>,
}

/// One node of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id; ids may have holes.
    pub id: NodeId,
    /// Its CPUs, none for a node of memory only.
    pub cpus: Cpumask,
    /// Its memory in bytes, zero for a node of CPUs only.
    pub memory_bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    about: String,
    distances: Option<Vec<Vec<u8>>>,
    #[serde(rename = "node")]
    nodes: Vec<FileNode>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNode {
    id: u32,
    cpus: Cpus,
    memory: String,
}

/// How many CPUs, numbered on from the node before; or which, as `"0-3,8"`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`cpus` is a count such as 4 or a list such as \"0-3,8\"")]
enum Cpus {
    Count(u32),
    List(String),
}

impl Scenario {
    /// A scenario by the name of a built-in one, or else by the path of its file.
    pub fn find(name_or_path: &str) -> Result<Self> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(name, text);
        }
        let path = Path::new(name_or_path);
        let text = std::fs::read_to_string(path).with_context(|| {
            let names = BUILT_IN.map(|(name, _)| name).join(", ");
            format!("no scenario '{name_or_path}': give the path of a file, or one of {names}")
        })?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&stem, &text).with_context(|| format!("in {}", path.display()))
    }

    /// A scenario from the text of its file; errors name the node or the row at fault.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        let nodes = nodes(&file.nodes)?;
        let distances = file.distances.unwrap_or_else(|| flat_distances(nodes.len()));
        check_distances(&nodes, &distances)?;
        check_memory(&nodes)?;
        check_cpus(&nodes)?;
        Ok(Self { name: name.to_owned(), about: file.about, nodes, distances })
    }

    /// How many CPUs the machine has.
    pub fn cpu_count(&self) -> u32 {
        self.nodes.iter().map(|node| len(&node.cpus)).sum()
    }

    /// The memory of all nodes in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory_bytes).sum()
    }
}

/// How many CPUs a mask has, in the type that their numbers have.
pub(crate) fn len(cpus: &Cpumask) -> u32 {
    u32::try_from(cpus.len()).unwrap_or(u32::MAX)
}

fn nodes(described: &[FileNode]) -> Result<Vec<Node>> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut next_cpu = 0;
    for each in described {
        ensure!(each.id < NODE_ID_LIMIT, "node {}: ids stay below {NODE_ID_LIMIT}", each.id);
        if let Some(last) = nodes.last() {
            ensure!(last.id.0 < each.id, "node {}: list the nodes by ascending id, once", each.id);
        }
        let cpus = cpus(&each.cpus, next_cpu).with_context(|| format!("node {}", each.id))?;
        next_cpu += len(&cpus);
        let memory_bytes =
            parse_bytes(&each.memory).with_context(|| format!("node {}", each.id))?;
        nodes.push(Node { id: NodeId(each.id), cpus, memory_bytes });
    }
    Ok(nodes)
}

fn cpus(described: &Cpus, next: u32) -> Result<Cpumask> {
    match described {
        Cpus::Count(count) => {
            ensure!(*count <= CPUS_MAX, "{count} CPUs are more than the lab's {CPUS_MAX}");
            Ok((next..next + count).map(CpuId).collect())
        }
        Cpus::List(list) => list.parse().with_context(|| format!("'{list}' is no list of CPUs")),
    }
}

fn flat_distances(count: usize) -> Vec<Vec<u8>> {
    let mut rows = vec![vec![DISTANCE_REMOTE; count]; count];
    for (index, row) in rows.iter_mut().enumerate() {
        row[index] = DISTANCE_LOCAL;
    }
    rows
}

fn check_distances(nodes: &[Node], rows: &[Vec<u8>]) -> Result<()> {
    let count = nodes.len();
    ensure!(rows.len() == count, "distances: {} rows for {count} nodes", rows.len());
    for (row, from) in rows.iter().zip(nodes) {
        let id = from.id;
        ensure!(row.len() == count, "distances of node {id}: {} for {count} nodes", row.len());
        for (&distance, to) in row.iter().zip(nodes) {
            check_distance(from.id, to.id, distance)?;
        }
    }
    Ok(())
}

fn check_distance(from: NodeId, to: NodeId, distance: u8) -> Result<()> {
    if from == to {
        ensure!(distance == DISTANCE_LOCAL, "the distance of node {from} from itself is 10");
    } else if !(DISTANCE_LOCAL + 1..=DISTANCE_MAX).contains(&distance) {
        bail!(
            "the distance from node {from} to node {to} is {distance}: give 11 to {DISTANCE_MAX}"
        );
    }
    Ok(())
}

fn check_memory(nodes: &[Node]) -> Result<()> {
    for node in nodes {
        let whole = node.memory_bytes.is_multiple_of(MEMORY_STEP);
        ensure!(whole, "node {}: memory comes in pieces of 2MiB", node.id);
        let some = node.memory_bytes > 0 || !node.cpus.is_empty();
        ensure!(some, "node {}: neither memory nor CPUs; leave it out to make a hole", node.id);
    }
    let total: u64 = nodes.iter().map(|node| node.memory_bytes).sum();
    ensure!(total >= MEMORY_MIN, "the machine's memory is {total} bytes: give it 512MiB or more");
    Ok(())
}

/// CPU numbers start at 0 and have no holes, whoever owns them.
fn check_cpus(nodes: &[Node]) -> Result<()> {
    let mut seen = Cpumask::new();
    for node in nodes {
        for cpu in node.cpus.iter() {
            ensure!(seen.insert(cpu), "node {}: CPU {cpu} belongs to another node too", node.id);
        }
    }
    ensure!(!seen.is_empty(), "the machine has no CPU");
    let count = len(&seen);
    ensure!(count <= CPUS_MAX, "the machine has {count} CPUs, more than the lab's {CPUS_MAX}");
    let missing = (0..count).map(CpuId).find(|&cpu| !seen.contains(cpu));
    if let Some(cpu) = missing {
        bail!("CPU {cpu} belongs to no node: CPU numbers run from 0 without a hole");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        format!("{:#}", Scenario::parse("test", text).unwrap_err())
    }

    fn node(id: u32, cpus: &str, memory: &str) -> String {
        format!("[[node]]\nid = {id}\ncpus = {cpus}\nmemory = \"{memory}\"\n")
    }

    #[test]
    fn every_built_in_parses_and_says_what_it_is_for() {
        for (name, text) in BUILT_IN {
            let scenario = Scenario::parse(name, text).unwrap();
            assert!(!scenario.about.is_empty(), "{name}");
            assert!(scenario.cpu_count() >= 2, "{name}");
        }
    }

    #[test]
    fn counts_number_on_and_a_missing_table_is_flat() {
        let text = node(0, "2", "1GiB") + &node(2, "1", "512MiB");
        let scenario = Scenario::parse("test", &text).unwrap();
        assert_eq!(scenario.nodes[0].cpus.to_string(), "0-1");
        assert_eq!(scenario.nodes[1].cpus.to_string(), "2");
        assert_eq!(scenario.nodes[1].memory_bytes, 512 << 20);
        assert_eq!(scenario.distances, [[10, 20], [20, 10]]);
        assert_eq!(scenario.memory_bytes(), 1536 << 20);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_place() {
        let one = node(0, "1", "1GiB");
        for (text, told) in [
            (String::new(), "missing field `node`"),
            (one.clone() + "speed = 3\n", "unknown field `speed`"),
            (node(0, "true", "1GiB"), "`cpus` is a count"),
            (node(0, "\"0-\"", "1GiB"), "node 0: '0-' is no list of CPUs"),
            (node(0, "1", "1 gib"), "node 0: '1 gib' is not a size"),
            (node(0, "1", "1025KiB"), "node 0: memory comes in pieces"),
            (node(0, "1", "256MiB"), "give it 512MiB or more"),
            (node(0, "0", "1GiB"), "the machine has no CPU"),
            (node(0, "65", "1GiB"), "more than the lab's 64"),
            (node(64, "1", "1GiB"), "node 64: ids stay below 64"),
            (one.clone() + &one, "node 0: list the nodes by ascending id"),
            (one.clone() + &node(1, "0", "0"), "node 1: neither memory nor CPUs"),
            (one.clone() + &node(1, "\"0\"", "1GiB"), "node 1: CPU 0 belongs to another"),
            (one.clone() + &node(1, "\"2\"", "1GiB"), "CPU 1 belongs to no node"),
            (format!("distances = [[10]]\n{one}{}", node(1, "1", "0")), "1 rows for 2 nodes"),
            (format!("distances = [[10, 20]]\n{one}"), "of node 0: 2 for 1 nodes"),
            (format!("distances = [[20]]\n{one}"), "from itself is 10"),
            (format!("distances = [[300]]\n{one}"), "distances = [[300]]"),
            (
                format!("distances = [[10, 10], [20, 10]]\n{one}{}", node(1, "1", "0")),
                "from node 0 to node 1 is 10",
            ),
        ] {
            assert!(why(&text).contains(told), "{text}\nsaid: {}", why(&text));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_names() {
        let why = format!("{:#}", Scenario::find("three-nodes").unwrap_err());
        assert!(why.contains("no scenario 'three-nodes'"), "{why}");
        assert!(why.contains("two-nodes, four-nodes-hole"), "{why}");
    }
}
