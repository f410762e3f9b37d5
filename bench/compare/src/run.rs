//! One run: a workload under a balancer in a fresh guest.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nodeward_lab::{GuestRun, Lab, Sinks, unless_emulator_crashes};
use nodeward_runner::{BalancerSpec, CounterSample, RunEnd, RunEvent, RunSpec};
use serde::Serialize;

use crate::balancers::BalancerSetup;
use crate::miss_timeline::MissTimeline;
use crate::programs::GuestPrograms;
use crate::sampler::{self, Reading};
use crate::settings::CompareSettings;
use crate::workloads::LabWorkload;

/// Interval between samples of the guest's counters, in milliseconds.
const SAMPLE_INTERVAL_MS: u64 = 500;
/// Directory of the counts during a run.
const SHARED_MEMORY: &str = "/dev/shm";
/// Time limit of a run.
const TIMEOUT: Duration = Duration::from_secs(900);

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// The workload's name.
    pub workload: String,
    /// The balancer's name.
    pub balancer: String,
    /// The number of the repeat, from zero.
    pub repeat: u32,
    /// The time at which the first task completed its work, in milliseconds since the run began.
    pub first_end_ms: u64,
    /// The misses over time.
    pub track: MissTimeline,
    /// The guest's counters over time.
    pub looks: Vec<CounterSample>,
    /// The end of the run.
    pub end: RunEnd,
}

/// Carries out one run.
///
/// # Errors
/// If the lab, the balancer or a task fails, or memory did not hold what was written.
pub fn run_workload(
    lab: &Lab,
    programs: &GuestPrograms,
    settings: &CompareSettings,
    which: (&LabWorkload, &BalancerSetup, u32),
) -> Result<RunResult> {
    unless_emulator_crashes(|| run_in_guest(lab, programs, settings, which))
}

fn run_in_guest(
    lab: &Lab,
    programs: &GuestPrograms,
    settings: &CompareSettings,
    (workload, contender, repeat): (&LabWorkload, &BalancerSetup, u32),
) -> Result<RunResult> {
    let spec = RunSpec {
        tasks: workload.tasks()?,
        balancer: BalancerSpec { settings: workload.settings(), ..contender.balancer.clone() },
        balancer_lead_ms: settings.lead_ms(contender, repeat),
        sample_interval_ms: SAMPLE_INTERVAL_MS,
    };
    let counts = tempfile::NamedTempFile::new_in(SHARED_MEMORY)?.into_temp_path();
    let command = ["nodeward-runner".to_owned(), serde_json::to_string(&spec)?];
    let files = programs.files(lab, contender)?;
    let mut run = settings.guest_run(workload, files, TIMEOUT, command)?;
    run.count.iter_mut().for_each(|count| count.file = Some(counts.to_path_buf()));
    let (heard, readings) = run_and_sample(lab, &run, &counts)?;
    let mut outcome = outcome(&heard, &readings)?;
    outcome.workload.clone_from(&workload.name);
    outcome.balancer.clone_from(&spec.balancer.name);
    outcome.repeat = repeat;
    Ok(outcome)
}

/// The guest's lines, with their times of arrival.
type TimedLines = Vec<(Instant, RunEvent)>;

/// Runs the guest, and reads the counts meanwhile.
fn run_and_sample(lab: &Lab, run: &GuestRun, counts: &Path) -> Result<(TimedLines, Vec<Reading>)> {
    let stop = AtomicBool::new(false);
    let (mut lines, mut words) = (TimedLineReader::default(), Vec::new());
    let (ended, readings) = thread::scope(|scope| {
        let readings = scope.spawn(|| sampler::sample(counts, &stop));
        let ended = lab.stream(run, Sinks { stdout: &mut lines, stderr: &mut words });
        stop.store(true, Relaxed);
        (ended, readings.join())
    });
    let told = String::from_utf8_lossy(&words);
    let code = ended?.code.with_context(|| format!("not done after {TIMEOUT:?}: {told}"))?;
    ensure!(code == 0, "the guest says: {}", told.trim());
    Ok((lines.lines, readings.unwrap_or_default()))
}

fn outcome(heard: &[(Instant, RunEvent)], readings: &[Reading]) -> Result<RunResult> {
    let when = |wanted: fn(&RunEvent) -> bool| heard.iter().find(|(_, line)| wanted(line));
    let begin = when(|line| matches!(line, RunEvent::Begin)).context("it did not begin")?.0;
    let first_end = when(|line| matches!(line, RunEvent::FirstEnd)).context("no task ended")?.0;
    let Some((end, RunEvent::End(run_end))) = heard.last() else {
        anyhow::bail!("it did not end");
    };
    let lost = run_end.mismatches;
    ensure!(lost == 0, "{lost} lines of memory did not hold what was written there");
    let looks = heard.iter().filter_map(|(_, line)| match line {
        RunEvent::Look(look) => Some(*look),
        _ => None,
    });
    Ok(RunResult {
        workload: String::new(),
        balancer: String::new(),
        repeat: 0,
        first_end_ms: first_end.duration_since(begin).as_millis() as u64,
        track: sampler::miss_timeline(readings, begin, *end),
        looks: looks.collect(),
        end: run_end.clone(),
    })
}

/// Records the time of arrival of each line.
#[derive(Default)]
struct TimedLineReader {
    partial: Vec<u8>,
    lines: TimedLines,
}

impl Write for TimedLineReader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = Instant::now();
        self.partial.extend(bytes);
        while let Some(end) = self.partial.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.lines.push((now, serde_json::from_slice(&line)?));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: lines are found however they are split, and an invalid line is an error.
    #[test]
    fn lines_come_in_pieces() {
        let mut lines = TimedLineReader::default();
        lines.write_all(b"{\"line\":\"be").unwrap();
        assert!(lines.lines.is_empty());
        lines.write_all(b"gin\"}\n{\"line\":\"first-end\"}\n").unwrap();
        let heard: Vec<&RunEvent> = lines.lines.iter().map(|(_, line)| line).collect();
        assert_eq!(heard, [&RunEvent::Begin, &RunEvent::FirstEnd]);
        assert!(lines.write_all(b"garbage\n").is_err());
    }

    /// Goal: a run with corrupted memory is an error, and so is one that stopped half-way.
    #[test]
    fn spoilt_runs_are_errors() {
        let now = Instant::now();
        let heard = |mismatches| {
            let end = RunEvent::End(RunEnd { mismatches, ..RunEnd::default() });
            [RunEvent::Begin, RunEvent::FirstEnd, end].map(|line| (now, line))
        };
        assert!(outcome(&heard(0), &[]).is_ok());
        assert!(outcome(&heard(1), &[]).unwrap_err().to_string().contains("did not hold"));
        assert!(outcome(&heard(0)[..2], &[]).is_err());
    }
}
