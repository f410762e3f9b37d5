//! Memory that several processes share, and totals over all of them.

use std::fmt::Write as _;

use nodeward_linux::file_cache::CacheScan;
use nodeward_model::Account;
use nodeward_mover::{ProcessPlan, ProcessReport};
use serde_json::{Value, json};

use super::account::{account_text, moves_json, nodes_text, planned_text};
use crate::results::NodePageCounts;

/// The result for memory that processes share.
pub struct SharedMemoryReport {
    /// Segments that were moved whole, after the pages that processes map.
    pub segments: Option<SegmentsReport>,
    /// Base pages by node before and after, each counted once; `None` if they cannot be told apart.
    pub pages_before_and_after: Option<(NodePageCounts, NodePageCounts)>,
}

/// Segments of shared memory.
pub struct SegmentsReport {
    /// Number of segments.
    pub found: usize,
    /// Pages found in them.
    pub scan: CacheScan,
    /// The result; `None` if none of their pages was in memory.
    pub process: Option<ProcessReport>,
}

impl SharedMemoryReport {
    /// Returns the account of segment pages.
    pub fn account(&self) -> Option<&Account> {
        Some(&self.process()?.account)
    }

    /// Returns the result for segments, as for a process that maps them.
    pub fn process(&self) -> Option<&ProcessReport> {
        self.segments.as_ref()?.process.as_ref()
    }

    /// Formats it for people; `moved` is the total number of pages.
    pub fn text(&self, moved: u64, page_bytes: u64) -> String {
        let mut text = String::new();
        if let Some(SegmentsReport { found, process: Some(process), .. }) = &self.segments {
            let plural = if *found == 1 { "segment" } else { "segments" };
            let _ =
                writeln!(text, "{found} shared {plural}, whole, after what processes map of it");
            text += &account_text(&process.account, page_bytes);
        }
        if let Some((before, after)) = &self.pages_before_and_after {
            text += "together, each page counted once\n";
            text += &nodes_text(before, Some(after), page_bytes);
            let _ = writeln!(text, "  pages: {moved} moved");
        }
        text
    }

    /// Formats the segments for programs.
    pub fn segments_json(&self) -> Option<Value> {
        let segments = self.segments.as_ref()?;
        let process = segments.process.as_ref();
        Some(json!({
            "found": segments.found,
            "cached_bytes": segments.scan.cached_bytes,
            "problems": segments.scan.problems,
            "account": process.map_or(&Account::default(), |process| &process.account),
            "before_pages": process.map(|process| &process.before),
            "after_pages": process.map(|process| &process.after),
        }))
    }

    /// Formats the totals for programs.
    pub fn total_json(&self, moved: u64) -> Option<Value> {
        let (before, after) = self.pages_before_and_after.as_ref()?;
        Some(json!({ "before_pages": before, "after_pages": after, "moved_pages": moved }))
    }
}

/// Formats the plan for segments, or for what is `unmapped` of them, for people.
pub fn plan_text(plan: &ProcessPlan, unmapped: bool, page_bytes: u64) -> String {
    let what = match unmapped {
        true => "pages of shared segments that no process maps",
        false => "shared segments, with what processes map of them",
    };
    let would = format!("{what}: would move {} pages\n", plan.pages());
    would + &planned_text(plan, page_bytes)
}

/// Formats the plan for segments, for programs.
pub fn plan_json(plan: &ProcessPlan) -> Value {
    json!({
        "moves": moves_json(plan),
        "folios_by_pages": plan.folios,
        "stays": plan.account,
        "residency_pages": plan.residency,
    })
}
