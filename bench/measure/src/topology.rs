//! `nodeward show --topology` on a machine larger than most. Its /sys is made from a one-line
//! description in a directory, with the files that a kernel would provide.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use nodeward_linux::sysfs::{as_capture, unpack};
use serde_json::{Value, json};

use crate::args::TopologyOptions;
use crate::commands::timed;
use crate::numbers::{all_rounded, median, ms, rounded};

/// Makes the machine and shows it as often as requested.
pub fn measure(options: &TopologyOptions) -> Result<Value> {
    let root = tempfile::tempdir().context("no directory for the machine's files")?;
    let topology = options.machine.topology();
    unpack(&as_capture(&topology), root.path())?;
    let mut show = Command::new(&options.program);
    show.args(["show", "--topology", "--root"]).arg(root.path());
    let took: Vec<Duration> = (0..options.runs).map(|_| timed(&mut show)).collect::<Result<_>>()?;
    let took_ms = ms(&took);
    Ok(json!({
        "measured": rounded(median(&took_ms)),
        "unit": "ms",
        "machine": options.machine.to_string(),
        "made_from_a_description": true,
        "nodes": topology.nodes.len(),
        "cpus": topology.cpus.len(),
        "runs_ms": all_rounded(&took_ms),
    }))
}
