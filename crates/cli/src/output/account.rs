//! Accounts and plans of moved pages, in the words that all moves share: of processes, of shared
//! segments and of the page cache.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodeward_model::units::{format_bytes, format_ns};
use nodeward_model::{Account, NodeId};
use nodeward_mover::{MoveReport, ProcessPlan, ProcessReport, StopReason};
use serde_json::{Value, json};

/// Formats the amount and rate of a move, and what ended it early.
pub fn ending_text(report: &MoveReport, bytes: u64) -> String {
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(report.moving_ns.max(1));
    let plural = if report.workers == 1 { "" } else { "s" };
    let mut text = format!(
        "moved {} in {} ({}/s, {} worker{plural}), {} in {}\n",
        format_bytes(bytes),
        format_ns(report.moving_ns),
        format_bytes(u64::try_from(rate).unwrap_or(u64::MAX)),
        report.workers,
        if report.is_verified() { "verified" } else { "not verified" },
        format_ns(report.verifying_ns),
    );
    if let Some(ns) = report.longest_hold_ns {
        let longer = report.stall_ns.filter(|&stall_ns| ns > stall_ns);
        let longer =
            longer.map(|stall_ns| format!(", longer than --stall {}", format_ns(stall_ns)));
        let (held, longer) = (format_ns(ns), longer.unwrap_or_default());
        let _ = writeln!(text, "pages were held for about {held} at most{longer}");
    }
    if report.over_stall_pages > 0 {
        let pages = report.over_stall_pages;
        let _ = writeln!(
            text,
            "{pages} pages are in huge pages that moved alone and were held for longer than --stall"
        );
    }
    if report.split_folios > 0 {
        let _ = writeln!(text, "{} huge pages were split to keep --stall", report.split_folios);
    }
    if let Some(ns) = report.stall_needed_ns {
        let _ = writeln!(text, "--stall {} would have been enough for all pages", budget(ns));
    }
    text += report.stopped.map_or("", stop_text);
    if let Some(error) = &report.error {
        let _ = writeln!(text, "ended early: {error}");
    }
    text
}

fn stop_text(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Requested => "interrupted: the same command moves the rest\n",
        StopReason::Deadline => "the deadline is over: the same command moves the rest\n",
    }
}

/// Formats a time in whole milliseconds, or microseconds if it is shorter, rounded up.
fn budget(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{}us", ns.div_ceil(1_000)),
        _ => format!("{}ms", ns.div_ceil(1_000_000)),
    }
}

/// Formats the places of a process's pages before and after, and the account.
pub fn pages_text(process: &ProcessReport, page_bytes: u64) -> String {
    let after = process.verified.then_some(&process.after);
    let mut text = nodes_text(&process.before, after, page_bytes);
    if process.before_in_flight > 0 {
        let bytes = format_bytes(process.before_in_flight * page_bytes);
        let _ = writeln!(text, "  {:<6}{bytes:>12}  (somebody was moving them)", "none");
    }
    text += &account_text(&process.account, page_bytes);
    text += &left_out(process);
    let appeared = process.residue.appeared();
    if appeared > 0 {
        let bytes = format_bytes(appeared * page_bytes);
        let _ = writeln!(
            text,
            "  {appeared} pages ({bytes}) are on the source that were not there before: newly\n\
             \x20 allocated; in memory already, and newly mapped by it; or moved back by somebody\n\
             \x20 (nodeward doctor tells who might)"
        );
    }
    text
}

/// Says what a stop has left out.
fn left_out(process: &ProcessReport) -> String {
    let mut text = String::new();
    if process.unexamined_bytes > 0 {
        let bytes = format_bytes(process.unexamined_bytes);
        let _ = writeln!(text, "  not looked at: {bytes} of addresses");
    }
    if !process.verified {
        text += "  not verified: the last look was interrupted\n";
    }
    text
}

