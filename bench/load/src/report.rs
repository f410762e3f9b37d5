//! The two lines of JSON that the load prints.

use std::io::Write;

use nodeward_proof::StallsReport;
use serde::Serialize;

use crate::pattern::WrittenPage;

/// The line that says that everything is in place.
#[derive(Debug, Serialize)]
pub struct LoadReady {
    /// Always true.
    pub ready: bool,
    /// Our process id.
    pub pid: u32,
    /// The addresses of the first page and past the last one, in hexadecimal.
    pub range: String,
    /// The addresses of the pages that are written to all the time.
    pub hot: String,
    /// Number of base pages.
    pub pages: usize,
    /// Size of a base page in bytes.
    pub page_bytes: usize,
    /// Number of pages that a pipe holds.
    pub pinned: usize,
    /// Bytes of the process in transparent huge pages; null if the kernel does not report it.
    pub huge_bytes: Option<u64>,
    /// Process ids of the children that share the memory.
    pub children: Vec<u32>,
}

/// The line that says that the load has ended.
#[derive(Debug, Serialize)]
pub struct LoadDone {
    /// Always true.
    pub done: bool,
    /// Our process id.
    pub pid: u32,
    /// Counts of writes and checks.
    #[serde(flatten)]
    pub tally: WriteTally,
    /// Number of changes of the address space by races.
    pub races: u64,
    /// Results of the probe; absent if it did not run.
    pub probe: Option<StallsReport>,
}

/// Counts of writes and checks.
#[derive(Debug, Default, Serialize)]
pub struct WriteTally {
    /// Words written.
    pub writes: u64,
    /// Whole pages checked. Besides, every word is checked when it is written.
    pub checks: u64,
    /// Words and pages that did not hold the value last written there.
    pub mismatches: u64,
    /// The address of the first such page, in hexadecimal.
    pub first_mismatch: Option<String>,
}

impl WriteTally {
    /// Records a write to a word of `page`, and whether it was intact before.
    pub fn count_write(&mut self, page: &WrittenPage, intact: bool) {
        self.writes += 1;
        self.count_result(page, intact);
    }

    /// Checks a page.
    pub fn check(&mut self, page: &WrittenPage) {
        self.checks += 1;
        self.count_result(page, page.is_intact());
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: Self) {
        self.writes += other.writes;
        self.checks += other.checks;
        self.mismatches += other.mismatches;
        self.first_mismatch = self.first_mismatch.take().or(other.first_mismatch);
    }

    fn count_result(&mut self, page: &WrittenPage, intact: bool) {
        if !intact {
            self.mismatches += 1;
            self.first_mismatch.get_or_insert_with(|| format!("{:x}", page.address()));
        }
    }
}

/// Prints one line on standard output at once. A closed reader is not an error.
pub fn print(line: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(line)?;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    Ok(())
}
