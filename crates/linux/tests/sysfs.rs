//! Goal: the topology is read as the kernel reports it, on captured machines and on synthetic ones,
//! and broken files are reported with their line.

use std::fs;
use std::path::{Path, PathBuf};

use nodeward_linux::sysfs;
use nodeward_machine::Error;
use nodeward_model::topology::Topology;
use nodeward_model::{CpuId, NodeId, Synthetic, hwloc};
use proptest::prelude::*;
use tempfile::TempDir;

fn unpacked(capture: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    sysfs::unpack(capture, root.path()).unwrap();
    root
}

fn synthetic(line: &str) -> Topology {
    line.parse::<Synthetic>().unwrap().topology()
}

/// The page size is the running kernel's, not the tree's.
fn read(root: &Path) -> Topology {
    let mut read = sysfs::read_topology(root).unwrap();
    read.page_bytes = 4096;
    read
}

#[track_caller]
fn check_round_trip(line: &str) {
    let machine = synthetic(line);
    assert_eq!(read(unpacked(&sysfs::as_capture(&machine)).path()), machine, "{line}");
}

#[test]
fn invented_machines_are_read_as_they_were_invented() {
    for line in [
        "1n 2c 4GiB",
        "2n@0,2 4c 2t 16GiB dist:10,15;25,10",
        "2n 8c 32GiB + 1n 128GiB dist:ring",
        "1n 4c 8GiB huge:2MiB*0 + 1n 4c",
        "2n 4c 16GiB dist:none huge:1GiB*2 huge:2MiB*512",
        "4n 4c 2t 16GiB snc:2 split L1d:32KiB L1i:32KiB L2:1MiB L3:32MiB/2c",
        "4n 32c 2t 64GiB split L1d:48KiB L2:2MiB L3:32MiB", // enough CPUs for two readers
    ] {
        check_round_trip(line);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_machine_survives_the_way_through_files(
        nodes in 1u32..5, first in 0u32..100, cores in 1u32..20, threads in 1u32..3,
        mib in 1u64..10_000, tier in any::<bool>(), memoryless in any::<bool>(),
        split in any::<bool>(),
        cache in 0usize..4, distances in 0usize..4,
    ) {
        let ids: Vec<_> = (0..nodes).map(|n| (first + 3 * n).to_string()).collect();
        let mut line = format!("{nodes}n@{} {cores}c {threads}t {mib}MiB free:1MiB", ids.join(","));
        line += if tier { " + 1n 64GiB" } else { "" };
        line += if memoryless { " + 1n 2c" } else { "" };
        line += if split { " split" } else { "" };
        line += ["", " L1d:32KiB L1i:48KiB L3:8MiB", " L2:1MiB/2c", " L3:5KiB/3c"][cache];
        line += ["", " dist:ring", " dist:none", " dist:11/17"][distances];
        check_round_trip(&line);
    }
}

#[test]
fn a_capture_of_a_tree_reads_like_the_tree() {
    let machine = synthetic("2n@1,3 2c 2t 4GiB L1d:32KiB L3:8MiB huge:2MiB*8");
    let root = unpacked(&sysfs::as_capture(&machine));
    let again = unpacked(&sysfs::capture(root.path()));
    assert_eq!(read(again.path()), machine);
}

/// Goal: a second read sees a CPU that was taken offline.
#[test]
fn online_cpus_are_read_afresh() {
    let root = unpacked(&sysfs::as_capture(&synthetic("2n 2c 4GiB")));
    assert_eq!(sysfs::online_cpus(root.path()).unwrap().to_string(), "0-3");
    fs::write(root.path().join("sys/devices/system/cpu/online"), "0,2-3\n").unwrap();
    assert_eq!(sysfs::online_cpus(root.path()).unwrap().to_string(), "0,2-3");
}

fn fixture(name: &str) -> Topology {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysfs").join(name);
    read(unpacked(&fs::read_to_string(path).unwrap()).path())
}

#[test]
fn a_captured_vm_with_one_node() {
    let machine = fixture("one-node-vm.txt");
    assert_eq!(machine.node_ids(), "0".parse().unwrap());
    assert_eq!(machine.cpus, "0-1".parse().unwrap());
    // MemTotal 13199576 kB x 1024
    assert_eq!(machine.nodes[&NodeId(0)].memory_bytes, Some(13_199_576 * 1024));
    assert_eq!(machine.distance(NodeId(0), NodeId(0)), Some(10));
    assert_eq!(machine.last_level_cache_of(CpuId(0)).map(|cache| cache.level), Some(3));
}

#[test]
fn captured_guests_are_what_their_scenarios_say() {
    let hole = fixture("four-nodes-hole.txt");
    assert_eq!(hole.node_ids(), "0-1,3-4".parse().unwrap());
    assert_eq!(hole.nearest_nodes(NodeId(4)), [NodeId(3), NodeId(1), NodeId(0)]); // 16, 21, 28
    let cpuless = fixture("cpuless.txt");
    assert_eq!(cpuless.nodes_with_cpus(), "0-1".parse().unwrap());
    assert!(cpuless.nodes[&NodeId(2)].has_memory());
    let memoryless = fixture("memoryless.txt");
    assert_eq!(memoryless.nodes_with_memory(), "0,2".parse().unwrap());
    assert_eq!(memoryless.nearest_nodes(NodeId(1)), [NodeId(0), NodeId(2)]); // 21 both
    let asymmetric = fixture("asymmetric.txt");
    assert!(!asymmetric.distances.as_ref().unwrap().is_symmetric());
    assert_eq!(asymmetric.node_of_cpu(CpuId(3)), Some(NodeId(0)), "CPUs 0 and 3 are on node 0");
    assert_eq!(fixture("twelve-nodes.txt").nodes.len(), 12);
}

/// Goal: sysfs and lstopo, read in the same run of the same guest, agree. hwloc does not know free
/// memory, and neither the size of nor the distance to a node without memory.
#[test]
fn sysfs_and_hwloc_agree_about_the_same_machine() {
    for name in ["two-nodes", "four-nodes-hole", "cpuless", "memoryless", "asymmetric"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hwloc");
        let xml = fs::read_to_string(path.join(format!("{name}.xml"))).unwrap();
        let theirs = hwloc::parse(&xml).unwrap();
        let ours = fixture(&format!("{name}.txt"));
        assert_eq!((&ours.cpus, &ours.cores), (&theirs.cpus, &theirs.cores), "{name}");
        assert_eq!(ours.caches, theirs.caches, "{name}");
        assert_eq!(ours.node_ids(), theirs.node_ids(), "{name}");
        for (id, node) in &ours.nodes {
            assert_eq!(node.cpus, theirs.nodes[id].cpus, "{name}: node {id}");
            assert_eq!(node.memory_bytes, theirs.nodes[id].memory_bytes, "{name}: node {id}");
        }
        for from in ours.nodes_with_memory().iter() {
            for to in ours.nodes_with_memory().iter() {
                assert_eq!(ours.distance(from, to), theirs.distance(from, to), "{name}");
            }
        }
    }
}

#[test]
fn a_kernel_without_numa_is_one_node() {
    let machine = synthetic("1n 2c 4GiB");
    let root = unpacked(&sysfs::as_capture(&machine));
    fs::remove_dir_all(root.path().join("sys/devices/system/node")).unwrap();
    let node = |root: &TempDir| read(root.path()).nodes[&NodeId(0)].clone();
    assert_eq!(node(&root).cpus, machine.cpus);
    assert_eq!(node(&root).memory_bytes, None);
    sysfs::unpack("proc/meminfo\tMemTotal:  2048 kB\nproc/meminfo\tMemFree: 4 kB\n", root.path())
        .unwrap();
    assert_eq!((node(&root).memory_bytes, node(&root).free_bytes), (Some(2 << 20), Some(4096)));
    assert_eq!(read(root.path()).distances, None);
}

#[test]
fn what_a_kernel_lacks_is_unknown_and_no_error() {
    let root = unpacked(
        "sys/devices/system/cpu/online\t0-1\nsys/devices/system/node/online\t0\n\
         sys/devices/system/node/node0/cpulist\t0-1\n",
    );
    let machine = read(root.path());
    assert_eq!(machine.nodes[&NodeId(0)].memory_bytes, None);
    assert_eq!(machine.cores.len(), 2);
    assert_eq!(machine.cores[0].package, None);
    assert!(machine.caches.is_empty() && machine.distances.is_none());
}

/// Goal: kinds of cores may differ in the cache of an index, as on hybrid processors.
#[test]
fn cores_that_are_not_alike_keep_their_own_caches() {
    let mut machine = synthetic("1n 3c 4GiB L1d:32KiB L2:1MiB");
    // In order of level and CPU: the L1d of CPUs 0 to 2, then their L2.
    machine.caches[1].size_bytes = Some(48 << 10);
    machine.caches[4].size_bytes = None;
    machine.caches.remove(5);
    assert_eq!(read(unpacked(&sysfs::as_capture(&machine)).path()), machine);
}

fn broken(path: &str, content: &str) -> String {
    let root = unpacked(&sysfs::as_capture(&synthetic("2n 2c 4GiB L2:1MiB huge:2MiB*2")));
    fs::write(root.path().join(path), content).unwrap();
    let error = sysfs::read_topology(root.path()).unwrap_err();
    assert!(matches!(error, Error::Parse { .. }), "{error}");
    error.to_string().split(path).nth(1).unwrap().to_owned()
}

#[test]
fn broken_files_are_named_with_line_and_what_was_wanted() {
    let node = "sys/devices/system/node/node1";
    for (path, content, said) in [
        (
            format!("{node}/meminfo"),
            "Node 1 MemTotal: 5 kB\nNode 1 MemFree: x kB\n",
            ":2: expected a size in kB, found 'Node 1 MemFree: x kB'",
        ),
        (
            format!("{node}/distance"),
            "20\n",
            ":1: expected one distance for each node that is online, found '20'",
        ),
        (format!("{node}/cpulist"), "2-x\n", ":1: expected a list such as 0-3,8, found '2-x'"),
        (
            "sys/devices/system/cpu/cpu1/cache/index0/size".into(),
            "1 MB\n",
            ":1: expected a size in KiB such as 32768K, found '1 MB'",
        ),
        (
            format!("{node}/hugepages/hugepages-2048kB/nr_hugepages"),
            "-1\n",
            ":1: expected a number, found '-1'",
        ),
    ] {
        assert_eq!(broken(&path, content), said, "{path}");
    }
}

#[test]
fn a_tree_that_is_no_machine_says_what_is_missing() {
    let root = tempfile::tempdir().unwrap();
    let error = sysfs::read_topology(root.path()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("sys/devices/system/cpu;"), "{said}");
    assert!(said.ends_with("check that /proc and /sys are mounted and readable here"), "{said}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("No such file"), "{cause}");
}

#[test]
fn captures_stay_inside_their_root() {
    let root = tempfile::tempdir().unwrap();
    for text in ["../x\ty\n", "/etc/x\ty\n", "no tab\n", "\tx\n"] {
        let error = sysfs::unpack(text, root.path()).unwrap_err().to_string();
        assert_eq!(error, "line 1 is not a path, a tab and text; capture the machine again");
    }
}