/// Formats the bytes on each node before and, if that was seen, after.
pub fn nodes_text(
    before: &BTreeMap<NodeId, u64>,
    after: Option<&BTreeMap<NodeId, u64>>,
    page_bytes: u64,
) -> String {
    let mut nodes: Vec<_> =
        before.keys().chain(after.into_iter().flat_map(|it| it.keys())).collect();
    nodes.sort();
    nodes.dedup();
    let bytes = |counts: &BTreeMap<NodeId, u64>, node| {
        format_bytes(counts.get(node).copied().unwrap_or(0) * page_bytes)
    };
    let after = |node| after.map_or_else(|| "?".to_owned(), |after| bytes(after, node));
    let mut text = format!("  {:<6}{:>12}{:>12}\n", "node", "before", "after");
    for node in nodes {
        let _ = writeln!(text, "  {:<6}{:>12}{:>12}", node.0, bytes(before, node), after(node));
    }
    text
}

/// Formats an account: how many pages moved, and why the others did not.
pub fn account_text(account: &Account, page_bytes: u64) -> String {
    let mut text = format!(
        "  pages: {} selected = {} moved + {} already there + {} skipped\n",
        account.selected(),
        account.moved,
        account.already_there,
        account.skipped_total()
    );
    for (reason, &pages) in &account.skipped {
        let bytes = format_bytes(pages * page_bytes);
        let _ = writeln!(text, "    {reason:<14}{pages:>10} ({bytes}): {}", reason.advice());
    }
    if !account.skipped.is_empty() {
        text += "    (nodeward explain REASON tells more)\n";
    }
    text
}

/// Formats the pages that would move, and those that would stay.
pub fn planned_text(plan: &ProcessPlan, page_bytes: u64) -> String {
    let mut text = moves_text(plan, page_bytes);
    let stay = plan.account.already_there + plan.account.skipped_total();
    let _ = writeln!(text, "  would stay: {stay} pages");
    if plan.account.already_there > 0 {
        let there = plan.account.already_there;
        let _ = writeln!(text, "    {:<14}{there:>10}", "already there");
    }
    for (reason, &pages) in &plan.account.skipped {
        let _ = writeln!(text, "    {reason:<14}{pages:>10}: {}", reason.advice());
    }
    text
}

fn moves_text(plan: &ProcessPlan, page_bytes: u64) -> String {
    let mut text = String::new();
    for ((from, to), pages) in &plan.moves {
        let bytes = format_bytes(pages * page_bytes);
        let _ = writeln!(text, "  node {from} -> node {to}: {pages} pages ({bytes})");
    }
    for (&pages, count) in &plan.folios {
        let size = format_bytes(u64::from(pages) * page_bytes);
        let _ = writeln!(text, "    in {count} pages of {size}");
    }
    text
}

/// Adds the duration of a move, and what ended it early.
pub fn with_ending(mut value: Value, report: &MoveReport) -> Value {
    value["moving_ns"] = json!(report.moving_ns);
    value["verifying_ns"] = json!(report.verifying_ns);
    value["workers"] = json!(report.workers);
    value["longest_hold_ns"] = json!(report.longest_hold_ns);
    value["stall_needed_ns"] = json!(report.stall_needed_ns);
    value["over_stall_pages"] = json!(report.over_stall_pages);
    value["split_folios"] = json!(report.split_folios);
    value["verified"] = json!(report.is_verified());
    with_stop(&mut value, report.stopped);
    value["error"] = json!(report.error.as_ref().map(ToString::to_string));
    value
}

/// Adds whether it was stopped, and whether by its deadline.
pub fn with_stop(value: &mut Value, stopped: Option<StopReason>) {
    value["interrupted"] = json!(stopped.is_some());
    value["deadline_over"] = json!(stopped == Some(StopReason::Deadline));
}

/// Returns the pages that would move, by source and destination.
pub fn moves_json(plan: &ProcessPlan) -> Vec<Value> {
    let moves = plan.moves.iter();
    moves.map(|((from, to), pages)| json!({ "from": from, "to": to, "pages": pages })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a budget that would have sufficed is rounded up.
    #[test]
    fn budgets_are_rounded_up() {
        assert_eq!([budget(1), budget(999_000), budget(1_000_000)], ["1us", "999us", "1ms"]);
    }
}
