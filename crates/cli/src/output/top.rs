//! Refreshes of `top` without a screen: as text, and as JSON.

pub mod figures;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodeward_model::NodeId;
use nodeward_model::units::format_bytes;
use serde_json::{Value, json};

use crate::results::top::{
    DecidedBy, DecisionFigures, GroupFigures, NodeFigures, ProcessFigures, TopSample,
};
use figures::{UNKNOWN, by_node};

/// Formats a refresh for programs, in one line. Of the processes it has these, in this order.
pub fn json(sample: &TopSample, processes: &[&ProcessFigures]) -> Value {
    let mut value = json!(sample);
    value["schema"] = json!("nodeward.top/1");
    value["processes"] = processes.iter().map(|process| process_json(process)).collect();
    value
}

fn process_json(process: &ProcessFigures) -> Value {
    let mut value = json!(process);
    value["threads_astray"] = json!(process.threads_astray());
    value["bytes_away"] = json!(process.bytes_away());
    value
}

/// Formats a refresh for people, likewise.
pub fn text(sample: &TopSample, processes: &[&ProcessFigures]) -> String {
    let mut text = summary(sample);
    text += "NODE  CPUS        USED        FREE       OF  LOCAL       LISTS\n";
    sample.nodes.iter().for_each(|node| text += &node_line(node, sample.page_bytes));
    text += &heads("    PID NAME              CPU%");
    processes.iter().for_each(|process| text += &process_line(process, sample));
    if !sample.groups.is_empty() {
        text += &heads("  PROCS GROUP                 ");
        sample.groups.iter().for_each(|group| text += &group_line(group, sample));
    }
    text
}

/// The heads of the columns that processes and groups share, behind their own.
fn heads(own: &str) -> String {
    format!("{own}      MEMORY  HOME  ASTRAY  MEMORY ON              AGE  NOW, AND WHY\n")
}

fn summary(sample: &TopSample) -> String {
    let denied = sample.processes.iter().filter(|process| process.denied.is_some()).count();
    let mut text = format!("{} processes, {denied} not ours", sample.processes.len());
    let migrated = figures::bytes(sample.migrated_bytes_per_s);
    let _ = write!(text, "; migrated {migrated}/s; {}", decided_by(sample.decided_by));
    sample.notices.iter().for_each(|notice| text += &format!("; {notice}"));
    text + "\n"
}

/// Says who decided about homes.
pub fn decided_by(by: DecidedBy) -> &'static str {
    match by {
        DecidedBy::DryRun => "homes as nodeward balance would have them",
        DecidedBy::Agent => "homes of the agent",
        DecidedBy::AgentStandingBack => "homes of the agent, which stands back",
    }
}

fn node_line(node: &NodeFigures, page_bytes: u64) -> String {
    let lists = node.page_lists.map(|lists| lists.pages * page_bytes);
    format!(
        "{:>4} {:>5} {:>11} {:>11} {:>8} {:>6} {:>11}\n",
        node.node,
        node.cpus,
        format_bytes(node.used_bytes()),
        format_bytes(node.free_bytes),
        format_bytes(node.total_bytes),
        local(node),
        figures::bytes(lists),
    )
}

/// Formats the local part of what was allocated on a node.
pub fn local(node: &NodeFigures) -> String {
    node.local_ppm.map_or_else(|| UNKNOWN.to_owned(), |ppm| format!("{} %", ppm / 10_000))
}

fn process_line(process: &ProcessFigures, sample: &TopSample) -> String {
    let residency = process.residency.as_ref();
    let line = format!(
        "{:>7} {:<16} {:>5} {:>11} {:>5} {:>7}  {:<22} {:>3}  {}",
        process.pid,
        process.name,
        figures::percent(process.cpu_ppm),
        figures::bytes(process.memory_bytes),
        process.decision.as_ref().map_or("-", home),
        figures::astray(process.threads_astray(), &process.threads),
        residency.map_or_else(|| UNKNOWN.to_owned(), |it| memory_on(&it.bytes)),
        figures::age(sample.at_ns, residency.and_then(|it| it.at_ns)),
        why(process),
    );
    format!("{}\n", line.trim_end())
}

fn group_line(group: &GroupFigures, sample: &TopSample) -> String {
    let astray = group.decision.threads_astray(&group.threads);
    format!(
        "{:>7} {:<22} {:>11} {:>5} {:>7}  {:<22} {:>3}  {}\n",
        group.processes.len(),
        group.name,
        format_bytes(group.residency.bytes.values().sum()),
        home(&group.decision),
        figures::astray(astray, &group.threads),
        memory_on(&group.residency.bytes),
        figures::age(sample.at_ns, group.residency.at_ns),
        reasons(&group.decision),
    )
}

fn home(decision: &DecisionFigures) -> &str {
    decision.home.as_deref().unwrap_or("-")
}

fn memory_on(bytes: &BTreeMap<NodeId, u64>) -> String {
    let bytes = bytes.iter().map(|(node, bytes)| (*node, format_bytes(*bytes)));
    by_node(bytes)
}

/// Formats what moves now of a process, and why.
pub fn why(process: &ProcessFigures) -> String {
    match (&process.decision, &process.denied) {
        (Some(decision), _) => reasons(decision),
        (None, Some(_)) => "not ours to look at".to_owned(),
        (None, None) => String::new(),
    }
}

/// Formats what moves now, and why.
pub fn reasons(decision: &DecisionFigures) -> String {
    let reasons = decision.reasons.join(", ");
    match decision.action.is_empty() {
        true => reasons,
        false => format!("{}: {reasons}", decision.action),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::top::test_sample::sample;

    fn shown(sample: &TopSample) -> Vec<&ProcessFigures> {
        sample.processes.iter().collect()
    }

    /// Goal: text has a line for each node, process and group; what is not known is `?`, and a
    /// hostile name is escaped.
    #[test]
    fn a_refresh_as_text() {
        let sample = sample();
        insta::assert_snapshot!(text(&sample, &shown(&sample)));
    }

    /// Goal: JSON names its schema, has what is not known as null, and a name that is no text as
    /// bytes, too.
    #[test]
    fn a_refresh_as_json() {
        let sample = sample();
        let value = json(&sample, &shown(&sample));
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }
}
