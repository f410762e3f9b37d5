//! Goal: numactl's own lines, byte for byte, and a picture that people can read.

use std::fs;
use std::path::PathBuf;

use nodeward_linux::sysfs;
use nodeward_model::Synthetic;

use super::*;

fn machine(line: &str) -> Topology {
    line.parse::<Synthetic>().unwrap().topology()
}

fn fixture(kind: &str, name: &str) -> String {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    fs::read_to_string(fixtures.join(kind).join(name)).unwrap()
}

/// Replaces free memory, which changed between the two captures.
fn without_free(text: &str) -> String {
    let strike = |line: &str| match line.split_once(" free: ") {
        Some((node, mb)) => format!("{node} free: N {}\n", mb.split_once(' ').unwrap().1),
        None => format!("{line}\n"),
    };
    text.lines().map(strike).collect()
}

#[test]
fn the_lines_of_numactl_on_the_same_machines() {
    for name in [
        "one-node-vm.txt",
        "two-nodes.txt",
        "four-nodes-hole.txt",
        "cpuless.txt",
        "memoryless.txt",
        "asymmetric.txt",
        "twelve-nodes.txt",
    ] {
        let root = tempfile::tempdir().unwrap();
        sysfs::unpack(&fixture("sysfs", name), root.path()).unwrap();
        let read = sysfs::read_topology(root.path()).unwrap();
        let theirs = fixture("numactl", name);
        assert_eq!(without_free(&hardware(&read)), without_free(&theirs), "{name}");
        assert!(text(&read, Charset::Unicode).starts_with(&hardware(&read)));
    }
}

#[test]
fn two_nodes() {
    let machine =
        machine("2n 4c 2t 16GiB free:3GiB huge:2MiB*512 L1d:32KiB L1i:32KiB L2:1MiB L3:32MiB");
    insta::assert_snapshot!(text(&machine, Charset::Unicode));
}

#[test]
fn eight_nodes_in_ascii() {
    let machine = machine("8n 4c 2t 64GiB dist:ring snc:2 L3:16MiB/2c");
    insta::assert_snapshot!(text(&machine, Charset::Ascii));
}

#[test]
fn ids_with_a_hole() {
    let rows = "10,16,21,28;16,10,28,21;21,28,10,16;28,21,16,10";
    let machine = machine(&format!("4n@0,1,3,4 2c 1GiB dist:{rows}"));
    insta::assert_snapshot!(text(&machine, Charset::Unicode));
}

#[test]
fn nodes_that_lack_cpus_or_memory() {
    let machine = machine("1n 2c 8GiB + 1n 2c + 1n 64GiB dist:10,21,31;21,10,40;31,40,10");
    insta::assert_snapshot!(text(&machine, Charset::Unicode));
}

#[test]
fn the_way_back_differs() {
    let machine = machine("3n 2c 1GiB dist:10,20,30;25,10,20;35,25,10");
    insta::assert_snapshot!(text(&machine, Charset::Unicode));
}

#[test]
fn many_distances_share_shades() {
    // 16 nodes in a ring: 8 different distances, 20 to 90, two for each of four shades.
    let machine = machine("16n 1c 1GiB dist:ring");
    insta::assert_snapshot!(heat::map(&machine, Charset::Unicode));
}

#[test]
fn unknown_is_said() {
    let mut machine = machine("2n 1c 1GiB dist:none");
    for node in machine.nodes.values_mut() {
        (node.memory_bytes, node.free_bytes) = (None, None);
    }
    insta::assert_snapshot!(text(&machine, Charset::Unicode));
}

#[test]
fn json_has_a_schema_and_stable_names() {
    let machine = machine("1n@3 1c 2t 1GiB huge:2MiB*2 L1d:32KiB");
    let line = json(&machine);
    assert!(line.ends_with("}\n") && line.lines().count() == 1);
    assert!(line.starts_with(r#"{"schema":"nodeward.topology/1","page_bytes":4096,"#));
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
}
