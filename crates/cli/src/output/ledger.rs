//! The ledger of moves: all operations, or one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodeward_model::units::format_bytes;
use nodeward_model::{Name, NodeId, ProcessIdentity};
use nodeward_records::ledger::{
    Header, MovedRun, MovedRuns, Operation, OperationCause, OperationOutline, OperationState,
    OperationSummary,
};
use serde_json::{Value, json};

use super::put_name;

/// Formats all operations, a line each.
pub fn list_text(list: &[OperationSummary]) -> String {
    if list.is_empty() {
        return "no move is recorded\n".to_owned();
    }
    let mut text =
        format!("{:>6}  {:<20}  {:<11} {:>10}  {}\n", "ID", "BEGAN", "STATE", "MOVED", "COMMAND");
    for summary in list {
        let _ = match &summary.outline {
            Ok(outline) => writeln!(text, "{:>6}  {}", summary.id, outline_text(outline)),
            Err(error) => writeln!(text, "{:>6}  {error}", summary.id),
        };
    }
    text + "nodeward ledger ID shows one of them, nodeward undo ID takes it back\n"
}

/// Formats all operations for programs.
pub fn list_json(list: &[OperationSummary]) -> Value {
    let operation = |summary: &OperationSummary| match &summary.outline {
        Ok(outline) => {
            let mut value = header_json(&outline.header);
            value["why"] = cause_json(outline.cause.as_ref());
            value["id"] = json!(summary.id);
            value["bytes"] = json!(summary.bytes);
            value["state"] = state_json(&outline.state);
            value["is_complete"] = json!(outline.is_complete);
            value["damage"] = json!(outline.damage.as_ref().map(ToString::to_string));
            value["moved_pages"] = json!(outline.moved_pages);
            value["open_pages"] = json!(outline.open_pages);
            value
        }
        Err(error) => json!({
            "id": summary.id,
            "bytes": summary.bytes,
            "error": error.to_string(),
        }),
    };
    let operations: Vec<Value> = list.iter().map(operation).collect();
    json!({ "schema": "nodeward.ledger/1", "operations": operations })
}

/// Formats one operation; with every run if `runs`.
pub fn operation_text(operation: &Operation, runs: bool) -> String {
    let header = &operation.header;
    let mut text = format!("operation {}: {}\n", operation.id, state_words(&operation.state));
    let _ = writeln!(text, "  began    {}", time(header.began_unix_ms));
    if let OperationState::Ended(end) = &operation.state {
        let _ = writeln!(text, "  ended    {}", time(end.ended_unix_ms));
    }
    let _ = writeln!(text, "  command  {}", command(header));
    if let Some(OperationCause { requested_by: by, reason, explanation: words }) = &operation.cause
    {
        let _ = writeln!(text, "  by       {by}");
        let _ = writeln!(text, "  why      {reason}: {words}");
    }
    if let Some(id) = header.undoes {
        let _ = writeln!(text, "  undoes   {id}");
    }
    for (identity, moved) in header.processes.iter().zip(&operation.processes) {
        let _ = writeln!(text, "process {} ({})", identity.pid, identity.name);
        text += &runs_text("moved", &moved.moved, runs);
        text += &runs_text("may have moved", &moved.open, runs);
    }
    if let OperationState::Ended(end) = &operation.state {
        for (reason, pages) in &end.account.skipped {
            let _ = writeln!(text, "  {pages} pages stayed: {reason}");
        }
    }
    if let Some(damage) = &operation.damage {
        let _ = writeln!(text, "damaged: {damage}; what stood behind is not known");
    }
    if !operation.is_complete {
        text += "incomplete: more was moved than the ledger holds\n";
    }
    text
}

/// Formats one operation for programs; with every run if `runs`.
pub fn operation_json(operation: &Operation, runs: bool) -> Value {
    let mut value = header_json(&operation.header);
    value["why"] = cause_json(operation.cause.as_ref());
    value["schema"] = json!("nodeward.operation/1");
    value["id"] = json!(operation.id);
    value["state"] = state_json(&operation.state);
    value["is_complete"] = json!(operation.is_complete);
    value["damage"] = json!(operation.damage.as_ref().map(ToString::to_string));
    for (index, moved) in operation.processes.iter().enumerate() {
        let process = &mut value["processes"][index];
        process["moved"] = runs_json(&moved.moved, runs);
        process["may_have_moved"] = runs_json(&moved.open, runs);
    }
    value
}

fn outline_text(outline: &OperationOutline) -> String {
    let state = match outline.damage {
        Some(_) => "damaged",
        None => state_name(&outline.state),
    };
    let bytes = (outline.moved_pages + outline.open_pages) * outline.header.page_bytes;
    format!(
        "{:<20}  {state:<11} {:>10}  {}",
        time(outline.header.began_unix_ms),
        format_bytes(bytes),
        requester(outline)
    )
}

/// Returns the command, or for an automatic operation who requested it and why.
fn requester(outline: &OperationOutline) -> String {
    let Some(OperationCause { requested_by: by, reason, .. }) = &outline.cause else {
        return command(&outline.header);
    };
    let process = |identity: &ProcessIdentity| format!("{} ({})", identity.name, identity.pid);
    let processes: Vec<_> = outline.header.processes.iter().map(process).collect();
    format!("{by}: {reason}: {}", processes.join(", "))
}

/// Formats the words of the command line.
pub fn command(header: &Header) -> String {
    let words: Vec<_> = header.command.iter().map(ToString::to_string).collect();
    words.join(" ")
}

