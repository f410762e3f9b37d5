//! The file that receives rows as soon as they are known, and that a later sweep completes.
//!
//! Rows are in the order of their points, so an incomplete file is always a prefix of the complete
//! one. A killed sweep leaves at worst an incomplete line, which is dropped.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nodeward_files::{Visibility, create_new, open_or_create};
use nodeward_model::Escape as _;

use crate::results::sweep::{RowFormat, SweepPlan, SweepRow};

/// A file of rows that is being written.
pub struct RowFile {
    path: PathBuf,
    file: File,
    format: RowFormat,
}

impl RowFile {
    /// Opens or creates a file for the rows of these points, and returns those that it holds.
    pub fn open(
        path: &Path,
        plan: &SweepPlan,
        numbers: &[usize],
        resume: bool,
    ) -> Result<(Self, Vec<SweepRow>)> {
        let format = RowFormat::of(path)?;
        let file = opened(path, resume)?;
        let mut rows = Self { path: path.to_owned(), file, format };
        let text = rows.text()?;
        let held = existing_rows(&text, format, plan, numbers);
        let (kept, bytes) = held.with_context(|| {
            format!("{} is not of this sweep; give another --out", path.escaped())
        })?;
        rows.cut(bytes)?;
        if let Some(header) = format.header(&plan.columns).filter(|_| bytes == 0) {
            rows.append(&header)?;
        }
        Ok((rows, kept))
    }

    /// Appends a row.
    pub fn add(&mut self, plan: &SweepPlan, row: &[String]) -> Result<()> {
        self.append(&self.format.line(&plan.columns, row))
    }

    /// Appends a line in one write, so that a reader seldom sees a part of it.
    fn append(&mut self, line: &str) -> Result<()> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.with_context(|| format!("cannot write {}", self.path.escaped()))
    }

    fn text(&mut self) -> Result<String> {
        let mut text = Vec::new();
        let read = self.file.read_to_end(&mut text);
        read.with_context(|| format!("cannot read {}", self.path.escaped()))?;
        // A character of several bytes that is cut is in the line that is dropped.
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn cut(&mut self, bytes: usize) -> Result<()> {
        let cut = self.file.set_len(bytes as u64);
        let sought = cut.and_then(|()| self.file.seek(SeekFrom::Start(bytes as u64)));
        sought.map(drop).with_context(|| format!("cannot write {}", self.path.escaped()))
    }
}

fn opened(path: &Path, resume: bool) -> Result<File> {
    let made = match resume {
        true => open_or_create(path, Visibility::Everyone),
        false => create_new(path, Visibility::Everyone),
    };
    let file = made.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => anyhow::anyhow!(
            "{} is there; --resume completes it, or give another --out",
            path.escaped()
        ),
        _ => anyhow::Error::new(error).context(format!("cannot write {}", path.escaped())),
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("{} is being written by another sweep", path.escaped())
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.escaped()))
        }
    }
}

