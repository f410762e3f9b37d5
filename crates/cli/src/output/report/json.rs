//! What was seen, for programs.

use serde_json::{Value, json};

use crate::output::{balance, ledger, topology};
use crate::results::observation::WatchReport;

/// Formats an observation.
pub fn json(seen: &WatchReport) -> Value {
    let machine: Value = serde_json::from_str(&topology::json(&seen.topology)).unwrap_or_default();
    let moves = seen.moves.iter().map(|operation| ledger::operation_json(operation, false));
    json!({
        "schema": "nodeward.report/1",
        "pid": seen.subject,
        "scenario": seen.scenario,
        "page_bytes": seen.topology.page_bytes,
        "began_unix_ms": seen.scenario.is_none().then_some(seen.began_unix_ms),
        "asked_ns": seen.asked_ns,
        "watched_ns": seen.watched_ns,
        "interval_ns": seen.interval_ns,
        "ended": seen.end,
        "machine": machine,
        "moments": seen.moments,
        "processes": seen.processes,
        "unfollowed": seen.unfollowed,
        "moves": moves.collect::<Vec<_>>(),
        "decisions": seen.decisions,
        "estimate": seen.estimate.as_ref().map(balance::json),
        "undecided": seen.undecided,
        "access_sources": seen.access_sources,
        "unseen": seen.unseen,
    })
}