fn cause_json(why: Option<&OperationCause>) -> Value {
    let Some(OperationCause { requested_by: by, reason, explanation: words }) = why else {
        return Value::Null;
    };
    json!({ "by": by, "reason": reason, "words": words })
}

fn header_json(header: &Header) -> Value {
    let process = |identity: &ProcessIdentity| {
        let mut told = json!({
            "pid": identity.pid,
            "started_ticks": identity.started_ticks,
        });
        put_name(&mut told, "name", &identity.name);
        told
    };
    let mut told = json!({
        "page_bytes": header.page_bytes,
        "began_unix_ms": header.began_unix_ms,
        "command": header.command,
        "undoes": header.undoes,
        "processes": header.processes.iter().map(process).collect::<Vec<_>>(),
    });
    if !header.command.iter().all(Name::is_text) {
        let bytes = header.command.iter().map(Name::as_bytes);
        told["command_bytes"] = json!(bytes.collect::<Vec<_>>());
    }
    told
}

/// Returns the state in a word.
pub fn state_name(state: &OperationState) -> &'static str {
    match state {
        OperationState::Running => "running",
        OperationState::Ended(end) if end.interrupted => "stopped",
        OperationState::Ended(_) => "ended",
        OperationState::Interrupted => "interrupted",
    }
}

fn state_words(state: &OperationState) -> &'static str {
    match state {
        OperationState::Running => "it is running",
        OperationState::Ended(end) if end.interrupted => "it was stopped before its end",
        OperationState::Ended(_) => "it came to its end",
        OperationState::Interrupted => "it was interrupted: killed, or out of disk space",
    }
}

fn state_json(state: &OperationState) -> Value {
    let mut value = json!({ "name": state_name(state) });
    if let OperationState::Ended(end) = state {
        value["ended_unix_ms"] = json!(end.ended_unix_ms);
        value["account"] = json!(end.account);
    }
    value
}

/// Returns the pages and runs by pair of nodes.
pub fn by_pair(runs: &MovedRuns) -> BTreeMap<(NodeId, NodeId), (u64, u64)> {
    let mut pairs = BTreeMap::new();
    for run in runs.iter() {
        let (pages, count): &mut (u64, u64) = pairs.entry((run.from, run.to)).or_default();
        *pages += run.pages;
        *count += 1;
    }
    pairs
}

fn runs_text(what: &str, runs: &MovedRuns, all: bool) -> String {
    let mut text = String::new();
    for ((from, to), (pages, count)) in by_pair(runs) {
        let bytes = format_bytes(pages * runs.page_bytes());
        let plural = if count == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "  {what}: node {from} -> node {to}: {pages} pages ({bytes}) in {count} run{plural}"
        );
    }
    let lines = runs.iter().filter(|_| all).map(|run| {
        let end = end_of(&run, runs.page_bytes());
        format!("    {:x}-{end:x} {} -> {}\n", run.start, run.from, run.to)
    });
    text + &lines.collect::<String>()
}

fn runs_json(runs: &MovedRuns, all: bool) -> Value {
    let pair = |((from, to), (pages, count))| -> Value {
        json!({ "from": from, "to": to, "pages": pages, "runs": count })
    };
    let run = |run: MovedRun| {
        json!({
            "start": format!("{:x}", run.start),
            "end": format!("{:x}", end_of(&run, runs.page_bytes())),
            "from": run.from,
            "to": run.to,
        })
    };
    let mut value = json!({ "by_nodes": by_pair(runs).into_iter().map(pair).collect::<Vec<_>>() });
    if all {
        value["runs"] = runs.iter().map(run).collect();
    }
    value
}

fn end_of(run: &MovedRun, page_bytes: u64) -> u64 {
    run.start.saturating_add(run.pages.saturating_mul(page_bytes))
}

/// Formats a UTC time, such as 2026-11-21T19:52:20Z.
pub fn time(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| "an odd time".to_owned(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use nodeward_records::ledger::{LedgerStore, StoreLimits};

    use super::*;

    /// Goal: for an automatic move, the output names who requested it, for which process, and why.
    #[test]
    fn who_wanted_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = LedgerStore::new(folder.path().join("ledger"), StoreLimits::default());
        let process = ProcessIdentity {
            pid: nodeward_model::Pid::new(7).unwrap(),
            name: "postgres".into(),
            boot_id: String::new(),
            started_ticks: 1,
            auxv_checksum: 1,
        };
        let header = Header {
            page_bytes: 4096,
            began_unix_ms: 1_795_308_303_000,
            command: ["nodeward", "balance"].map(Name::from).into(),
            processes: vec![process],
            undoes: None,
        };
        let why = OperationCause {
            requested_by: "balance".to_owned(),
            reason: "pays".to_owned(),
            explanation: "saves 2 s and costs 1 s".to_owned(),
        };
        drop(store.begin_with_cause(&header, Some(&why)).unwrap());
        let list = store.list().unwrap();
        let text = list_text(&list);
        assert!(text.contains("balance: pays: postgres (7)"), "{text}");
        assert_eq!(list_json(&list)["operations"][0]["why"]["reason"], "pays");
        let operation = store.read(list[0].id).unwrap();
        let text = operation_text(&operation, false);
        assert!(text.contains("  why      pays: saves 2 s and costs 1 s\n"), "{text}");
        assert_eq!(operation_json(&operation, false)["why"]["by"], "balance");
    }
}
