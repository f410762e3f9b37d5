//! Results of `nodeward bench limits`.

use nodeward_model::units::format_bytes;
use nodeward_proof::{BareCall, LimitCell, LimitsPlan, bytes_per_s};
use serde_json::{Value, json};

use super::{between, threads};

/// The calls that a page costs that moves to a fresh page.
const ONE_WAY: [BareCall; 3] = [BareCall::MoveOut, BareCall::Copy, BareCall::Free];
/// The calls that a page costs that moves to a recycled page.
const RECYCLED: [BareCall; 3] = [BareCall::MoveOut, BareCall::Memcpy, BareCall::MoveIn];

/// Formats the measurement for people.
pub fn text(plan: &LimitsPlan, cells: &[LimitCell]) -> String {
    let mut text = format!(
        "pages of 4 KiB, {} by all threads together, {}; median of {}\n",
        format_bytes(plan.bytes as u64),
        between(plan.nodes),
        plan.rounds
    );
    for group in cells.chunk_by(|one, other| one.threads == other.threads) {
        text += &group_text(group);
    }
    text
}

/// Formats the measurement for programs.
pub fn json(plan: &LimitsPlan, cells: &[LimitCell]) -> Value {
    json!({
        "schema": "nodeward.bench-limits/1",
        "bytes": plan.bytes,
        "nodes": plan.nodes,
        "rounds": plan.rounds,
        "cells": cells,
    })
}

fn group_text(cells: &[LimitCell]) -> String {
    let Some(first) = cells.first() else { return String::new() };
    let mut text = format!("\n  {:<38}{:>12}{:>14}\n", threads(first.threads), "A PAGE", "SPEED");
    for cell in cells {
        text += &line(name(cell.call), cell.page_ns, first.threads);
    }
    for (what, calls) in [("to a fresh page", ONE_WAY), ("to a recycled page", RECYCLED)] {
        let of = |call| cells.iter().find(|cell| cell.call == call).map(|cell| cell.page_ns);
        let sum: Option<f64> = calls.into_iter().map(of).sum();
        text += &sum.map_or_else(String::new, |sum| line(what, sum, first.threads));
    }
    text
}

fn line(what: &str, page_ns: f64, threads: u32) -> String {
    let rate = format_bytes(bytes_per_s(page_ns, threads));
    format!("  {what:<38}{page_ns:>9.0} ns{rate:>12}/s\n")
}

fn name(call: BareCall) -> &'static str {
    match call {
        BareCall::MoveOut => "out: UFFDIO_MOVE",
        BareCall::MoveIn => "in: UFFDIO_MOVE",
        BareCall::Copy => "copy in: UFFDIO_COPY",
        BareCall::Free => "free: MADV_DONTNEED",
        BareCall::Populate => "clear a new page: MADV_POPULATE_WRITE",
        BareCall::Memcpy => "memcpy(3)",
        BareCall::MovePages => "by the kernel: move_pages(2)",
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::NodeId;
    use nodeward_proof::NodeRoute;

    use super::*;

    /// Goal: the output keeps its shape, and what a page costs is the sum of its calls: 300, 500
    /// and 200 ns are 1000 ns, 4.1 GB/s (3.81 GiB/s) by one thread. What was not measured has no
    /// sum.
    #[test]
    fn calls_and_their_sum() {
        let cell = |(call, page_ns)| LimitCell { call, threads: 1, page_ns, bytes_per_s: 0 };
        let of = [(BareCall::MoveOut, 300.0), (BareCall::Copy, 500.0), (BareCall::Free, 200.0)];
        let nodes = NodeRoute { from: NodeId(0), to: NodeId(1) };
        let plan = LimitsPlan { bytes: 256 << 20, threads: vec![1], rounds: 9, nodes };
        let text = text(&plan, &of.map(cell));
        insta::assert_snapshot!(text);
    }
}
