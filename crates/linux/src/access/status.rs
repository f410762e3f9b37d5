//! Which sources of accesses work here, and what each is good for.

use std::fs;
use std::path::Path;

use nodeward_machine::{AccessSource, AccessSourceKind, AccessSourceStatus, Error, Result};
use nodeward_model::AccessKind;
use nodeward_operands::Architecture;

use super::page_faults::{FaultReader, probe_hint_faults};
use super::probe::try_event;
use super::registers::OperandReader;
use super::soft_dirty::SoftDirtySource;
use super::source::PerfSource;
use crate::hot::{damon, soft_dirty};

/// What was tried, in errors.
const ACTION: &str = "observing accesses";

/// Tries each source on this process; the preferred ones come first. `root` holds `proc` and `sys`.
pub fn statuses(root: &Path) -> Vec<AccessSourceStatus> {
    use AccessSourceKind::{Damon, Faults, Perf, Registers, SoftDirty};
    [Registers, SoftDirty, Faults, Damon, Perf].map(|kind| status(kind, root)).into()
}

fn status(kind: AccessSourceKind, root: &Path) -> AccessSourceStatus {
    let (blind_to, price) = traits(kind);
    let obstacle = probe(kind, root).err().map(obstacle);
    AccessSourceStatus { kind, obstacle, blind_to, price }
}

/// Returns what keeps a source from working, and the remedy.
fn obstacle(error: Error) -> String {
    match error {
        Error::Unsupported { reason, .. } => reason,
        Error::Denied { remedy, .. } => format!("it is not permitted: {remedy}"),
        error => error.to_string(),
    }
}

/// Returns what a source does not see, and what it costs.
fn traits(kind: AccessSourceKind) -> (&'static str, &'static str) {
    match kind {
        AccessSourceKind::Registers => (
            "accesses in system calls, and how many there are: it sees where time goes",
            "an interrupt a sample, and some microseconds of this program's CPU time",
        ),
        AccessSourceKind::SoftDirty => (
            "reads, and pages of a hugetlb pool",
            "a write fault for each page and round; mmap waits while bits are cleared",
        ),
        AccessSourceKind::Faults => (
            "how often a page is used: each once a scan of the kernel",
            "nothing beside the faults that the kernel's balancing causes",
        ),
        AccessSourceKind::Damon => (
            "threads, CPUs, reads or writes, single pages",
            "a thread of the kernel, up to a third of a CPU",
        ),
        AccessSourceKind::Perf => {
            ("what its event does not count", "an interrupt for some samples each")
        }
    }
}

/// Checks that a source works here, by trying it.
///
/// # Errors
/// `Denied` or `Unsupported`, with the remedy.
fn probe(kind: AccessSourceKind, root: &Path) -> Result<()> {
    match kind {
        AccessSourceKind::Registers => OperandReader::probe(architecture()?),
        AccessSourceKind::Faults => probe_hint_faults(root),
        AccessSourceKind::SoftDirty => {
            soft_dirty::probe(root)?;
            try_event(FaultReader::setup().event)
        }
        AccessSourceKind::Damon => damon::probe(root).and_then(|()| {
            Err(unsupported("it does not tell threads; `nodeward move PID --hot damon` uses it"))
        }),
        AccessSourceKind::Perf => Err(unsupported(match memory_event(root) {
            Some(_) => {
                "nodeward does not record it; give what `perf mem record` wrote to --samples"
            }
            None => "this CPU samples no addresses (no PEBS, IBS or SPE; a VM rarely has them)",
        })),
    }
}

/// Opens a source.
///
/// # Errors
/// `Denied` or `Unsupported` if it does not work here, with the remedy.
pub fn open(kind: AccessSourceKind, root: &Path) -> Result<Box<dyn AccessSource>> {
    probe(kind, root)?;
    match kind {
        AccessSourceKind::Registers => {
            let architecture = architecture()?;
            let setup = move |rate| OperandReader::setup(architecture, rate);
            let new_reader = move || OperandReader::new(architecture);
            Ok(Box::new(PerfSource::new(kind, setup, new_reader)))
        }
        AccessSourceKind::Faults => {
            let new_reader = || FaultReader { kind: AccessKind::Unknown };
            Ok(Box::new(PerfSource::new(kind, |_| FaultReader::setup(), new_reader)))
        }
        AccessSourceKind::SoftDirty => Ok(Box::new(SoftDirtySource::new())),
        _ => Err(unsupported("it cannot be opened")),
    }
}

fn architecture() -> Result<Architecture> {
    Architecture::of_this_machine()
        .ok_or_else(|| unsupported("nodeward decodes code of x86-64 and aarch64 only"))
}

/// Returns the event of this CPU that samples memory accesses, if it has one.
fn memory_event(root: &Path) -> Option<&'static str> {
    let devices = root.join("sys/bus/event_source/devices");
    ["cpu/events/mem-loads", "cpu_core/events/mem-loads", "ibs_op", "arm_spe_0"]
        .into_iter()
        .find(|event| fs::exists(devices.join(event)).unwrap_or(false))
}

fn unsupported(reason: &str) -> Error {
    Error::Unsupported { action: ACTION, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn obstacle(kind: AccessSourceKind, root: &Path) -> String {
        status(kind, root).obstacle.unwrap()
    }

    /// Goal: a CPU that samples addresses is recognized, by any of its kinds, and told from one
    /// that does not; neither is opened.
    #[test]
    fn hardware_that_samples_is_recognized() {
        let root = tempfile::tempdir().unwrap();
        let perf = || obstacle(AccessSourceKind::Perf, root.path());
        assert!(perf().contains("samples no addresses"), "{}", perf());
        for event in ["cpu/events/mem-loads", "ibs_op/type", "arm_spe_0/type"] {
            let path = root.path().join("sys/bus/event_source/devices").join(event);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            assert!(perf().contains("perf mem record"), "{event}: {}", perf());
            fs::remove_dir_all(root.path().join("sys")).unwrap();
        }
    }

    /// Goal: the preferred sources come first, and each says what it does not see and what it
    /// costs.
    #[test]
    fn sources_are_listed_by_preference() {
        let all = statuses(Path::new("/"));
        let names: Vec<_> = all.iter().map(|status| status.kind.name()).collect();
        assert_eq!(names, ["registers", "soft-dirty", "faults", "damon", "perf"]);
        assert!(all.iter().all(|one| !one.blind_to.is_empty() && !one.price.is_empty()));
    }
}
