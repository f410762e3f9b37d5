//! The names of nodes on a command line: node strings, as numactl takes them, or a device.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use nodeward_linux::device_nodes::{self, Device};
use nodeward_linux::nodes;
use nodeward_model::nodestring::{NodestringContext, parse_nodelist};
use nodeward_model::{Escape as _, NodeId, Topology};

/// The names of the nodes of a machine.
pub struct NodeNames<'a> {
    topology: &'a Topology,
    numbers: NodestringContext,
    /// The root of the tree that has its devices; a simulated machine has none.
    devices: Option<&'a Path>,
}

impl<'a> NodeNames<'a> {
    /// Returns the names on the machine whose /sys and /proc are below `root`.
    ///
    /// # Errors
    /// If it does not tell which nodes this process may use.
    pub fn below(root: &'a Path, topology: &'a Topology) -> Result<Self> {
        let numbers = nodes::nodestring_context(root, topology)?;
        Ok(Self { topology, numbers, devices: Some(root) })
    }

    /// Returns the names on a machine without devices, all of whose nodes may be used.
    pub fn without_devices(topology: &'a Topology) -> Self {
        let existing = topology.node_ids();
        let numbers = NodestringContext {
            allowed: existing.clone(),
            highest_possible: existing.last().unwrap_or(NodeId(0)),
            existing,
        };
        Self { topology, numbers, devices: None }
    }

    /// Parses an argument that must name a node; `name` is what the usage calls it.
    pub fn parse(&self, name: &str, text: &str) -> Result<Vec<NodeId>> {
        let list = match device_nodes::named(text) {
            Some(device) => device.map_err(Into::into).and_then(|it| self.near(&it, name)),
            None => parse_nodelist(text, &self.numbers).map_err(Into::into),
        };
        let list = list.with_context(|| format!("{name} is '{}'", text.escaped()))?;
        if list.is_empty() {
            bail!("{name} must name a node; nodes here are {}", self.numbers.existing);
        }
        Ok(list)
    }

    /// Returns the node near a device, and reports it.
    fn near(&self, device: &Device, name: &str) -> Result<Vec<NodeId>> {
        let Some(root) = self.devices else {
            bail!("a simulated machine has no devices; nodes here are {}", self.numbers.existing);
        };
        let node = device_nodes::near(root, device, self.topology)?;
        let list = parse_nodelist(&node.to_string(), &self.numbers)?;
        say!("nodeward: {name} is node {node}, near {device}");
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nodeward_model::Synthetic;

    use super::*;

    /// Three nodes, the last without CPUs, of which this process may use 0 and 1.
    fn topology() -> Topology {
        "2n 4c 1t 4GiB + 1n 8GiB dist:10/21".parse::<Synthetic>().unwrap().topology()
    }

    /// A tree with an interface on node 1, a disk on node 2, an interface of which nobody knows,
    /// and an array of disks on nodes 0 and 2.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/thread-self/status", "CapEff:\t0\nMems_allowed_list:\t0-1\n");
        write("sys/class/net/eth0/numa_node", "1\n");
        write("sys/class/net/lo/numa_node", "-1\n");
        write("sys/class/block/sda/numa_node", "2\n");
        write("sys/class/block/md0/slaves/sda/numa_node", "2\n");
        write("sys/class/block/md0/slaves/sdb/numa_node", "0\n");
        root
    }

    /// Goal: a device stands for the nearest node with CPUs, by its name alone or after near:; node
    /// strings are what they were.
    #[test]
    fn devices_stand_for_nodes() {
        let (machine, topology) = (machine(), topology());
        let names = NodeNames::below(machine.path(), &topology).unwrap();
        let parsed = |text: &str| names.parse("TO", text).unwrap();
        for text in ["netdev:eth0", "near:netdev:eth0", "1"] {
            assert_eq!(parsed(text), [NodeId(1)], "{text}");
        }
        assert!(parsed("block:sda")[0] < NodeId(2), "node 2 has no CPUs");
        assert_eq!(parsed("all"), [NodeId(0), NodeId(1)]);
    }

    /// Goal: what has no node, several, or one that may not be used is refused in one message with
    /// the argument and the device; so are lists of devices.
    #[test]
    fn devices_that_stand_for_no_node() {
        let (machine, mut topology) = (machine(), topology());
        let refused = |topology: &Topology, text: &str, told: &str| {
            let names = NodeNames::below(machine.path(), topology).unwrap();
            let error = format!("{:#}", names.parse("FROM", text).unwrap_err());
            assert!(error.starts_with(&format!("FROM is '{text}': ")), "{error}");
            assert!(error.contains(told) && error.lines().count() == 1, "{error}");
        };
        for (text, told) in [
            ("netdev:lo", "does not say on which node netdev:lo is; name the node"),
            ("netdev:eth1", "there is no device netdev:eth1"),
            ("gpu:0", "there is no device gpu:0"),
            ("block:md0", "consists of devices on nodes 0,2; name the node"),
            ("near:1", "'1' is no device: give netdev:NAME"),
            ("0,netdev:eth0", "is no device"),
            ("!netdev:eth0", "is no device"),
            ("file:eth0", "is no device"),
        ] {
            refused(&topology, text, told);
        }
        topology.nodes.get_mut(&NodeId(2)).unwrap().cpus = "0".parse().unwrap();
        refused(&topology, "block:sda", "node 2 is outside cpuset.mems");
        let names = NodeNames::without_devices(&topology);
        let error = format!("{:#}", names.parse("TO", "gpu:0").unwrap_err());
        let told = "TO is 'gpu:0': a simulated machine has no devices; nodes here are 0-2";
        assert_eq!(error, told);
    }
}
