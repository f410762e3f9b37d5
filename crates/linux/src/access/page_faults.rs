//! Page faults with their addresses; and the source `faults`: while the kernel's NUMA balancing is
//! on, it takes pages out of sight to see who uses them next, and each such use is a page fault.

use std::path::Path;

use nodeward_machine::{Error, Result};
use nodeward_model::AccessKind;

use super::observed::ObservedProcess;
use super::probe;
use super::records::Sample;
use super::source::{EventSetup, SampleReader};
use crate::kernel_file;
use crate::sys::{PerfCounter, PerfEvent};

/// All rings together, in bytes, and one of them at most. A fault takes 40 bytes: 100,000 fit into
/// 4 MiB, as many as one CPU handles in a quarter of a second.
const RINGS_BYTES: u64 = 64 << 20;
const RING_BYTES_MAX: u64 = 4 << 20;

/// Reads the addresses of page faults.
#[derive(Debug)]
pub struct FaultReader {
    /// What is known of each access that faults.
    pub kind: AccessKind,
}

impl FaultReader {
    /// Returns the event whose samples are read.
    pub fn setup() -> EventSetup {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let event = PerfEvent { counter: PerfCounter::PageFaults, registers: 0 };
        EventSetup { event, ring_bytes: (RINGS_BYTES / cpus).min(RING_BYTES_MAX) }
    }
}

impl SampleReader for FaultReader {
    fn address(&mut self, sample: &Sample<'_>, _: &ObservedProcess) -> Option<(u64, AccessKind)> {
        Some((sample.address, self.kind))
    }
}

/// Checks that the source `faults` works here. `root` holds `proc`.
///
/// # Errors
/// `Unsupported` while the kernel's balancing is off; those of perf.
pub fn probe_hint_faults(root: &Path) -> Result<()> {
    let mode = kernel_file::read_to_string(root.join("proc/sys/kernel/numa_balancing")).ok();
    let is_on = |mode: &str| mode.trim().parse::<u32>().is_ok_and(|bits| bits & 1 == 1);
    match mode.as_deref() {
        Some(mode) if is_on(mode) => probe::try_event(FaultReader::setup().event),
        Some(_) => Err(unsupported("kernel.numa_balancing is off, so the kernel hides no page")),
        None => Err(unsupported("this kernel has no NUMA balancing (CONFIG_NUMA_BALANCING)")),
    }
}

fn unsupported(reason: &str) -> Error {
    Error::Unsupported { action: "observing hint faults", reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Goal: hint faults exist only while bit 0 of the setting is set (2 is memory tiering alone).
    #[test]
    fn hint_faults_need_the_kernels_balancing() {
        let root = tempfile::tempdir().unwrap();
        let reason = || probe_hint_faults(root.path()).err().map(|error| error.to_string());
        assert!(reason().unwrap().contains("CONFIG_NUMA_BALANCING"));
        let folder = root.path().join("proc/sys/kernel");
        fs::create_dir_all(&folder).unwrap();
        for mode in ["0\n", "2\n", "?"] {
            fs::write(folder.join("numa_balancing"), mode).unwrap();
            assert!(reason().unwrap().contains("numa_balancing is off"), "{mode}");
        }
        for mode in ["1\n", "3\n"] {
            fs::write(folder.join("numa_balancing"), mode).unwrap();
            assert!(reason().is_none_or(|text| text.contains("with perf")), "{mode}");
        }
    }
}
