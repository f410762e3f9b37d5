//! Files of samples and counts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nodeward_linux::load;
use nodeward_machine::Process;
use nodeward_model::{Access, Escape as _, Pid};
use nodeward_samples::source::{SampleInput, open};
use nodeward_samples::{Error, PeekedSource, PerfSample, SampleFormat, UnusableSamples};

use super::source::{AccessUnit, Half, HotSource};

/// The samples of a file.
pub struct AccessFile {
    path: PathBuf,
    source: SampleFormat<PeekedSource<SampleInput>>,
}

impl AccessFile {
    /// Opens a file and detects its format.
    pub fn open(path: &Path) -> Result<Self> {
        let source = open(path).with_context(|| wrong(path))?;
        Ok(Self { path: path.to_owned(), source })
    }
}

impl HotSource for AccessFile {
    fn describe(&self) -> String {
        let what = match &self.source {
            SampleFormat::Counts(_) => "counts",
            SampleFormat::PerfText(_) => "the output of perf script",
            SampleFormat::PerfData(_) => "a perf.data",
        };
        format!("reading '{}' as {what}", self.path.escaped())
    }

    fn misses_per_count(&self) -> u64 {
        1
    }

    fn observe(
        self: Box<Self>,
        process: &dyn Process,
        _stop: &dyn Fn() -> bool,
        see: &mut dyn FnMut(Half, Access),
    ) -> Result<AccessUnit> {
        let path = self.path;
        let see = &mut |access| see(Half::First, access);
        let unusable = match self.source {
            SampleFormat::Counts(counts) => {
                for access in counts {
                    see(access.with_context(|| wrong(&path))?);
                }
                return Ok(AccessUnit::Counts);
            }
            SampleFormat::PerfText(mut samples) => {
                select(&path, &mut samples, process, see)?;
                samples.unusable()
            }
            SampleFormat::PerfData(mut samples) => {
                select(&path, &mut samples, process, see)?;
                samples.unusable()
            }
        };
        warn(unusable);
        Ok(AccessUnit::Counts)
    }
}

/// Passes on the samples of one process.
fn select(
    path: &Path,
    samples: &mut dyn Iterator<Item = Result<PerfSample, Error>>,
    process: &dyn Process,
    see: &mut dyn FnMut(Access),
) -> Result<()> {
    let pid = process.pid();
    let threads: BTreeSet<Pid> = load::thread_ids(Path::new("/"), pid).into_iter().collect();
    let is_of_thread = |tid| Pid::new(tid).is_ok_and(|tid| threads.contains(&tid));
    let (mut read, mut seen) = (0_u64, 0_u64);
    for sample in samples {
        let sample = sample.with_context(|| wrong(path))?;
        read += 1;
        if sample.pid.map_or_else(|| is_of_thread(sample.tid), |of| of == pid.number()) {
            seen += 1;
            see(sample.access);
        }
    }
    if seen == 0 {
        bail!("none of the {read} samples in '{}' is of process {pid}; record it", path.escaped());
    }
    Ok(())
}

/// Reports samples with missing fields.
fn warn(unusable: UnusableSamples) {
    let UnusableSamples { without_address, without_cpu, without_thread } = unusable;
    if without_address + without_cpu + without_thread > 0 {
        say!(
            "nodeward: samples left out: {without_address} without the address of data, \
             {without_cpu} without a CPU, {without_thread} without a thread"
        );
    }
}

fn wrong(path: &Path) -> String {
    format!("'{}' cannot be used", path.escaped())
}
