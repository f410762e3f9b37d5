//! Placements that were saved, and what of one was restored.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nodeward_model::units::format_bytes;
use nodeward_model::{Name, NodeId, Pid};
use nodeward_mover::placement::{ThreadOutcome, UnmatchedMapping};
use nodeward_records::placement::{EscapedName, PlacedProcess, SavedPlacement, SavedRun};
use serde_json::{Value, json};

use super::account::nodes_text;
use super::{print, put_name};
use crate::results::{MovedNodes, NodePageCounts};

/// Things that are listed one by one.
const LISTED_MAX: usize = 10;

/// A placement that was saved.
pub struct SavedReport<'a> {
    /// The saved placement.
    pub placement: &'a SavedPlacement,
    /// The file.
    pub file: &'a Path,
    /// The bytes of the file.
    pub bytes: u64,
    /// Bytes in a base page.
    pub page_bytes: u64,
}

/// Prints what was saved on stdout.
pub fn print_saved(report: &SavedReport<'_>, as_json: bool) -> Result<()> {
    print(&match as_json {
        true => format!("{}\n", saved_json(report)),
        false => saved_text(report),
    })
}

fn saved_text(report: &SavedReport<'_>) -> String {
    let SavedReport { placement, bytes, .. } = *report;
    let mut text = String::new();
    for process in &placement.processes {
        let PlacedProcess { pid, name, mappings, threads, .. } = process;
        let (mappings, threads) = (mappings.len(), threads.len());
        let _ = writeln!(text, "process {pid} ({name}), mappings: {mappings}, threads: {threads}");
        text += &runs_text(&own_pages(process));
    }
    let segments = placement.segments.len();
    if segments > 0 {
        let _ = writeln!(text, "shared segments: {segments}");
        text += &runs_text(&bytes_by_node(placement.segments.iter().flatten()));
    }
    let file = EscapedName::new(report.file);
    let _ = writeln!(text, "saved in {file} ({})", format_bytes(bytes));
    text
}

fn runs_text(bytes: &NodePageCounts) -> String {
    let line = |(node, bytes): (&NodeId, &u64)| {
        format!("  node {:<6}{:>12}\n", node.0, format_bytes(*bytes))
    };
    bytes.iter().map(line).collect()
}

fn saved_json(report: &SavedReport<'_>) -> Value {
    let pages = |bytes: NodePageCounts| -> NodePageCounts {
        bytes.into_iter().map(|(node, bytes)| (node, bytes / report.page_bytes)).collect()
    };
    let process = |process: &PlacedProcess| {
        json!({
            "pid": process.pid,
            "name": process.name,
            "mappings": process.mappings.len(),
            "threads": process.threads.len(),
            "pages": pages(own_pages(process)),
        })
    };
    let placement = report.placement;
    let mut value = json!({
        "schema": "nodeward.placement-saved/1",
        "page_bytes": report.page_bytes,
        "file_size_bytes": report.bytes,
        "processes": placement.processes.iter().map(process).collect::<Vec<_>>(),
        "segments": placement.segments.len(),
        "segment_pages": pages(bytes_by_node(placement.segments.iter().flatten())),
    });
    put_name(&mut value, "file", &Name::from(report.file));
    value
}

/// Returns the bytes by node of what is no segment.
fn own_pages(process: &PlacedProcess) -> NodePageCounts {
    bytes_by_node(process.mappings.iter().flat_map(|mapping| &mapping.runs))
}

fn bytes_by_node<'a>(runs: impl Iterator<Item = &'a SavedRun>) -> NodePageCounts {
    let mut bytes = BTreeMap::new();
    for run in runs {
        *bytes.entry(run.node).or_default() += run.bytes;
    }
    bytes
}

/// The result of restoring a placement.
pub struct RestoreReport {
    /// The file.
    pub file: PathBuf,
    /// Time at which the placement was saved, in milliseconds since 1970.
    pub saved_unix_ms: u64,
    /// Memory in its file that is in memory now.
    pub nodes: MovedNodes,
    /// Pages that were on nodes that are not here.
    pub missing_nodes: NodePageCounts,
    /// Pages that were saved and are not in memory.
    pub not_in_memory: u64,
    /// Pages in memory of which nothing was saved.
    pub not_saved: u64,
    /// Mappings that are not here, each with the process that had it.
    pub unmatched: Vec<(Pid, UnmatchedMapping)>,
    /// Threads, if that was requested.
    pub threads: Option<Vec<ThreadRow>>,
}

