//! A list of scattered addresses against the same memory as a range.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::{Pid, Range};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::args::{ListOptions, MemoryOptions};
use crate::commands::timed_json;
use crate::numbers::{all_rounded, median, ms, rounded};
use crate::shuffle::shuffled;
use crate::target::LoadTarget;

/// Measures both in alternation, each in both directions and each first as often as second.
pub fn measure(options: &ListOptions) -> Result<Value> {
    let memory = MemoryOptions::anonymous(options.size);
    let target = LoadTarget::start(&memory, None)?;
    let bench = ListBenchmark::new(options, &target)?;
    bench.range(0, 1)?; // a guest's memory is allocated by its host at the first touch
    bench.range(1, 0)?;
    let (mut ranges, mut lists) = (Vec::new(), Vec::new());
    for pair in 0..options.pairs {
        let (range, list) = if pair.is_multiple_of(2) {
            (bench.range(0, 1)?, bench.list(0)?)
        } else {
            let list = bench.list(1)?;
            (bench.range(1, 0)?, list)
        };
        eprintln!("  pair {}: range {:.2?}, list {:.2?}", pair + 1, range.took, list.took);
        ranges.push(range);
        lists.push(list);
        bench.range(1, 0)?; // returns the pages that no list named
    }
    drop(bench);
    target.stop()?;
    let ratio =
        |(list, range): (&MoveSample, &MoveSample)| list.pages_per_s() / range.pages_per_s();
    let ratios: Vec<f64> = lists.iter().zip(&ranges).map(ratio).collect();
    let times = |samples: &[MoveSample]| {
        all_rounded(&ms(&samples.iter().map(|sample| sample.took).collect::<Vec<_>>()))
    };
    Ok(json!({
        "measured": rounded(median(&ratios)),
        "addresses": options.addresses,
        "physical": options.physical,
        "size_bytes": options.size,
        "ratios": all_rounded(&ratios),
        "list_ms": times(&lists),
        "list_pages": lists.iter().map(|sample| sample.moved).collect::<Vec<_>>(),
        "range_ms": times(&ranges),
        "range_pages": ranges.iter().map(|sample| sample.moved).collect::<Vec<_>>(),
    }))
}

/// The time and the account of one command.
struct MoveSample {
    took: Duration,
    moved: u64,
}

impl MoveSample {
    fn pages_per_s(&self) -> f64 {
        self.moved as f64 / self.took.as_secs_f64()
    }
}

struct ListBenchmark<'a> {
    options: &'a ListOptions,
    target: &'a LoadTarget,
    range: Range,
    folder: TempDir,
}

impl<'a> ListBenchmark<'a> {
    fn new(options: &'a ListOptions, target: &'a LoadTarget) -> Result<Self> {
        let number = |text| u64::from_str_radix(text, 16);
        let (start, end) = target.range().split_once('-').context("the load's range")?;
        let range = Range::new(number(start)?, number(end)?);
        let folder = tempfile::tempdir()?;
        Ok(Self { options, target, range, folder })
    }

    /// Moves the whole memory as a range.
    fn range(&self, from: u32, to: u32) -> Result<MoveSample> {
        let mut command = self.command();
        command.args(["--range", self.target.range()]);
        sample(command.args([from.to_string(), to.to_string()]))
    }

    /// Moves the pages of a new list. Frames change with each move, so the list is written anew;
    /// that time is not measured.
    fn list(&self, to: u32) -> Result<MoveSample> {
        let path = self.folder.path().join("addresses");
        self.write(&path)?;
        let mut command = self.command();
        command.arg("--addresses").arg(&path).arg(to.to_string());
        if self.options.physical {
            command.arg("--physical");
        }
        sample(&mut command)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("nodeward");
        command.args(["move", "--json"]).args(&self.options.options);
        command.arg(self.target.pid().to_string());
        command
    }

    fn write(&self, path: &Path) -> Result<()> {
        let frames = if self.options.physical { self.frames()? } else { Vec::new() };
        let page_bytes = Linux::open().page_bytes();
        let mut file = BufWriter::new(File::create(path)?);
        let pages = self.range.bytes() / page_bytes;
        for page in shuffled(pages).take(self.options.addresses) {
            let address = match frames.get(usize::try_from(page)?) {
                Some(frame) => frame.context("a page is not there")? * page_bytes,
                None => self.range.start + page * page_bytes,
            };
            writeln!(file, "{address:x}")?;
        }
        Ok(file.flush()?)
    }

    fn frames(&self) -> Result<Vec<Option<u64>>> {
        let process = Linux::open().open_process(Pid::new(self.target.pid())?)?;
        let mut frames = Vec::new();
        process.frames(self.range, &mut frames)?;
        Ok(frames)
    }
}

fn sample(command: &mut Command) -> Result<MoveSample> {
    let (took, report) = timed_json(command)?;
    let moved = report["account"]["moved"].as_u64().context("a report without an account")?;
    Ok(MoveSample { took, moved })
}
