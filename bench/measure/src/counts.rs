//! Converts the lab's counts of frames to a file of counts of pages, like one from hardware
//! counters.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write, stdout};

use anyhow::{Context, Result};
use nodeward_lab_counts::{AccessCount, CountsReader};
use nodeward_linux::Linux;
use nodeward_machine::{Machine, Process};
use nodeward_model::Pid;

use crate::args::CountsOptions;

/// Prints a line `ADDRESS NODE COUNT` for each page of a process and each node that accessed it.
pub fn print(options: &CountsOptions) -> Result<()> {
    let reader =
        CountsReader::open_in_guest().context("cannot read counts: see nodeward-lab run")?;
    let frames = reader.frames()?;
    let counts: BTreeMap<u64, Vec<AccessCount>> =
        frames.into_iter().map(|count| (count.frame, count.by)).collect();
    let linux = Linux::open();
    let process = linux.open_process(Pid::new(options.pid)?)?;
    let count = |cell: &AccessCount| if options.accesses { cell.accesses } else { cell.misses };
    let mut out = BufWriter::new(stdout().lock());
    each_page(&*process, linux.page_bytes(), |address, frame| {
        for (node, cell) in counts.get(&frame).into_iter().flatten().enumerate() {
            if count(cell) > 0 {
                writeln!(out, "{address:x} {node} {}", count(cell))?;
            }
        }
        Ok(())
    })?;
    Ok(out.flush()?)
}

/// Calls `look` with the address and the frame of each page that is in memory.
fn each_page(
    process: &dyn Process,
    page_bytes: u64,
    mut look: impl FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    let mut frames = Vec::new();
    for mapping in process.mappings()? {
        for range in process.populated(mapping.range)? {
            frames.clear();
            process.frames(range, &mut frames)?;
            let pages = (range.start..).step_by(usize::try_from(page_bytes)?);
            for (address, frame) in pages.zip(&frames) {
                frame.map_or(Ok(()), |frame| look(address, frame))?;
            }
        }
    }
    Ok(())
}