/// A thread of a placement.
#[derive(Clone)]
pub struct ThreadRow {
    /// Its process.
    pub pid: Pid,
    /// Its name.
    pub name: EscapedName,
    /// The result for the thread.
    pub outcome: ThreadOutcome,
}

impl RestoreReport {
    /// Returns what could not be restored: pages without a counterpart or a node, and threads.
    pub fn left(&self) -> u64 {
        let unmatched: u64 = self.unmatched.iter().map(|(_, mapping)| mapping.pages).sum();
        let threads = self.threads.iter().flatten().filter(|it| !it.outcome.is_placed()).count();
        unmatched + self.missing_nodes.values().sum::<u64>() + threads as u64
    }

    /// Returns the pages that were where they belong before anything moved.
    pub fn in_place(&self) -> u64 {
        self.nodes.staying.values().sum()
    }

    /// Formats it for people, with the pages that moved, or were to, by the node they are on now;
    /// `None` if that is not known.
    pub fn text(&self, sent: Option<&NodePageCounts>, page_bytes: u64) -> String {
        let after = sent.map(|sent| self.nodes.after(sent));
        self.whole_text(after.as_ref(), page_bytes)
    }

    /// Formats the plan for people.
    pub fn plan_text(&self, page_bytes: u64) -> String {
        self.whole_text(Some(&self.nodes.planned), page_bytes)
    }

    fn whole_text(&self, after: Option<&NodePageCounts>, page_bytes: u64) -> String {
        let bytes = |pages: u64| format_bytes(pages * page_bytes);
        let mut text = format!("placement of {}\n", EscapedName::new(&*self.file));
        if !self.nodes.before.is_empty() {
            text += &nodes_text(&self.nodes.before, after, page_bytes);
        }
        for (node, pages) in &self.missing_nodes {
            let _ = writeln!(text, "  node {node} is not here: {} stay", bytes(*pages));
        }
        if self.not_in_memory > 0 {
            let _ = writeln!(text, "  not in memory now: {}", bytes(self.not_in_memory));
        }
        if self.not_saved > 0 {
            let _ = writeln!(text, "  new since it was saved: {} stay", bytes(self.not_saved));
        }
        text + &self.unmatched_text(page_bytes) + &self.threads_text()
    }

    fn unmatched_text(&self, page_bytes: u64) -> String {
        let mut text = String::new();
        for (pid, mapping) in self.unmatched.iter().take(LISTED_MAX) {
            let UnmatchedMapping { kind, name, pages, why, .. } = mapping;
            let (bytes, why) = (format_bytes(pages * page_bytes), why.name());
            let gap = if name.as_str().is_empty() { "" } else { " " };
            let _ = writeln!(text, "  not found in {pid}: {bytes} of {kind}{gap}{name}: {why}");
        }
        let more = self.unmatched.len().saturating_sub(LISTED_MAX);
        if more > 0 {
            let _ = writeln!(text, "  not found: {more} more mappings (--json has all)");
        }
        text
    }

    fn threads_text(&self) -> String {
        let Some(threads) = &self.threads else { return String::new() };
        let mut counts: BTreeMap<ThreadOutcome, usize> = BTreeMap::new();
        for thread in threads {
            *counts.entry(thread.outcome).or_default() += 1;
        }
        let told: Vec<_> =
            counts.iter().map(|(outcome, count)| format!("{count} {}", outcome.name())).collect();
        format!("  threads: {} = {}\n", threads.len(), told.join(" + "))
    }

    /// Formats it for programs; see [`Self::text`].
    pub fn json(&self, sent: Option<&NodePageCounts>) -> Value {
        let unmatched = |(pid, mapping): &(Pid, UnmatchedMapping)| {
            json!({
                "pid": pid,
                "kind": mapping.kind,
                "name": mapping.name,
                "pages": mapping.pages,
                "reason": mapping.why,
            })
        };
        let thread = |thread: &ThreadRow| {
            let ThreadRow { pid, name, outcome } = thread;
            json!({ "pid": pid, "name": name, "outcome": outcome })
        };
        let threads = |threads: &Vec<ThreadRow>| threads.iter().map(thread).collect::<Vec<_>>();
        json!({
            "saved_unix_ms": self.saved_unix_ms,
            "before_pages": self.nodes.before,
            "planned_pages": self.nodes.planned,
            "after_pages": sent.map(|sent| self.nodes.after(sent)),
            "missing_node_pages": self.missing_nodes,
            "not_in_memory_pages": self.not_in_memory,
            "not_saved_pages": self.not_saved,
            "unmatched": self.unmatched.iter().map(unmatched).collect::<Vec<_>>(),
            "threads": self.threads.as_ref().map(threads),
        })
    }
}
