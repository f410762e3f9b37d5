//! The two lines of JSON that the load prints.

use std::io::Write;

use nodeward_proof::StallsReport;
use serde::Serialize;

use crate::pattern::Written;

/// Everything is in place.
#[derive(Debug, Serialize)]
pub struct Ready {
    /// Always true.
    pub ready: bool,
    /// Our process.
    pub pid: u32,
    /// The addresses of the first page and past the last one, in hexadecimal.
    pub range: String,
    /// Those of the pages that are written to all the time.
    pub hot: String,
    /// Base pages.
    pub pages: usize,
    /// Bytes in a base page.
    pub page_bytes: usize,
    /// Pages that a pipe holds.
    pub pinned: usize,
    /// Anonymous memory of the process in transparent huge pages; null if the kernel is silent.
    pub huge_bytes: Option<u64>,
    /// Children that share the memory.
    pub children: Vec<u32>,
}

/// The load has ended.
#[derive(Debug, Serialize)]
pub struct Done {
    /// Always true.
    pub done: bool,
    /// Our process.
    pub pid: u32,
    /// What was written and checked.
    #[serde(flatten)]
    pub tally: Tally,
    /// How often the address space was changed by races.
    pub races: u64,
    /// What the probe saw; absent if it did not run.
    pub probe: Option<StallsReport>,
}

/// What was written and checked.
#[derive(Debug, Default, Serialize)]
pub struct Tally {
    /// Words written.
    pub writes: u64,
    /// Whole pages checked. Besides, every word is checked when its turn to be written comes.
    pub checks: u64,
    /// Words and pages that did not hold what was written there last.
    pub mismatches: u64,
    /// The address of the first page that did not, in hexadecimal.
    pub first_mismatch: Option<String>,
}

impl Tally {
    /// A word of `page` was written, and was intact before or not.
    pub fn wrote(&mut self, page: &Written, intact: bool) {
        self.writes += 1;
        self.note(page, intact);
    }

    /// Checks a page.
    pub fn checked(&mut self, page: &Written) {
        self.checks += 1;
        self.note(page, page.is_intact());
    }

    /// Adds what another thread did.
    pub fn add(&mut self, other: Self) {
        self.writes += other.writes;
        self.checks += other.checks;
        self.mismatches += other.mismatches;
        self.first_mismatch = self.first_mismatch.take().or(other.first_mismatch);
    }

    fn note(&mut self, page: &Written, intact: bool) {
        if !intact {
            self.mismatches += 1;
            self.first_mismatch.get_or_insert_with(|| format!("{:x}", page.address()));
        }
    }
}

/// Prints one line on standard output at once. A reader that has gone is no reason to stop.
pub fn print(line: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(line)?;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    Ok(())
}