/// Returns the rows in a text, and the number of bytes that they and the header take.
fn existing_rows(
    text: &str,
    format: RowFormat,
    plan: &SweepPlan,
    numbers: &[usize],
) -> Result<(Vec<SweepRow>, usize)> {
    let complete = text.rfind('\n').map_or(0, |end| end + 1);
    let (lines, torn) = text.split_at(complete);
    let header = format.header(&plan.columns);
    let mut lines = lines.lines();
    if let Some(header) = &header
        && lines.next().is_some_and(|line| line != header)
    {
        bail!("its columns are others");
    }
    let mut rows = Vec::new();
    for line in lines {
        let Some(&number) = numbers.get(rows.len()) else {
            bail!("it has more than {} rows", numbers.len());
        };
        let row = format.cells(&plan.columns, line);
        let row = row.filter(|row| row.starts_with(&plan.identity(number)));
        rows.push(row.with_context(|| format!("point {number} is not where it must be"))?);
    }
    let next = match (&header, numbers.get(rows.len())) {
        (Some(header), _) if complete == 0 => format!("{header}\n"),
        (_, Some(&number)) => format.line_prefix(&plan.columns, &plan.identity(number)),
        (_, None) => String::new(),
    };
    let is_next = torn.bytes().zip(next.bytes()).all(|(is, expected)| is == expected);
    match is_next && (torn.is_empty() || !next.is_empty()) {
        true => Ok((rows, complete)),
        false => bail!("its last line is none of this sweep's"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, SimVerb, Verb};

    fn plan(words: &[&str]) -> SweepPlan {
        let words = [&["nodeward", "sim", "sweep", "two-socket"], words].concat();
        let Verb::Sim(args) = Cli::parse_from(words).verb else { panic!("it is a simulation") };
        let Some(SimVerb::Sweep(args)) = args.verb else { panic!("it is a sweep") };
        SweepPlan::new("two-socket", &args).unwrap()
    }

    /// Returns a file of some points, with handmade figures.
    fn file(plan: &SweepPlan, format: RowFormat, numbers: &[usize]) -> String {
        let measures = plan.columns.len() - plan.first_measure();
        let line = |&number: &usize| {
            let figures = (0..measures).map(|place| (number * 100 + place).to_string());
            let row: Vec<_> = plan.identity(number).into_iter().chain(figures).collect();
            format.line(&plan.columns, &row)
        };
        let lines = format.header(&plan.columns).into_iter().chain(numbers.iter().map(line));
        lines.map(|line| line + "\n").collect()
    }

    /// Goal: wherever a file ends, its complete rows are kept, and nothing else.
    #[test]
    fn complete_rows_are_kept_at_every_byte() {
        let plan = plan(&["--grid", "workload.stream.place=\"bind:0,1\",bind:1", "--seeds", "1-3"]);
        let numbers = [1, 3, 5];
        for format in [RowFormat::Csv, RowFormat::JsonLines] {
            let text = file(&plan, format, &numbers);
            let heads = usize::from(format == RowFormat::Csv);
            for end in 0..=text.len() {
                let part = &text[..end];
                let (rows, bytes) = existing_rows(part, format, &plan, &numbers).unwrap();
                let lines = part.matches('\n').count();
                assert_eq!(rows.len(), lines.saturating_sub(heads), "{part}");
                assert_eq!(bytes, part.rfind('\n').map_or(0, |at| at + 1), "{part}");
                let read =
                    rows.iter().zip(numbers).all(|(row, n)| row.starts_with(&plan.identity(n)));
                assert!(read, "{rows:?}");
            }
        }
    }

    /// Goal: a file of other points, of another sweep, or with too many rows, is refused.
    #[test]
    fn other_files_are_refused() {
        let grid = ["--grid", "machine.latency=80ns,90ns", "--seeds", "1-3"];
        let (mine, other) = (plan(&grid), plan(&grid[..2]));
        for format in [RowFormat::Csv, RowFormat::JsonLines] {
            let text = file(&mine, format, &[0, 2]);
            assert!(existing_rows(&text, format, &mine, &[0, 2, 4]).is_ok());
            for numbers in [&[0][..], &[0, 1], &[2, 4]] {
                assert!(existing_rows(&text, format, &mine, numbers).is_err(), "{numbers:?}");
            }
            assert!(existing_rows(&text, format, &other, &[0, 2]).is_err());
            let more = text.clone() + "x";
            assert!(existing_rows(&more, format, &mine, &[0, 2]).is_err(), "behind the last row");
            assert!(existing_rows(&more, format, &mine, &[0, 2, 4]).is_err(), "no row begins so");
            assert!(existing_rows("notes", format, &mine, &[0, 2]).is_err());
        }
    }

    /// Goal: everything that rows depend on changes the sweep's id; other options do not.
    #[test]
    fn sweeps_are_told_apart() {
        let id = |words: &[&str]| plan(words).id;
        let mine = id(&["--grid", "time=2s,3s"]);
        assert_eq!(id(&["--grid", "time=2s,3s", "--jobs", "7", "--shard", "1/2"]), mine);
        let others: [&[&str]; 6] = [
            &["--grid", "time=3s,2s"],
            &["--grid", "sample=1s,2s"],
            &["--grid", "time=2s,3s", "--seeds", "2"],
            &["--grid", "time=2s,3s", "--set", "machine.latency=90ns"],
            &["--grid", "time=2s,3s", "--measure", "run"],
            &["--limit", "1s"],
        ];
        for other in others {
            assert_ne!(id(other), mine, "{other:?}");
        }
    }
}
