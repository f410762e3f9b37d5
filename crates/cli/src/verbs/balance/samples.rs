//! `--samples FILE`: perf samples taken while the balancer runs show which thread uses which page.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result, bail};
use nodeward_linux::access_queue::AccessQueue;
use nodeward_model::{Escape as _, Pid};
use nodeward_samples::{Error, PerfSample, SampleFormat, open};

/// Reads samples in a thread of its own, as they arrive, until they end, which is reported.
///
/// # Errors
/// If there is no such file, or it is a recording of the past.
pub fn start_reader(path: &Path, heard: Arc<AccessQueue>) -> Result<()> {
    check(path).with_context(|| format!("--samples '{}' cannot be used", path.escaped()))?;
    let path = path.to_owned();
    let work = move || {
        let read = read(&path, &heard);
        heard.close();
        let why = match read {
            Ok(()) => "the samples have ended".to_owned(),
            Err(error) => format!("the samples cannot be used: {error:#}"),
        };
        say!("nodeward: {why}; from now on pages are not placed one by one");
    };
    thread::Builder::new().name("samples".to_owned()).spawn(work)?;
    Ok(())
}

/// Checks that the samples are live: a pipe or a device is; the time of a regular file is unknown.
fn check(path: &Path) -> Result<()> {
    if path == Path::new("-") {
        return Ok(());
    }
    let found = std::fs::metadata(path)?;
    if found.is_file() {
        bail!("it is a file, and of the past; give a pipe, or - for standard input");
    }
    if found.is_dir() {
        bail!("it is a directory; give a pipe, or - for standard input");
    }
    Ok(())
}

fn read(path: &Path, heard: &AccessQueue) -> Result<()> {
    match open(path)? {
        SampleFormat::Counts(_) => {
            bail!("its lines name no process; give the output of perf script or of perf record")
        }
        SampleFormat::PerfText(samples) => push_samples(samples, heard),
        SampleFormat::PerfData(samples) => push_samples(samples, heard),
    }
}

fn push_samples(
    samples: impl Iterator<Item = Result<PerfSample, Error>>,
    heard: &AccessQueue,
) -> Result<()> {
    for sample in samples {
        let sample = sample?;
        let Some(pid) = sample.pid else {
            bail!("a sample names a thread only; say perf script -F pid,tid,cpu,event,period,addr")
        };
        // Pid 0 is the idle task: no process.
        if let Ok(pid) = Pid::new(pid) {
            heard.push(pid, sample.access);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: samples that cannot be live are refused at once, with an alternative.
    #[test]
    fn samples_must_be_of_now() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("samples");
        let refused = |path: &Path| {
            let error = start_reader(path, Arc::default()).unwrap_err();
            format!("{error:#}").replace(folder.path().to_str().unwrap(), "")
        };
        assert!(refused(&file).contains("'/samples' cannot be used: No such file"));
        std::fs::write(&file, "").unwrap();
        assert!(refused(&file).ends_with("give a pipe, or - for standard input"));
        assert!(refused(folder.path()).contains("it is a directory"));
    }

    /// Goal: a sample without a process is refused, and one with a process is entered unchanged.
    #[test]
    fn samples_name_their_process() {
        let sample = |ids: &str| {
            format!("stream {ids} [003] 12.345678: 20000 cpu/mem-loads/P: 7f0000001008\n")
        };
        let text = |text: String| {
            let heard = AccessQueue::default();
            let samples = nodeward_samples::perf_text::read(text.as_bytes());
            push_samples(samples, &heard).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(text(sample("7/8") + &sample("0/0")), Ok(()));
        assert!(text(sample("8")).unwrap_err().contains("names a thread only"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counts");
        std::fs::write(&path, "7f0000001008 1 20\n").unwrap();
        let counts = read(&path, &AccessQueue::default()).unwrap_err();
        assert!(format!("{counts:#}").contains("name no process"));
    }
}
