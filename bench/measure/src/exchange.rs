//! Two processes, each on a node of its own, exchange nodes while both nodes are nearly full.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use nodeward_linux::sysfs;
use nodeward_model::NodeId;
use serde_json::{Value, json};

use crate::args::{ExchangeOptions, MemoryOptions};
use crate::commands::timed_json;
use crate::numbers::{all_rounded, ms, rounded};
use crate::target::LoadTarget;

const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];
const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// Memory that the kernel keeps free for itself. Its default in a guest with transparent huge pages
/// is 66 MiB: with 64 MiB free on a node it would be out of memory before anything moves.
const RESERVE_FILE: &str = "/proc/sys/vm/min_free_kbytes";
const RESERVE_KIB: &str = "8192";
const MIB: f64 = 1_048_576.0;
/// Interval of reading the free memory; a parcel takes tens of milliseconds.
const LOOK: Duration = Duration::from_micros(500);

/// Exchanges all pages, alternating directions, and watches the free memory.
pub fn measure(options: &ExchangeOptions) -> Result<Value> {
    let memory = MemoryOptions::anonymous(options.size);
    let targets =
        [LoadTarget::start_on(0, &memory, None)?, LoadTarget::start_on(1, &memory, None)?];
    let _ballast = Ballast::leave_free(options.free)?;
    let (mut extra_mib, mut took) = (Vec::new(), Vec::new());
    for run in 0..options.runs {
        let mut command = command(options, &targets);
        let (used, result) = watch_free_memory(|| timed_json(&mut command))?;
        let (time, report) = result?;
        eprintln!("  run {}: {time:.2?}, {:.1} MiB beyond", run + 1, used as f64 / MIB);
        anyhow::ensure!(report["account"]["skipped"] == json!({}), "pages stayed: {report}");
        extra_mib.push(used as f64 / MIB);
        took.push(time);
    }
    for target in targets {
        target.stop()?;
    }
    Ok(json!({
        "measured": rounded(extra_mib.iter().copied().fold(0.0, f64::max)),
        "unit": "MiB",
        "size_bytes": options.size,
        "free_bytes": options.free,
        "extra_mib": all_rounded(&extra_mib),
        "ms": all_rounded(&ms(&took)),
    }))
}

fn command(options: &ExchangeOptions, targets: &[LoadTarget]) -> Command {
    let mut command = Command::new("nodeward");
    command.args(["move", "--json", "--only", "anonymous"]).args(&options.options);
    command.args(targets.iter().map(|target| target.pid().to_string())).args(["0,1", "1,0"]);
    command
}

/// Runs `work`. Returns the largest drop of a node's free memory meanwhile, in bytes.
fn watch_free_memory<T>(work: impl FnOnce() -> T) -> Result<(u64, T)> {
    let before = free()?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| -> Result<u64> {
            let mut used = 0;
            while !done.load(Ordering::Relaxed) {
                let now = free()?;
                let of_node = |node| before[&node].saturating_sub(now[&node]);
                used = NODES.into_iter().map(of_node).fold(used, u64::max);
                std::thread::sleep(LOOK);
            }
            Ok(used)
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        let used = watcher.join().map_err(|panic| std::panic::resume_unwind(panic))?;
        Ok((used?, result))
    })
}

fn free() -> Result<BTreeMap<NodeId, u64>> {
    let of_node = |node| Ok((node, sysfs::free_bytes(Path::new("/"), node)?));
    NODES.into_iter().map(of_node).collect()
}

/// Pools of huge pages that take all memory but the part to stay free. Dropping it empties them.
struct Ballast;

impl Ballast {
    fn leave_free(bytes: u64) -> Result<Self> {
        // Otherwise caches that the kernel can drop would in effect be free memory.
        fs::write("/proc/sys/vm/drop_caches", "3").context("/proc/sys/vm/drop_caches")?;
        fs::write(RESERVE_FILE, RESERVE_KIB).context(RESERVE_FILE)?;
        let ballast = Self;
        for (node, free) in free()? {
            let pages = free.saturating_sub(bytes) / HUGE_PAGE_BYTES;
            fs::write(pool(node), pages.to_string()).with_context(|| format!("{node}'s pool"))?;
        }
        Ok(ballast)
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        // A pool that cannot be emptied goes with the guest.
        NODES.into_iter().for_each(|node| fs::write(pool(node), "0").unwrap_or_default());
    }
}

fn pool(node: NodeId) -> PathBuf {
    let sizes = format!("/sys/devices/system/node/node{node}/hugepages");
    Path::new(&sizes).join("hugepages-2048kB/nr_hugepages")
}
