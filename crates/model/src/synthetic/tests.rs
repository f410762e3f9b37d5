//! Goal: the grammar accepts the lines of its header, refuses others with a column, and prints what
//! it parsed.

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::{CpuId, NodeId};

fn parse(text: &str) -> Synthetic {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn lines_of_the_header_print_as_they_were_read() {
    for text in [
        "2n 4c 2t 16GiB",
        "2n@0,2 4c 16GiB",
        "2n 8c 32GiB + 1n 128GiB",
        "1n 4c 8GiB + 1n 4c",
        "2n 4c 16GiB dist:10/32",
        "4n 4c 16GiB dist:ring",
        "2n 4c 16GiB dist:10,15;25,10",
        "2n 4c 16GiB dist:none",
        "2n 4c 2t 16GiB L1d:32KiB L2:1MiB L3:32MiB",
        "1n 8c 16GiB L3:16MiB/4c",
        "2n 4c 16GiB free:1GiB huge:2MiB*512",
        "4n 4c 2t 16GiB snc:2 split",
    ] {
        assert_eq!(parse(text).to_string(), text);
    }
    // Defaults are left out, and words in any order have the same meaning.
    assert_eq!(parse("2n@0,1  1t 4096M dist:10/20 2c").to_string(), "2n 2c 4GiB");
}

#[test]
fn mistakes_are_shown_with_their_column() {
    for (text, column, found) in [
        ("", 1, "the end"),
        ("x", 1, "x"),
        ("2n 4c 2x", 7, "2x"),
        ("2n@0 1c", 4, "0"),
        ("2n@2,0 1c", 4, "2,0"),
        ("1n 1c + 1n@0 1c", 9, "1n@0"),
        ("1n", 3, "the end"),
        ("1n 1c +", 8, "the end"),
        ("1n 0c 1GiB", 4, "0"),
        ("1n 1c 2c", 7, "2c"),
        ("2n 1c dist:10,20;20", 12, "10,20;20"),
        ("2n 1c dist:10,20;20,x", 21, "x"),
        ("1n 1c L3:0", 10, "0"),
        ("1n 1c L3:1MiB/4", 15, "4"),
        ("1n 1c 1GiB free:2GiB", 21, "the end"),
        ("1n 1c 1MiB huge:2MiB*1", 23, "the end"),
        ("1024n 64c 2t", 13, "the end"), // 131072 CPUs
        ("1025n 1c", 1, "1025n"),
    ] {
        let error = text.parse::<Synthetic>().unwrap_err();
        assert_eq!((error.column, error.found.as_str()), (column, found), "{text}: {error}");
        assert!(!error.expected.is_empty());
    }
}

#[test]
fn split_threads_are_numbered_behind_all_first_threads() {
    // 2 nodes x 2 cores: first threads 0-3, second threads 4-7.
    let machine = parse("2n 2c 2t 1GiB split").topology();
    assert_eq!(machine.cores_of_node(NodeId(1)), ["2,6".parse().unwrap(), "3,7".parse().unwrap()]);
    assert_eq!(machine.node_of_cpu(CpuId(5)), Some(NodeId(0)));
}

#[test]
fn packages_hold_as_many_nodes_as_said() {
    let machine = parse("4n 1c 1GiB + 1n 1GiB snc:2").topology();
    let packages: Vec<_> = machine.cores.iter().map(|core| core.package).collect();
    assert_eq!(packages, [Some(0), Some(0), Some(1), Some(1)]);
}

#[test]
fn a_ring_of_six_is_three_steps_wide() {
    let machine = parse("6n 1c 1GiB dist:ring").topology();
    let row: Vec<_> = (0..6).filter_map(|to| machine.distance(NodeId(0), NodeId(to))).collect();
    assert_eq!(row, [10, 20, 30, 40, 30, 20]);
}

/// Any machine of the grammar, as text.
fn any_line() -> impl Strategy<Value = String> {
    let memory = prop_oneof![Just(0u64), (1u64..1 << 30).prop_map(|kib| kib * 1024)];
    let group = (btree_set(0u32..200, 1..4), 0u32..5, 1u32..4, memory, option::of(1u64..1024));
    let groups = vec(group, 1..4);
    let machine = (0u32..4, 1u32..3, any::<bool>(), option::of(1u64..1 << 20), 0u32..3);
    (groups, machine).prop_map(|(groups, (distances, snc, split, cache, sharing))| {
        let mut line = Vec::new();
        let mut base = 0;
        for (ids, cores, threads, memory, free) in groups {
            line.push(group_text(base, &ids, cores, threads, memory, free));
            base += 201;
        }
        let mut line = line.join(" + ");
        line += ["", " dist:ring", " dist:none", " dist:11/17"][distances as usize];
        if let Some(kib) = cache {
            line += &format!(" L1d:{kib}KiB L1i:{kib}KiB L3:{kib}KiB");
            line += ["", "/n", "/2c"][sharing as usize];
        }
        line + &format!(" snc:{snc}") + if split { " split" } else { "" }
    })
}

fn group_text(
    base: u32,
    ids: &std::collections::BTreeSet<u32>,
    cores: u32,
    threads: u32,
    memory: u64,
    free: Option<u64>,
) -> String {
    let list: Vec<_> = ids.iter().map(|id| (base + id).to_string()).collect();
    let mut text = format!("{}n@{} {threads}t", ids.len(), list.join(","));
    if cores > 0 || memory == 0 {
        text += &format!(" {}c", cores.max(1));
    }
    if memory > 0 {
        text += &format!(" {memory}");
        text += &free.map_or(String::new(), |free| format!(" free:{}", (free * 1024).min(memory)));
    }
    text
}

proptest! {
    #[test]
    fn printing_and_reading_are_inverse(line in any_line()) {
        let read = parse(&line);
        let printed = read.to_string();
        prop_assert_eq!(&parse(&printed), &read, "{} -> {}", line, printed);
        prop_assert_eq!(parse(&printed).topology(), read.topology());
    }

    /// Goal: every CPU is on exactly one node and in exactly one core.
    #[test]
    fn built_machines_are_whole(line in any_line()) {
        let machine = parse(&line).topology();
        let on_nodes: usize = machine.nodes.values().map(|node| node.cpus.len()).sum();
        let in_cores: usize = machine.cores.iter().map(|core| core.cpus.len()).sum();
        prop_assert_eq!(on_nodes, machine.cpus.len());
        prop_assert_eq!(in_cores, machine.cpus.len());
        for core in &machine.cores {
            let node = machine.node_of_cpu(core.cpus.first().unwrap());
            prop_assert_eq!(node, core.node);
        }
    }

    #[test]
    fn garbage_is_refused_without_panic(line in "[0-9nct@:+,;/ MGiBhugedistL*é]{0,30}") {
        let _ = line.parse::<Synthetic>();
    }
}
