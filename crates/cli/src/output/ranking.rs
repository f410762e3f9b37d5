//! Ranking of processes by memory away from their CPU time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodeward_model::NodeId;
use nodeward_model::units::format_bytes;
use nodeward_mover::ranking::Ranking;
use nodeward_policy::rank::RankedProcess;
use serde_json::{Value, json};

/// Formats the first `lines` processes of the ranking.
pub fn text(ranking: &Ranking, lines: usize) -> String {
    let mut text = format!(
        "{:>8} {:<16}{:>12}{:>12}{:>10}  {:<18}{:<18}{:>5}\n",
        "PID", "NAME", "MISPLACED", "MEMORY", "GAIN", "CPU TIME ON", "MEMORY ON", "HOME"
    );
    for process in ranking.processes.iter().take(lines) {
        text += &line(process);
    }
    if ranking.processes.is_empty() {
        text += "no process with memory to speak of\n";
    }
    text + &footer(ranking, lines)
}

/// Formats the whole ranking as JSON.
pub fn json(ranking: &Ranking) -> Value {
    json!({
        "schema": "nodeward.ranking/1",
        "processes": ranking.processes,
        "denied": ranking.denied,
    })
}

fn line(process: &RankedProcess) -> String {
    let idle = if process.active { "" } else { " (idle)" };
    let memory =
        process.node_bytes.iter().map(|(&node, &bytes)| (node, share(bytes, process.bytes)));
    let mut text = format!("{:>8} {:<16}", process.pid, process.name);
    let _ = writeln!(
        text,
        "{:>12}{:>12}{:>10}  {:<18}{:<18}{:>5}{idle}",
        format_bytes(process.misplaced_bytes),
        format_bytes(process.bytes),
        format!("{} %", rounded(process.gain_ppm)),
        nodes(&process.cpu_share_ppm),
        nodes(&memory.collect()),
        process.destination,
    );
    text
}

fn footer(ranking: &Ranking, lines: usize) -> String {
    let mut text = String::new();
    let hidden = ranking.processes.len().saturating_sub(lines);
    if hidden > 0 {
        let _ = writeln!(text, "and {hidden} more with less misplaced memory (--json lists all)");
    }
    if ranking.denied > 0 {
        let _ = writeln!(text, "{} processes of other users left out: run as root", ranking.denied);
    }
    if let Some(first) = ranking.processes.iter().find(|p| p.gain_ppm >= WORTH_PPM) {
        let from: Vec<_> = first.node_bytes.keys().filter(|&&n| n != first.destination).collect();
        let from: Vec<_> = from.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "gain: the part of the mean distance to memory that goes away at home; for example\n  \
             nodeward move {} {} {}",
            first.pid,
            from.join(","),
            first.destination
        );
    }
    text
}

/// Formats nodes with their shares, the largest first: `1:75% 0:25%`.
fn nodes(shares_ppm: &BTreeMap<NodeId, u64>) -> String {
    let mut shares: Vec<_> = shares_ppm.iter().filter(|&(_, &ppm)| rounded(ppm) > 0).collect();
    shares.sort_by_key(|&(&node, &ppm)| (std::cmp::Reverse(ppm), node));
    let shown: Vec<_> = shares.iter().map(|(n, ppm)| format!("{n}:{}%", rounded(**ppm))).collect();
    match shown.len() {
        0..=3 => shown.join(" "),
        _ => format!("{} ...", shown[..2].join(" ")),
    }
}

fn share(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * 1_000_000 / u128::from(whole.max(1))).unwrap_or(0)
}

/// Minimum gain for a suggestion: one percent.
const WORTH_PPM: u64 = 10_000;

fn rounded(ppm: u64) -> u64 {
    (ppm + 5_000) / 10_000
}

#[cfg(test)]
mod tests {
    use nodeward_model::Pid;

    use super::*;

    fn process(pid: u32, active: bool, bytes: [u64; 2]) -> RankedProcess {
        let by_node = |amounts: [u64; 2]| [(NodeId(0), amounts[0]), (NodeId(1), amounts[1])].into();
        RankedProcess {
            pid: Pid::new(pid).unwrap(),
            name: "postgres".into(),
            misplaced_bytes: bytes[1],
            bytes: bytes[0] + bytes[1],
            node_bytes: by_node(bytes),
            cpu_share_ppm: [(NodeId(0), 1_000_000)].into(),
            active,
            destination: NodeId(0),
            distance_milli: 18_250,
            distance_milli_there: 10_000,
            gain_ppm: 452_055,
        }
    }

    fn example() -> Ranking {
        let gib = 1 << 30;
        let processes = vec![
            process(4711, true, [gib, 3 * gib]),
            process(12, false, [gib, gib / 2]),
            process(99, true, [gib, 0]),
        ];
        Ranking { processes, denied: 2 }
    }

    #[test]
    fn the_first_processes_and_what_to_do() {
        insta::assert_snapshot!(text(&example(), 2));
    }

    #[test]
    fn an_empty_ranking_says_so() {
        insta::assert_snapshot!(text(&Ranking::default(), 10));
    }

    #[test]
    fn the_json_names_its_schema() {
        let value = json(&example());
        assert_eq!(value["schema"], "nodeward.ranking/1");
        assert_eq!(value["processes"][0]["misplaced_bytes"], 3_u64 << 30);
    }

    #[test]
    fn many_nodes_are_cut_short() {
        let shares = (0..5).map(|n| (NodeId(n), 200_000)).collect();
        assert_eq!(nodes(&shares), "0:20% 1:20% ...");
    }
}
