//! Statistics of the source, which show trends before a rule breaks.

use std::fmt;

use super::functions::{LINES_MAX, functions};
use super::source::RustSource;

/// Counts over all Rust files.
#[derive(Debug, PartialEq)]
pub struct Figures {
    files: usize,
    /// The lengths of all functions, sorted.
    lengths: Vec<usize>,
    unsafe_blocks: usize,
    safety_notes: usize,
}

impl Figures {
    /// Counts the sources.
    pub fn of(sources: &[RustSource]) -> Figures {
        let lengths =
            |source: &RustSource| functions(&source.layers.code).into_iter().map(|f| f.lines);
        let mut lengths: Vec<usize> = sources.iter().flat_map(lengths).collect();
        lengths.sort_unstable();
        let count = |count: fn(&RustSource) -> usize| sources.iter().map(count).sum();
        Figures {
            files: sources.len(),
            lengths,
            unsafe_blocks: count(|source| source.layers.code.matches("unsafe {").count()),
            safety_notes: count(|source| source.layers.comments.matches("SAFETY:").count()),
        }
    }

    /// Returns the length that this share (in percent) of the functions does not exceed.
    fn percentile(&self, percent: usize) -> usize {
        let last = self.lengths.len().saturating_sub(1);
        self.lengths.get(last * percent / 100).copied().unwrap_or(0)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (functions, long) =
            (self.lengths.len(), self.lengths.iter().filter(|n| **n > LINES_MAX).count());
        let permille = (long * 1000).checked_div(functions).unwrap_or(0);
        writeln!(f, "{} files, {functions} functions", self.files)?;
        writeln!(
            f,
            "function lines: median {}, p90 {}, over {LINES_MAX}: {}.{} %",
            self.percentile(50),
            self.percentile(90),
            permille / 10,
            permille % 10
        )?;
        writeln!(f, "unsafe blocks: {}, SAFETY notes: {}", self.unsafe_blocks, self.safety_notes)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn ten_functions_of_one_to_ten_lines() {
        // Lengths 1 and 3..=11: the fifth is 6 (index 9*50/100 = 4), the ninth is 10 (index 8).
        let function = |body| match body {
            0 => "fn f() {}\n".to_owned(),
            lines => format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines)),
        };
        let text: String = (0..10).map(function).collect();
        let note = "// SAFETY: none is needed.\nconst A: u8 = unsafe { 1 };\n";
        let figures = Figures::of(&[RustSource::new(Path::new("a.rs"), &format!("{text}{note}"))]);
        let want = "1 files, 10 functions\nfunction lines: median 6, p90 10, over 70: 0.0 %\n\
                    unsafe blocks: 1, SAFETY notes: 1\n";
        assert_eq!(figures.to_string(), want);
    }
}
