//! The processes of a simulated machine, with their residency.

use std::fmt::Write as _;

use nodeward_model::NodeId;
use nodeward_model::units::format_bytes;
use nodeward_sim::ProcessView;
use serde_json::{Value, json};

/// Formats the first `lines` processes as text.
pub fn text(processes: &[ProcessView], page_bytes: u64, lines: usize) -> String {
    if processes.is_empty() {
        return "no process runs\n".to_owned();
    }
    let mut text = format!("{:>8} {:<16}{:>12}  {}\n", "PID", "NAME", "MEMORY", "ON");
    for process in processes.iter().take(lines) {
        let bytes = |pages: u64| format_bytes(pages * page_bytes);
        let on = |(node, &pages): (&NodeId, &u64)| format!("{node}: {}", bytes(pages));
        let on: Vec<_> = process.pages.iter().map(on).collect();
        let all = bytes(process.pages.values().sum());
        let (pid, name) = (process.pid, &process.name);
        let line = format!("{pid:>8} {name:<16}{all:>12}  {}", on.join(", "));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    match processes.len().checked_sub(lines) {
        Some(hidden) if hidden > 0 => text + &format!("and {hidden} more (--json lists all)\n"),
        _ => text,
    }
}

/// Formats all processes as JSON.
pub fn json(processes: &[ProcessView]) -> Value {
    let process = |process: &ProcessView| {
        let ProcessView { pid, name, pages, done: _ } = process;
        json!({ "pid": pid, "name": name, "pages": pages })
    };
    processes.iter().map(process).collect()
}
