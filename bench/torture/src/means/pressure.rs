//! Memory gets short for the whole process: memory.high of its control group goes down and up.

use std::fs;
use std::time::{Duration, Instant};

use super::pageout::swap;
use crate::means_thread::{Means, MeansEnv, MeansThreads, SkippedMeans, single_thread};
use crate::owned_range::OwnedRange;
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext};

pub const WHAT: &str = "memory.high of our control group, so low that pages go to swap";

const ROOT: &str = "/sys/fs/cgroup";
/// Bytes by which the limit is at times below the present use.
const SHORTAGE_BYTES: u64 = 1 << 20;
/// Memory is short for one part in this many of the time: other threads wait for swap then, and do
/// little else.
const SHORT_SHARE: u32 = 8;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

struct Pressure {
    ranges: Vec<OwnedRange<'static>>,
    cgroup: String,
}

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    env.require_whole_machine()?;
    swap()?;
    let folder = format!("{ROOT}/nodeward-torture-{}", std::process::id());
    create_cgroup(&folder).map_err(|error| SkippedMeans(format!("{folder}: {error}")))?;
    single_thread(Pressure { ranges: env.memory.ranges(RangeUse::Plain), cgroup: folder })
}

fn create_cgroup(folder: &str) -> std::io::Result<()> {
    fs::write(format!("{ROOT}/cgroup.subtree_control"), "+memory")?;
    fs::create_dir(folder)?;
    fs::write(format!("{folder}/cgroup.procs"), "0")
}

impl Means for Pressure {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let began = Instant::now();
        let used = fs::read_to_string(format!("{}/memory.current", self.cgroup));
        let used: u64 = used.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        context.status.begin_action("memory.high down", 0..0);
        self.set_high(&used.saturating_sub(SHORTAGE_BYTES).to_string());
        std::thread::sleep(Duration::from_millis(context.random.below(20) as u64));
        context.status.begin_action("memory.high up", 0..0);
        self.set_high("max");
        pause(context, began.elapsed() * (SHORT_SHARE - 1));
        let lot = context.random_range(&mut self.ranges);
        context.check_and_write(lot)
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.ranges
    }
}

fn pause(context: &ThreadContext, time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time && !context.is_over() {
        std::thread::sleep(POLL_INTERVAL);
        context.status.mark_progress();
    }
}

impl Pressure {
    /// An error is ignored: what the kernel cannot reclaim now it can another time.
    fn set_high(&self, text: &str) {
        fs::write(format!("{}/memory.high", self.cgroup), text).ok();
    }
}

impl Drop for Pressure {
    fn drop(&mut self) {
        self.set_high("max");
        fs::write(format!("{ROOT}/cgroup.procs"), "0").ok();
        fs::remove_dir(&self.cgroup).ok();
    }
}
