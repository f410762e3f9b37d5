//! The process whose memory is moved: a `nodeward-load`.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::args::MemoryOptions;

/// The rate at which a thread of the load touches pages.
#[derive(Clone, Copy, Debug)]
pub struct ProbeOptions<'a> {
    /// The time between two bursts.
    pub interval: &'a str,
    /// Pages in a burst.
    pub burst: u32,
}

/// A running load with all its memory in place on one node. Dropping it ends the load.
#[derive(Debug)]
pub struct LoadTarget {
    child: Child,
    output: BufReader<ChildStdout>,
    range: String,
}

impl LoadTarget {
    /// Starts a load on node 0 that does not touch its memory until its end, when it checks every
    /// word. With a probe, one thread touches random pages meanwhile and measures how long that
    /// takes.
    pub fn start(memory: &MemoryOptions, probe: Option<ProbeOptions>) -> Result<Self> {
        Self::start_on(0, memory, probe)
    }

    /// Starts a target as [`LoadTarget::start`] does, on any node.
    pub fn start_on(
        node: u32,
        memory: &MemoryOptions,
        probe: Option<ProbeOptions>,
    ) -> Result<Self> {
        let mut command = Command::new("nodeward-load");
        command.args(["--node", &node.to_string(), "--threads", "0", "--kind", &memory.kind]);
        command.args(["--size", &memory.size.to_string()]);
        command.args(["--mappings", &memory.mappings.to_string()]);
        command.args(memory.over.map(|bytes| format!("--over={bytes}")));
        if let Some(ProbeOptions { interval, burst }) = probe {
            command.args(["--probe", "--probe-interval", interval]);
            command.args(["--probe-burst", &burst.to_string()]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().context("nodeward-load")?;
        let out = child.stdout.take().context("the load has no output")?;
        let mut target = Self { child, output: BufReader::new(out), range: String::new() };
        let ready = target.line().context("the load did not begin")?;
        let range = ready.get("range").and_then(Value::as_str);
        target.range = range.context("the load does not tell its range")?.to_owned();
        Ok(target)
    }

    /// Returns the addresses of the target's memory, as START-END.
    pub fn range(&self) -> &str {
        &self.range
    }

    /// Returns the process id of the target.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the load and returns its last line. Fails if the load's memory does not hold what was
    /// written.
    pub fn stop(mut self) -> Result<Value> {
        self.end()?;
        let done = self.line().context("the load did not end well")?;
        let lost = done.get("mismatches").and_then(Value::as_u64);
        ensure!(lost == Some(0), "the load's memory changed while it was moved: {done}");
        Ok(done)
    }

    fn end(&self) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).context("cannot end the load")
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).context("a line that is not JSON")
    }
}

impl Drop for LoadTarget {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing left to do.
        let _ = self.end();
        let _ = self.child.wait();
    }
}
