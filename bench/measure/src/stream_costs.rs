//! What a line costs, by streams that keep both nodes at work, as loads do.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use crate::numbers::median;

const LINE_BYTES: u64 = 64;

/// Two streams, one on a CPU of node 0 and one of node 1.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// Memory of each.
    pub bytes: u64,
    /// Passes of each; the first does not count, since the emulator translates code in it.
    pub passes: u32,
    /// What they do with their memory, as `nodeward-stream` calls it.
    pub part: &'static str,
    /// Whether the memory of each is on the other's node.
    pub are_far: bool,
}

impl Streams {
    /// Returns the time of a line in the median pass.
    pub fn line_ns(self) -> Result<f64> {
        let passes = self.run()?;
        let ns: Vec<f64> = passes.iter().map(|pass| pass.as_nanos() as f64).collect();
        Ok(median(&ns) / (self.bytes / LINE_BYTES) as f64)
    }

    /// Returns the duration of each pass of both but the first.
    fn run(self) -> Result<Vec<Duration>> {
        thread::scope(|scope| {
            let streams = [0, 1].map(|node| scope.spawn(move || self.run_on(node)));
            let mut all = Vec::new();
            for stream in streams {
                all.extend(stream.join().map_err(|_| anyhow!("a thread panicked"))??);
            }
            Ok(all)
        })
    }

    fn run_on(self, node: u32) -> Result<Vec<Duration>> {
        let Self { bytes, passes, part, are_far } = self;
        let memory = if are_far { 1 - node } else { node };
        // The lab's counter counts in slots, and delays far lines of what it counts.
        let slot = node + 1;
        let line = format!(
            "--size {bytes} --passes {} --part {part} --nodes {memory} --stay {node} --slot {slot}",
            passes + 1
        );
        let mut stream = Command::new("nodeward-stream")
            .args(line.split(' '))
            .stdout(Stdio::piped())
            .spawn()
            .context("nodeward-stream cannot be started; bring it beside this program")?;
        let out = stream.stdout.take().context("no standard output")?;
        let (mut before, mut took) = (Instant::now(), Vec::new());
        for line in BufReader::new(out).lines() {
            let now = Instant::now();
            took.extend(line?.contains("\"pass\"").then(|| now - before));
            before = now;
        }
        ensure!(stream.wait()?.success(), "nodeward-stream failed");
        ensure!(took.len() > 1, "nodeward-stream made no passes");
        Ok(took.split_off(1))
    }
}
