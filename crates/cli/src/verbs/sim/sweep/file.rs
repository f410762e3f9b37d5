//! The file that rows go to as soon as they are known, and that a later sweep completes.
//!
//! Rows stand in the order of their points, so what is there is always a beginning of what there is
//! to be. A sweep that was killed leaves at worst a line without its end, which is dropped.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::format::Format;
use super::plan::{Plan, Row};

/// A file of rows that is being written.
pub struct RowFile {
    path: PathBuf,
    file: File,
    format: Format,
}

impl RowFile {
    /// Opens or makes a file for the rows of these points, and tells which of them it holds.
    pub fn open(
        path: &Path,
        plan: &Plan,
        numbers: &[usize],
        resume: bool,
    ) -> Result<(Self, Vec<Row>)> {
        let format = Format::of(path)?;
        let file = opened(path, resume)?;
        let mut rows = Self { path: path.to_owned(), file, format };
        let text = rows.text()?;
        let held = held(&text, format, plan, numbers);
        let (kept, bytes) = held.with_context(|| {
            format!("{} is not of this sweep; give another --out", path.display())
        })?;
        rows.cut(bytes)?;
        if let Some(header) = format.header(&plan.columns).filter(|_| bytes == 0) {
            rows.append(&header)?;
        }
        Ok((rows, kept))
    }

    /// Adds a row.
    pub fn add(&mut self, plan: &Plan, row: &[String]) -> Result<()> {
        self.append(&self.format.line(&plan.columns, row))
    }

    /// Adds a line in one write, so that a reader seldom sees a part of it.
    fn append(&mut self, line: &str) -> Result<()> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }

    fn text(&mut self) -> Result<String> {
        let mut text = Vec::new();
        let read = self.file.read_to_end(&mut text);
        read.with_context(|| format!("cannot read {}", self.path.display()))?;
        // A letter of several bytes that is cut is in the line that is dropped.
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn cut(&mut self, bytes: usize) -> Result<()> {
        let cut = self.file.set_len(bytes as u64);
        let sought = cut.and_then(|()| self.file.seek(SeekFrom::Start(bytes as u64)));
        sought.map(drop).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn opened(path: &Path, resume: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(resume).create_new(!resume);
    let file = options.open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => anyhow::anyhow!(
            "{} is there; --resume completes it, or give another --out",
            path.display()
        ),
        _ => anyhow::Error::new(error).context(format!("cannot write {}", path.display())),
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("{} is being written by another sweep", path.display())
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// The rows that a text holds, and how many bytes they and the header take.
fn held(text: &str, format: Format, plan: &Plan, numbers: &[usize]) -> Result<(Vec<Row>, usize)> {
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
        (_, Some(&number)) => format.beginning(&plan.columns, &plan.identity(number)),
        (_, None) => String::new(),
    };
    let is_next = torn.bytes().zip(next.bytes()).all(|(is, expected)| is == expected);
    match is_next && (torn.is_empty() || !next.is_empty()) {
        true => Ok((rows, complete)),
        false => bail!("its last line is none of this sweep's"),
    }
}
