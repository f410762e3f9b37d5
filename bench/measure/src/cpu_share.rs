//! The CPU time that a process takes, beside that of bare calls about the same processes: a share
//! of a CPU alone would tell of the host.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nodeward_linux::load::cpu_time_ns;
use nodeward_model::Pid;
use serde_json::{Value, json};

use crate::numbers::{median, rounded};

/// Passes whose median counts.
const PASSES: usize = 41;

/// Measures all threads of a process together, for a time from now on: the CPU time that it takes
/// in a second, in passes over the list of all processes.
pub fn cpu_share(pid: u32, time: Duration) -> Result<Value> {
    let pid = Pid::new(pid)?;
    let pass_ns = pass_ns()?;
    let (began, before_ns) = (Instant::now(), cpu_time_ns(pid));
    thread::sleep(time);
    let (took, used_ns) = (began.elapsed(), cpu_time_ns(pid) - before_ns);
    let used_ns_per_s = used_ns as f64 / took.as_secs_f64();
    Ok(json!({
        "measured": rounded(used_ns_per_s / pass_ns),
        "unit": "passes/s",
        "pass_us": rounded(pass_ns / 1e3),
        "cpu_percent": rounded(used_ns_per_s / 1e7),
        "seconds": rounded(took.as_secs_f64()),
    }))
}

/// Returns the CPU time of a pass: to list /proc, and to read the stat of each process.
fn pass_ns() -> Result<f64> {
    let own = Pid::new(std::process::id())?;
    let mut times = Vec::with_capacity(PASSES);
    for _ in 0..PASSES {
        let before_ns = cpu_time_ns(own);
        pass()?;
        times.push((cpu_time_ns(own) - before_ns) as f64);
    }
    Ok(median(&times))
}

fn pass() -> Result<()> {
    for entry in fs::read_dir("/proc").context("cannot list /proc")?.filter_map(Result::ok) {
        if entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            // A process may have exited since it was listed.
            let _ = fs::read(entry.path().join("stat"));
        }
    }
    Ok(())
}
