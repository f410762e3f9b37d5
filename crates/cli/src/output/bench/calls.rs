//! Results of `nodeward bench calls`.

use std::fmt::Write as _;

use nodeward_model::units::{format_bytes, format_ns};
use nodeward_proof::{CallCell, CallSetting, CallsPlan, CallsReport};
use serde_json::{Value, json};

use super::threads;

/// Formats the measurement for people.
pub fn text(plan: &CallsPlan, report: &CallsReport) -> String {
    let mut text = format!(
        "each call {} times on each thread\nBARE: the kernel's calls that it cannot do without; \
         RATIO: median to those\n",
        plan.samples
    );
    if let Some(opening) = report.opening {
        let (median, p99) = (format_ns(opening.median_ns), format_ns(opening.p99_ns));
        let _ = writeln!(text, "\nopening and closing a pager: {median}, 99 % within {p99}");
    }
    for group in report.cells.chunk_by(|one, other| one.setting == other.setting) {
        text += &group_text(group);
    }
    text
}

/// Formats the measurement for programs.
pub fn json(plan: &CallsPlan, report: &CallsReport) -> Value {
    json!({
        "schema": "nodeward.bench-calls/1",
        "samples": plan.samples,
        "nodes": plan.nodes,
        "report": report,
    })
}

fn group_text(cells: &[CallCell]) -> String {
    let mut text = String::new();
    if let Some(first) = cells.first() {
        let _ = writeln!(text, "\n{}", setting_text(&first.setting));
    }
    let _ = writeln!(
        text,
        "  {:<10}{:>10}{:>12}{:>12}{:>12}{:>8}{:>12}",
        "", "SIZE", "MEDIAN", "P99", "BARE", "RATIO", "CALLS/S"
    );
    for cell in cells {
        let _ = writeln!(
            text,
            "  {:<10}{:>10}{:>12}{:>12}{:>12}{:>8}{:>12}",
            cell.call,
            format_bytes(cell.bytes as u64),
            format_ns(cell.times.median_ns),
            format_ns(cell.times.p99_ns),
            cell.bare_ns.map_or("-".to_owned(), format_ns),
            cell.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            cell.calls_per_s,
        );
    }
    text
}

fn setting_text(setting: &CallSetting) -> String {
    let CallSetting { threads: callers, regions, region_bytes, beside_migration, .. } = setting;
    let plural = if *regions == 1 { "" } else { "s" };
    let size = format_bytes(*region_bytes as u64);
    let beside = if *beside_migration { ", beside a migration" } else { "" };
    format!("{}, {regions} region{plural} of {size}{beside}", threads(*callers))
}

#[cfg(test)]
mod tests {
    use nodeward_model::NodeId;
    use nodeward_proof::{BareCell, CallTimes, NodeRoute, RegionCall};

    use super::*;

    /// Goal: the output keeps its shape: 9 us are three times the kernel's 3 us, and a call without
    /// a kernel's call to compare it with has a dash.
    #[test]
    fn a_table_for_each_setting() {
        let setting = CallSetting {
            threads: 2,
            regions: 2,
            region_bytes: 64 << 20,
            beside_migration: true,
            sizes: vec![4096],
        };
        let times = CallTimes { median_ns: 9000, p99_ns: 18000 };
        let cell = CallCell {
            setting: setting.clone(),
            call: RegionCall::OneWay,
            bytes: 4096,
            times,
            bare: BareCell::default(),
            calls_per_s: 222_222,
            bare_ns: Some(3000),
            ratio: Some(3.0),
            p99_ratio: 2.0,
        };
        let without =
            CallCell { call: RegionCall::Residency, bare_ns: None, ratio: None, ..cell.clone() };
        let nodes = NodeRoute { from: NodeId(0), to: NodeId(1) };
        let plan = CallsPlan {
            settings: vec![setting],
            calls: RegionCall::ALL.to_vec(),
            samples: 7,
            opens: 1,
            large_bytes: 1 << 30,
            nodes,
        };
        let report = CallsReport { cells: vec![cell, without], opening: Some(times) };
        let text = text(&plan, &report);
        assert!(text.contains("2 threads, 2 regions of 64.0 MiB, beside a migration"), "{text}");
        let words = |name: &str| -> Vec<&str> {
            let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            line.split_whitespace().collect()
        };
        assert_eq!(words("one-way")[words("one-way").len() - 2..], ["3.00", "222222"]);
        assert_eq!(words("residency")[words("residency").len() - 2..], ["-", "222222"]);
        let json = json(&plan, &report);
        assert_eq!(json["schema"], "nodeward.bench-calls/1");
        assert_eq!(json["report"]["cells"][0]["call"], "one-way");
    }
}
