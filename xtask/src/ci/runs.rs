//! The table of several runs: the result of each part in each run, and every test that ever failed.

use std::collections::BTreeMap;
use std::fmt;

use super::summary::{PartResult, Summary};

/// All runs so far.
#[derive(Debug, Default)]
pub struct Runs {
    runs: Vec<Summary>,
}

impl Runs {
    pub fn push(&mut self, run: Summary) {
        self.runs.push(run);
    }

    /// Returns whether no part failed in any run.
    pub fn hold(&self) -> bool {
        self.runs.iter().all(Summary::holds)
    }

    /// Returns each run with its number.
    fn numbered(&self) -> impl Iterator<Item = (usize, &Summary)> {
        self.runs.iter().enumerate().map(|(at, run)| (at + 1, run))
    }

    /// Returns the values that `of` finds in the lines of each run, each with the numbers of its
    /// runs.
    fn found<T: Ord>(&self, of: impl Fn(&PartResult) -> Vec<T>) -> BTreeMap<T, Vec<usize>> {
        let mut found: BTreeMap<T, Vec<usize>> = BTreeMap::new();
        for (number, run) in self.numbered() {
            for what in run.lines().iter().flat_map(&of) {
                found.entry(what).or_default().push(number);
            }
        }
        found
    }

    fn grid(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.runs.first().map(Summary::lines).unwrap_or_default();
        let header: Vec<String> = names.iter().map(|line| line.name.clone()).collect();
        row(f, "run", &header)?;
        for (number, run) in self.numbered() {
            let cells = run.lines().iter();
            let cells = cells.map(|line| format!("{} {:.1} s", line.status(), line.seconds));
            row(f, &number.to_string(), &cells.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Writes the reasons why parts failed or were skipped.
    fn reasons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found(|line| match line.status() {
            "ok" => Vec::new(),
            _ => vec![format!("{}: {}", line.name, line.status_with_reason())],
        });
        for (words, runs) in found {
            writeln!(f, "{words} ({})", counted(&runs, self.runs.len()))?;
        }
        Ok(())
    }

    fn tests(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found(|line| line.failed.clone());
        writeln!(f, "failed in {}: {}", some(self.runs.len(), "run"), some(found.len(), "test"))?;
        for (failure, runs) in found {
            let often = counted(&runs, self.runs.len());
            writeln!(f, "  {}\n    {often}: cargo test {}", failure.test, failure.program)?;
        }
        Ok(())
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.grid(f)?;
        self.reasons(f)?;
        self.tests(f)
    }
}

fn row(f: &mut fmt::Formatter<'_>, first: &str, cells: &[String]) -> fmt::Result {
    let row = cells.iter().fold(format!("{first:>4}"), |row, cell| format!("{row}  {cell:16}"));
    writeln!(f, "{}", row.trim_end())
}

fn some(count: usize, what: &str) -> String {
    match count {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// Formats `2 of 5 runs: 1, 4`.
fn counted(runs: &[usize], of: usize) -> String {
    let names: Vec<String> = runs.iter().map(usize::to_string).collect();
    format!("{} of {of} runs: {}", runs.len(), names.join(", "))
}

#[cfg(test)]
mod tests {
    use anyhow::{Result, anyhow};

    use super::super::PartOutcome;
    use super::super::failures::FailedTest;
    use super::*;

    fn line(name: &str, result: Result<PartOutcome>, failed: &[&str]) -> PartResult {
        let program = "-p a --test b".to_owned();
        let failed = failed.iter().map(|test| (*test).to_owned());
        let failed = failed.map(|test| FailedTest { program: program.clone(), test }).collect();
        PartResult { name: name.to_owned(), result, seconds: 340.04, failed }
    }

    fn run(test: PartResult) -> Summary {
        let lab = line("lab", Ok(PartOutcome::Skipped("no QEMU".to_owned())), &[]);
        Summary::from_iter([test, lab])
    }

    /// Goal: there is a row for each run, each reason once, and each failed test with its runs.
    #[test]
    fn every_test_that_ever_failed_stands_below_the_table() {
        let mut runs = Runs::default();
        runs.push(run(line("test", Ok(PartOutcome::Done), &[])));
        assert!(runs.hold());
        runs.push(run(line("test", Err(anyhow!("it broke\nmore")), &["x::often", "x::once"])));
        runs.push(run(line("test", Err(anyhow!("it broke")), &["x::often"])));
        assert!(!runs.hold());
        let expected = "\
\x20run  test              lab
   1  ok 340.0 s        skipped 340.0 s
   2  FAILED 340.0 s    skipped 340.0 s
   3  FAILED 340.0 s    skipped 340.0 s
lab: skipped: no QEMU (3 of 3 runs: 1, 2, 3)
test: FAILED: it broke (2 of 3 runs: 2, 3)
failed in 3 runs: 2 tests
  x::often
    2 of 3 runs: 2, 3: cargo test -p a --test b
  x::once
    1 of 3 runs: 2: cargo test -p a --test b
";
        assert_eq!(runs.to_string(), expected);
    }

    #[test]
    fn no_test_failed() {
        let mut runs = Runs::default();
        runs.push(run(line("test", Ok(PartOutcome::Done), &[])));
        assert!(runs.to_string().ends_with("failed in 1 run: no test\n"));
    }
}
