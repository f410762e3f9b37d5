//! Merges the files of all shards into one, equal to that of an unsharded sweep.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use nodeward_model::Escape as _;

use crate::results::sweep::RowFormat;

/// The first three columns identify the place of a row.
const POINT_COLUMNS: [&str; 3] = ["point", "of", "sweep"];
/// Maximum number of points named in a message.
const NAMED: usize = 8;

/// Returns all rows of some files in the order of their points, below their header.
pub fn merged(paths: &[PathBuf]) -> Result<String> {
    let mut all = MergedRows::default();
    let mut formats = paths.iter().map(|path| RowFormat::of(path));
    let format = formats.next().context("there is nothing to merge")??;
    for other in formats {
        ensure!(other? == format, "files to merge are all CSV or all JSON lines");
    }
    for path in paths {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.escaped()))?;
        all.add(format, &text).with_context(|| path.escaped().to_string())?;
    }
    all.text(paths)
}

/// The rows of one sweep.
#[derive(Default)]
struct MergedRows {
    header: Option<String>,
    /// Total number of points, and the id of the sweep.
    total_and_sweep: Option<(usize, String)>,
    rows: BTreeMap<usize, String>,
}

impl MergedRows {
    fn add(&mut self, format: RowFormat, text: &str) -> Result<()> {
        ensure!(text.is_empty() || text.ends_with('\n'), "its last line has no end; {RESUME}");
        let mut lines = text.lines();
        if format == RowFormat::Csv {
            let header = lines.next().context("it is empty")?;
            let known = self.header.get_or_insert_with(|| header.to_owned());
            ensure!(header == known, "its columns are not those of the file before");
        }
        let names = self.header.as_ref().and_then(|header| format.names(header));
        let names = names.unwrap_or_else(|| POINT_COLUMNS.map(str::to_owned).into());
        ensure!(
            names.starts_with(&POINT_COLUMNS.map(str::to_owned)),
            "it is not the file of a sweep"
        );
        lines.try_for_each(|line| self.add_row(format, &names, line))
    }

    fn add_row(&mut self, format: RowFormat, names: &[String], line: &str) -> Result<()> {
        let cells = format.cells(names, line);
        let place = cells.as_deref().and_then(|cells| {
            Some((cells[0].parse().ok()?, cells[1].parse().ok()?, cells[2].clone()))
        });
        let (point, of, sweep): (usize, usize, String) =
            place.with_context(|| format!("this is no row of a sweep: {line}"))?;
        let known = self.total_and_sweep.get_or_insert_with(|| (of, sweep.clone()));
        ensure!(*known == (of, sweep), "point {point} is of another sweep than those before");
        ensure!(point < of, "point {point} is not one of {of}");
        match self.rows.insert(point, line.to_owned()) {
            None => Ok(()),
            Some(_) => bail!("point {point} is there twice"),
        }
    }

    fn text(self, paths: &[PathBuf]) -> Result<String> {
        let of = self.total_and_sweep.map_or(0, |(of, _)| of);
        ensure!(of > 0, "{}: there are no rows", shown(paths));
        let missing = || (0..of).filter(|point| !self.rows.contains_key(point));
        if self.rows.len() < of {
            let some: Vec<_> = missing().take(NAMED).map(|point| point.to_string()).collect();
            let more = if missing().count() > NAMED { " and more" } else { "" };
            let there = self.rows.len();
            bail!("{there} of {of} points are there; missing: {}{more}; {RESUME}", some.join(", "));
        }
        let lines = self.header.into_iter().chain(self.rows.into_values());
        Ok(lines.map(|line| line + "\n").collect())
    }
}

/// The remedy for an incomplete shard.
const RESUME: &str = "run its sweep again with --resume";

fn shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| Path::display(path).to_string()).collect::<Vec<_>>().join(", ")
}
