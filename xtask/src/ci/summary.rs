//! The final table: the parts with their durations, and the reasons why some did not run.

use std::fmt;

use anyhow::Result;

use super::failures::FailedTest;

/// The result of a part that did not fail.
#[derive(Debug, PartialEq)]
pub enum PartOutcome {
    /// It ran successfully.
    Done,
    /// It could not run here, for this reason. Never the same as success.
    Skipped(String),
}

/// A part in the table.
#[derive(Debug)]
pub struct PartResult {
    pub name: String,
    pub result: Result<PartOutcome>,
    pub seconds: f64,
    /// The failed tests, if the output was parsed.
    pub failed: Vec<FailedTest>,
}

impl PartResult {
    /// Returns the result of the part, with its reason.
    pub fn status_with_reason(&self) -> String {
        match &self.result {
            Ok(PartOutcome::Done) => self.status().to_owned(),
            Ok(PartOutcome::Skipped(why)) => format!("{}: {why}", self.status()),
            Err(error) => format!("{}: {}", self.status(), first_line(&format!("{error:#}"))),
        }
    }

    /// Returns the result of the part.
    pub fn status(&self) -> &'static str {
        match &self.result {
            Ok(PartOutcome::Done) => "ok",
            Ok(PartOutcome::Skipped(_)) => "skipped",
            Err(_) => "FAILED",
        }
    }
}

/// All parts that ran.
#[derive(Debug)]
pub struct Summary {
    lines: Vec<PartResult>,
}

impl FromIterator<PartResult> for Summary {
    fn from_iter<T: IntoIterator<Item = PartResult>>(lines: T) -> Summary {
        Summary { lines: lines.into_iter().collect() }
    }
}

impl Summary {
    pub fn lines(&self) -> &[PartResult] {
        &self.lines
    }

    /// Returns whether no part failed.
    pub fn holds(&self) -> bool {
        self.lines.iter().all(|line| line.result.is_ok())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
        for line in &self.lines {
            writeln!(
                f,
                "{:width$}  {:7.1} s  {}",
                line.name,
                line.seconds,
                line.status_with_reason()
            )?;
        }
        Ok(())
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, result: Result<PartOutcome>) -> PartResult {
        PartResult { name: name.to_owned(), result, seconds: 1.25, failed: Vec::new() }
    }

    #[test]
    fn a_skipped_part_says_why_and_does_not_fail_the_run() {
        let lab = line("lab", Ok(PartOutcome::Skipped("no QEMU".to_owned())));
        let summary = Summary::from_iter([line("fmt", Ok(PartOutcome::Done)), lab]);
        assert!(summary.holds());
        assert_eq!(summary.to_string(), "fmt      1.2 s  ok\nlab      1.2 s  skipped: no QEMU\n");
    }

    #[test]
    fn one_failure_fails_the_run() {
        let tidy = line("tidy", Err(anyhow::anyhow!("3 violations\nmore")));
        let summary = Summary::from_iter([line("fmt", Ok(PartOutcome::Done)), tidy]);
        assert!(!summary.holds());
        assert!(summary.to_string().ends_with("FAILED: 3 violations\n"));
    }
}
