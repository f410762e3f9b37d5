//! Figures of a small machine, for tests.

use std::collections::BTreeMap;

use nodeward_model::{Name, NodeId, Pid};

use super::{
    DecidedBy, DecisionFigures, GroupFigures, NodeFigures, PageLists, ProcessFigures,
    SampledResidency, TopSample,
};

const MIB: u64 = 1 << 20;
const S: u64 = 1_000_000_000;

/// Two nodes. 153 has its memory away from its home, 4711 a part of it; 7 is asleep, with a name
/// that a terminal would obey; 12 is another user's.
pub fn sample() -> TopSample {
    TopSample {
        at_ns: 70 * S,
        page_bytes: 4096,
        nodes: vec![node(0, 1_024, Some(970_000)), node(1, 3_072, None)],
        processes: vec![
            ProcessFigures {
                cpu_ppm: Some(0),
                decision: None,
                ..process(7, b"\x1b[31mred\x07", 40 * MIB, [40, 0], 2)
            },
            ProcessFigures {
                cpu_ppm: None,
                memory_bytes: None,
                threads: BTreeMap::new(),
                residency: None,
                denied: Some("run as root".to_owned()),
                ..process(12, b"systemd", 0, [0, 0], 0)
            },
            ProcessFigures {
                cpu_ppm: Some(998_000),
                threads: by_node([1, 3]),
                decision: Some(decision(
                    "1",
                    "stays, brings 1 thread, 259 MiB",
                    &["runs-there", "pays"],
                )),
                ..process(153, b"nodeward-load", 259 * MIB, [259, 0], 1)
            },
            ProcessFigures {
                cpu_ppm: Some(0),
                threads: by_node([8, 0]),
                decision: Some(decision("0", "stays", &["memory-there", "too-dear"])),
                ..process(4711, b"postgres", 2_048 * MIB, [1_984, 64], 65)
            },
        ],
        groups: vec![GroupFigures {
            name: "kv".to_owned(),
            processes: [153, 4711].map(pid).to_vec(),
            threads: by_node([2, 1]),
            residency: SampledResidency { bytes: in_mib([10, 30]), at_ns: None },
            decision: decision("0", "moves", &["busy"]),
        }],
        migrated_bytes_per_s: Some(12 * MIB),
        decided_by: DecidedBy::DryRun,
        notices: Vec::new(),
        own_cpu_ppm: Some(3_100),
    }
}

fn pid(number: u32) -> Pid {
    Pid::new(number).unwrap()
}

fn node(number: u32, free_mib: u64, local_ppm: Option<u64>) -> NodeFigures {
    let pages = 3_000;
    NodeFigures {
        node: NodeId(number),
        cpus: 4,
        total_bytes: 4_096 * MIB,
        free_bytes: free_mib * MIB,
        local_ppm,
        traffic_bytes_per_s: None,
        page_lists: local_ppm.map(|_| PageLists { pages, high_pages: 8_000 }),
    }
}

fn process(number: u32, name: &[u8], bytes: u64, mib: [u64; 2], age_s: u64) -> ProcessFigures {
    ProcessFigures {
        pid: pid(number),
        started_ticks: 1,
        name: Name::from(name),
        cpu_ppm: None,
        memory_bytes: Some(bytes),
        threads: by_node([1, 0]),
        residency: Some(SampledResidency { bytes: in_mib(mib), at_ns: Some((70 - age_s) * S) }),
        decision: None,
        denied: None,
    }
}

fn decision(home: &str, action: &str, reasons: &[&str]) -> DecisionFigures {
    DecisionFigures {
        home: Some(home.to_owned()),
        home_nodes: home.parse().unwrap(),
        memory_nodes: home.parse().unwrap(),
        action: action.to_owned(),
        reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
    }
}

fn by_node(counts: [u32; 2]) -> BTreeMap<NodeId, u32> {
    let both = [(NodeId(0), counts[0]), (NodeId(1), counts[1])];
    both.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn in_mib(mib: [u64; 2]) -> BTreeMap<NodeId, u64> {
    let both = [(NodeId(0), mib[0] * MIB), (NodeId(1), mib[1] * MIB)];
    both.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
}
