//! Residency of processes: a table of MiB per node and kind, with intervals and bars.

use std::fmt::Write as _;

use nodeward_balancer::MappedSegment;
use nodeward_model::units::format_bytes;
use nodeward_model::{KindResidency, NodeId, Residency};
use serde_json::{Value, json};

use crate::results::ShownMemory;

/// Cells of a full bar.
const BAR_CELLS: u64 = 20;

/// Formats the memory of processes as text, one table per process.
pub fn text(processes: &[ShownMemory]) -> String {
    let process = |memory: &ShownMemory| table(&memory.residency) + &segments(memory);
    processes.iter().map(process).collect::<Vec<_>>().join("\n")
}

/// Formats the same as JSON.
pub fn json(processes: &[ShownMemory]) -> Value {
    let process = |memory: &ShownMemory| {
        let residency = &memory.residency;
        json!({
            "pid": residency.pid,
            "page_bytes": residency.page_bytes,
            "kinds": residency.kinds,
            "total": residency.total(),
            "capped": residency.capped,
            "segments": memory.segments,
        })
    };
    json!({
        "schema": "nodeward.residency/1",
        "processes": processes.iter().map(process).collect::<Vec<_>>(),
    })
}

fn segments(memory: &ShownMemory) -> String {
    let line = |segment: &MappedSegment| {
        format!("  maps segment {}, {} of it\n", segment.name, format_bytes(segment.bytes))
    };
    memory.segments.iter().map(line).collect()
}

fn table(residency: &Residency) -> String {
    let total = residency.total();
    let nodes: Vec<NodeId> = total.nodes.keys().copied().collect();
    let mut text = format!("process {}: {}\n", residency.pid, method(residency, &total));
    text += &head(&nodes);
    for (kind, found) in &residency.kinds {
        text += &row(kind.name(), found, &nodes, residency.page_bytes);
    }
    text += &row("total", &total, &nodes, residency.page_bytes);
    for node in &nodes {
        let share = total.nodes[node].share_ppm;
        let _ = writeln!(text, "  node {node:<4} {} {}", bar(share), percent(share));
    }
    text + &rest(residency, &total)
}

fn method(residency: &Residency, total: &KindResidency) -> String {
    let how = match total.exact {
        true => "every page counted".to_owned(),
        false => format!("{} addresses sampled, 95 % intervals", total.probes),
    };
    match residency.capped {
        true => format!("{how}; ended early, the rest is not in here"),
        false => how,
    }
}

fn head(nodes: &[NodeId]) -> String {
    let mut text = format!("  {:<10}{:>12}", "MiB", "all nodes");
    for node in nodes {
        let _ = write!(text, "{:>13}{:15}", format!("node {node}"), "");
    }
    format!("{}\n", text.trim_end())
}

fn row(name: &str, found: &KindResidency, nodes: &[NodeId], page_bytes: u64) -> String {
    let mut text = format!("  {name:<10}{:>12}", mebibytes(found.pages, page_bytes));
    for node in nodes {
        let share = found.nodes.get(node).copied().unwrap_or_default();
        let reach = if found.exact { String::new() } else { format!(" ±{}", points(&share)) };
        let share_text = format!("{:>9}{reach:<6}", percent(share.share_ppm));
        let _ = write!(text, "{:>13}{share_text}", mebibytes(share.pages, page_bytes));
    }
    format!("{}\n", text.trim_end())
}

fn rest(residency: &Residency, total: &KindResidency) -> String {
    let mut text = String::new();
    for (pages, what) in
        [(total.swapped, "in swap, on no node"), (total.fixed, "zero pages and device memory")]
    {
        if pages > 0 {
            let _ = writeln!(text, "  {} MiB {what}", mebibytes(pages, residency.page_bytes));
        }
    }
    text
}

/// Formats percentage points, rounded up to a tenth, so that an interval is never shown too narrow.
fn points(share: &nodeward_model::NodeShare) -> String {
    let tenths = share.half_width_ppm().div_ceil(1000);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Formats millionths as per cent.
pub fn percent(ppm: u64) -> String {
    let tenths = (ppm + 500) / 1000;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

fn mebibytes(pages: u64, page_bytes: u64) -> String {
    let hundredths = (u128::from(pages) * u128::from(page_bytes) * 100 + (1 << 19)) >> 20;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Formats millionths as a bar.
pub fn bar(ppm: u64) -> String {
    let full = (ppm * BAR_CELLS + 500_000) / 1_000_000;
    (0..BAR_CELLS).map(|cell| if cell < full { '#' } else { '.' }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nodeward_model::{MappingKind, Pid, SegmentId};

    use super::*;

    /// 6 GiB sampled at 2 points, 1 MiB of stack counted, 3 MiB swapped.
    fn example() -> ShownMemory {
        let counts =
            |pages: [u64; 2]| BTreeMap::from([(NodeId(0), pages[0]), (NodeId(2), pages[1])]);
        let mut anonymous = KindResidency::counted(&counts([1_048_576, 524_288]));
        for share in anonymous.nodes.values_mut() {
            share.share_ppm_low = share.share_ppm - 18_850;
            share.share_ppm_high = share.share_ppm + 18_850;
        }
        anonymous.exact = false;
        anonymous.probes = 2401;
        anonymous.swapped = 768;
        let mut stack = KindResidency::counted(&counts([256, 0]));
        stack.nodes.remove(&NodeId(2));
        stack.probes = 300;
        let kinds = [(MappingKind::Anonymous, anonymous), (MappingKind::Stack, stack)];
        let residency = Residency {
            pid: Pid::new(4711).unwrap(),
            page_bytes: 4096,
            kinds: kinds.into(),
            capped: false,
        };
        let segment = MappedSegment {
            id: SegmentId { major: 0, minor: 25, inode: 7 },
            name: "/dev/shm/\x1b[2Jdb".into(),
            bytes: 128 << 20,
            is_bound: false,
            kind: MappingKind::Shared,
            parts: Vec::new(),
        };
        ShownMemory { residency, segments: vec![segment] }
    }

    #[test]
    fn a_table_as_people_know_it_from_numastat() {
        insta::assert_snapshot!(text(&[example()]));
    }

    #[test]
    fn the_json_names_its_schema() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&json(&[example()])).unwrap());
    }

    #[test]
    fn what_was_not_finished_says_so() {
        let mut cut = example();
        (cut.residency.capped, cut.residency.kinds) = (true, BTreeMap::new());
        assert!(text(&[cut]).contains("ended early"));
    }
}
