//! Goal: a file that lstopo saved gives the machine, in both versions, and no text causes a panic.

use proptest::prelude::*;

use super::*;

const TWO: &str = include_str!("../../../../fixtures/hwloc/two-nodes.xml");
const HOLE: &str = include_str!("../../../../fixtures/hwloc/four-nodes-hole.xml");
const CPULESS: &str = include_str!("../../../../fixtures/hwloc/cpuless.xml");
const CPULESS_V1: &str = include_str!("../../../../fixtures/hwloc/cpuless-v1.xml");
const MEMORYLESS: &str = include_str!("../../../../fixtures/hwloc/memoryless.xml");
const ASYMMETRIC: &str = include_str!("../../../../fixtures/hwloc/asymmetric.xml");
const ASYMMETRIC_V1: &str = include_str!("../../../../fixtures/hwloc/asymmetric-v1.xml");
const SYNTHETIC: &str = include_str!("../../../../fixtures/hwloc/synthetic.xml");
const SYNTHETIC_V1: &str = include_str!("../../../../fixtures/hwloc/synthetic-v1.xml");

const ALL: [&str; 9] = [
    TWO,
    HOLE,
    CPULESS,
    CPULESS_V1,
    MEMORYLESS,
    ASYMMETRIC,
    ASYMMETRIC_V1,
    SYNTHETIC,
    SYNTHETIC_V1,
];

fn rows(machine: &Topology) -> Vec<Vec<u32>> {
    machine.distances.as_ref().unwrap().rows().map(|(_, row)| row.to_vec()).collect()
}

#[test]
fn ids_with_a_hole() {
    let machine = parse(HOLE).unwrap();
    assert_eq!(machine.node_ids(), "0-1,3-4".parse().unwrap());
    assert_eq!(machine.node_of_cpu(CpuId(2)), Some(NodeId(3)));
    assert_eq!(
        rows(&machine),
        [[10, 16, 21, 28], [16, 10, 28, 21], [21, 28, 10, 16], [28, 21, 16, 10]]
    );
}

#[test]
fn a_memory_only_node_takes_no_cpu_in_either_version() {
    for xml in [CPULESS, CPULESS_V1] {
        let machine = parse(xml).unwrap();
        assert_eq!(machine.nodes_with_cpus(), "0-1".parse().unwrap());
        assert_eq!(machine.nodes[&NodeId(2)].memory_bytes, Some(2_045_673_472));
        // Version 1 lists the nodes as 0, 2, 1; the matrix is the same.
        assert_eq!(rows(&machine), [[10, 21, 31], [21, 10, 40], [31, 40, 10]]);
    }
}

#[test]
fn a_node_without_memory_is_known_by_its_bit() {
    let machine = parse(MEMORYLESS).unwrap();
    assert_eq!(machine.node_ids(), "0-2".parse().unwrap());
    assert_eq!(machine.nodes_with_memory(), "0,2".parse().unwrap());
    assert_eq!(machine.node_of_cpu(CpuId(1)), Some(NodeId(1)));
    assert_eq!(machine.distance(NodeId(0), NodeId(2)), Some(31));
    assert_eq!(machine.distance(NodeId(0), NodeId(1)), None);
}

#[test]
fn the_way_there_may_be_shorter_than_the_way_back() {
    for xml in [ASYMMETRIC, ASYMMETRIC_V1] {
        assert_eq!(rows(&parse(xml).unwrap()), [[10, 20, 30], [25, 10, 20], [35, 25, 10]]);
    }
}

#[test]
fn both_versions_of_one_machine_are_the_same_machine() {
    for (new, old) in [(CPULESS, CPULESS_V1), (ASYMMETRIC, ASYMMETRIC_V1)] {
        assert_eq!(parse(new).unwrap(), parse(old).unwrap());
    }
    // "pack:2 [numa(memory=4GB)] l3:1 core:4 pu:2": 16 CPUs, 8 of them in each of the L3 caches.
    let machine = parse(SYNTHETIC).unwrap();
    assert_eq!(machine, parse(SYNTHETIC_V1).unwrap());
    assert_eq!(machine.cpus, "0-15".parse().unwrap());
    assert_eq!(machine.cores_of_node(NodeId(1)).len(), 4);
    assert_eq!(machine.cores[7].cpus, "14-15".parse().unwrap());
    assert_eq!(machine.last_level_cache_of(CpuId(9)).unwrap().cpus, "8-15".parse().unwrap());
    assert_eq!(machine.nodes[&NodeId(0)].memory_bytes, Some(4_000_000_000));
}

fn message(xml: &str) -> String {
    parse(xml).unwrap_err().to_string()
}

#[test]
fn errors_say_what_and_where() {
    assert!(message("hello").starts_with("this is not whole XML: "));
    assert!(message(&TWO[..TWO.len() / 2]).starts_with("this is not whole XML: "));
    assert_eq!(
        message("<html/>"),
        "found <html>, wanted the <topology> of hwloc; save a machine with lstopo FILE.xml"
    );
    assert_eq!(
        message("<topology version='2.0'/>"),
        "no CPU (object of type PU) in this machine; save it again without filters"
    );
    assert_eq!(
        message("<topology version='2.0'>\n<object type='PU'/></topology>"),
        "line 2: PU has no os_index; save the machine again with lstopo FILE.xml"
    );
    assert_eq!(
        message("<topology version='2.0'>\n\n<object type='PU' os_index='99999'/></topology>"),
        "line 3: os_index is '99999', wanted a number below 65536; correct it or save the machine \
         again"
    );
    let cut = TWO.replace("10 21 21 10", "10 21 21");
    assert!(message(&cut).contains("distances is '3 distances for 2 nodes'"), "{}", message(&cut));
}

#[test]
fn absurd_nesting_is_no_danger() {
    let deep = "<object type='Group'>".repeat(20_000);
    assert!(parse(&format!("<topology>{deep}")).is_err());
    let closed = format!("<topology>{deep}{}</topology>", "</object>".repeat(20_000));
    assert!(parse(&closed).is_err());
}

proptest! {
    /// Goal: a real file with one byte replaced or a part removed gives a machine or an error,
    /// never a panic.
    #[test]
    fn mutilated_files_never_panic(
        file in 0..ALL.len(), at in any::<prop::sample::Index>(), cut in 0usize..200,
        put in "[-0-9a-z<>\"/= ]{0,6}",
    ) {
        let text = ALL[file];
        let start = at.index(text.len());
        let end = (start + cut).min(text.len());
        let text = text.as_bytes();
        let mutilated = [&text[..start], put.as_bytes(), &text[end..]].concat();
        let _ = parse(&String::from_utf8_lossy(&mutilated));
    }
}
