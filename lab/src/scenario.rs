//! The machine of a scenario, as far as the lab can emulate it. Workloads and costs are for the
//! simulator and are ignored.

use anyhow::{Result, ensure};
use nodeward_model::Cpumask;
use nodeward_scenario::NodeSpec;

/// Node ids are below this, the hypervisor's limit.
const NODE_ID_LIMIT: u32 = 64;
/// Maximum number of CPUs: a larger machine is too slow when each CPU is a thread of an emulator.
const CPUS_MAX: u32 = 64;
/// Granularity of memory in bytes, so that every node can consist of 2 MiB pages.
const MEMORY_STEP: u64 = 2 << 20;
/// Minimum memory of all nodes, in bytes, for a present kernel and the files that it unpacks at
/// boot.
const MEMORY_MIN: u64 = 512 << 20;

/// Names of scenarios whose machines are small enough to boot at any time. Others can be booted
/// too, within the limits above, where the host has memory for them.
pub const SMALL: [&str; 5] =
    ["two-nodes", "four-nodes-hole", "cpuless", "memoryless", "asymmetric"];

/// A machine to run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabMachine {
    /// Its name in messages and file names.
    pub name: String,
    /// Its purpose, in a sentence; may be empty.
    pub about: String,
    /// The nodes, by ascending id; never empty.
    pub nodes: Vec<NodeSpec>,
    /// `distances[i][j]`: the distance from `nodes[i]` to `nodes[j]`; 10 on the diagonal.
    pub distances: Vec<Vec<u32>>,
}

impl LabMachine {
    /// Finds a scenario by the name of a built-in one, or else by the path of its file.
    ///
    /// # Errors
    /// If there is none, it is invalid, or the lab cannot emulate its machine.
    pub fn find(name_or_path: &str) -> Result<Self> {
        Self::of(nodeward_scenario::Scenario::find(name_or_path)?)
    }

    /// Parses a scenario from the text of its file.
    ///
    /// # Errors
    /// If it is invalid, or the lab cannot emulate its machine.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        Self::of(nodeward_scenario::Scenario::parse(name, text)?)
    }

    /// Returns the machine of a scenario.
    ///
    /// # Errors
    /// If the lab cannot emulate it.
    pub fn of(scenario: nodeward_scenario::Scenario) -> Result<Self> {
        let nodeward_scenario::Scenario { name, about, machine, .. } = scenario;
        let (nodes, distances) = (machine.nodes, machine.distances);
        let scenario = Self { name, about, nodes, distances };
        scenario.check()?;
        Ok(scenario)
    }

    fn check(&self) -> Result<()> {
        for NodeSpec { id, memory_bytes, .. } in &self.nodes {
            ensure!(id.0 < NODE_ID_LIMIT, "node {id}: in the lab ids stay below {NODE_ID_LIMIT}");
            let whole = memory_bytes.is_multiple_of(MEMORY_STEP);
            ensure!(whole, "node {id}: in the lab memory comes in pieces of 2MiB");
        }
        let count = self.cpu_count();
        ensure!(count <= CPUS_MAX, "the machine has {count} CPUs, more than the lab's {CPUS_MAX}");
        let total = self.memory_bytes();
        ensure!(
            total >= MEMORY_MIN,
            "the machine's memory is {total} bytes: give it 512MiB or more"
        );
        Ok(())
    }

    /// Returns the number of CPUs.
    pub fn cpu_count(&self) -> u32 {
        self.nodes.iter().map(|node| len(&node.cpus)).sum()
    }

    /// Returns the memory of all nodes in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory_bytes).sum()
    }
}

/// Returns the number of CPUs in a mask, in the type of CPU numbers.
pub(crate) fn len(cpus: &Cpumask) -> u32 {
    u32::try_from(cpus.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        format!("{:#}", LabMachine::parse("test", text).unwrap_err())
    }

    fn node(id: u32, cpus: &str, memory: &str) -> String {
        format!("[[node]]\nid = {id}\ncpus = {cpus}\nmemory = \"{memory}\"\n")
    }

    #[test]
    fn small_machines_are_small_and_say_what_they_are_for() {
        for name in SMALL {
            let scenario = LabMachine::find(name).unwrap();
            assert!(!scenario.about.is_empty(), "{name}");
            assert!((2..=6).contains(&scenario.cpu_count()), "{name}");
            assert!(scenario.memory_bytes() <= 4 << 30, "{name}");
        }
    }

    /// Programs and costs are ignored.
    #[test]
    fn what_runs_on_a_machine_is_left_aside() {
        let text = node(0, "2", "1GiB") + &node(2, "1", "512MiB");
        let bare = LabMachine::parse("test", &text).unwrap();
        let more = "[machine]\nlatency = \"85ns\"\n\
            [[workload]]\nname = \"w\"\nkind = \"hog\"\nmemory = \"1MiB\"\n";
        assert_eq!(LabMachine::parse("test", &(text + more)).unwrap(), bare);
        assert_eq!((bare.cpu_count(), bare.memory_bytes()), (3, 1536 << 20));
    }

    #[test]
    fn what_the_lab_cannot_be_is_refused() {
        for (text, told) in [
            (node(0, "1", "1028KiB"), "node 0: in the lab memory comes in pieces"),
            (node(0, "1", "256MiB"), "give it 512MiB or more"),
            (node(0, "65", "1GiB"), "more than the lab's 64"),
            (node(64, "1", "1GiB"), "node 64: in the lab ids stay below 64"),
            (node(0, "1", "1 gib"), "test:4: `memory` is '1 gib'"),
        ] {
            assert!(why(&text).contains(told), "{text}\nsaid: {}", why(&text));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_names() {
        let why = format!("{:#}", LabMachine::find("three-nodes").unwrap_err());
        assert!(why.contains("three-nodes: no such scenario"), "{why}");
        assert!(why.contains("two-nodes, four-nodes-hole"), "{why}");
    }
}
