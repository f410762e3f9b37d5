//! The share of a CPU that a process takes.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use nodeward_linux::load::cpu_time_ns;
use nodeward_model::Pid;
use serde_json::{Value, json};

use crate::numbers::rounded;

/// Measures that of all threads of a process together, for a time from now on.
pub fn cpu_share(pid: u32, time: Duration) -> Result<Value> {
    let pid = Pid::new(pid)?;
    let (began, before_ns) = (Instant::now(), cpu_time_ns(pid));
    thread::sleep(time);
    let (took, used_ns) = (began.elapsed(), cpu_time_ns(pid) - before_ns);
    Ok(json!({
        "measured": rounded(used_ns as f64 * 100.0 / took.as_nanos() as f64),
        "unit": "%",
        "cpu_ms": rounded(used_ns as f64 / 1e6),
        "seconds": rounded(took.as_secs_f64()),
    }))
}
