//! Sources of hot pages of a process: files, and the kernel's own trackers.

mod files;
mod observed;
mod source;
mod tracker;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use nodeward_linux::Linux;
use nodeward_machine::AccessSourceKind;
use nodeward_model::units;

use crate::message::deprecated::report_deprecated;
use tracker::{Tracker, TrackerSource};

pub use observed::ObservedSource;
pub use source::{AccessUnit, HotSource};

/// The old name of `soft-dirty`. The kernel calls other pages written (PAGE_IS_WRITTEN): those
/// that a program has registered with a userfaultfd.
const OLD_SOFT_DIRTY: &str = "written";
/// Default watch time of the kernel's trackers.
const WATCH_NS: u64 = 2_000_000_000;

/// Opens the source of this machine with a name: `auto`, `registers`, `faults`, `damon` and
/// `soft-dirty` with or without a time after a colon, or a file (`-` is standard input), whose
/// format is detected by its content. Checks at once that it works here. `written` is the old name
/// of `soft-dirty`.
///
/// # Errors
/// If there is no such source, or it does not work here.
pub fn open_source(name: &str) -> Result<Box<dyn HotSource>> {
    let (kind, time) = name.split_once(':').map_or((name, None), |(kind, t)| (kind, Some(t)));
    let watch_ns = || time.map_or(Ok(WATCH_NS), units::parse_duration_ns);
    if kind == OLD_SOFT_DIRTY {
        report_deprecated("--hot written", "--hot soft-dirty");
    }
    let observed = |kind: Option<AccessSourceKind>| -> Result<Box<dyn HotSource>> {
        Ok(Box::new(ObservedSource::open(Arc::new(Linux::open()), kind, watch_ns()?)?))
    };
    match kind {
        "auto" => observed(None),
        "registers" => observed(Some(AccessSourceKind::Registers)),
        "faults" => observed(Some(AccessSourceKind::Faults)),
        "damon" => Ok(Box::new(TrackerSource::probe(Tracker::Damon, watch_ns()?)?)),
        "soft-dirty" | OLD_SOFT_DIRTY => {
            Ok(Box::new(TrackerSource::probe(Tracker::SoftDirty, watch_ns()?)?))
        }
        _ if name.is_empty() => {
            bail!("--hot needs auto, registers, soft-dirty, faults, damon, or a file")
        }
        _ => Ok(Box::new(files::AccessFile::open(Path::new(name))?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an invalid source is refused before anything is done, with the valid ones.
    #[test]
    fn sources_are_tried_at_once() {
        for (name, words) in [
            ("", "auto, registers, soft-dirty, faults, damon, or a file"),
            ("/no/such/file", "/no/such/file"),
            ("damon:soon", "time"),
            ("registers:soon", "time"),
        ] {
            let error =
                open_source(name).err().map(|error| format!("{error:#}")).unwrap_or_default();
            assert!(error.contains(words), "{name}: {error}");
        }
    }
}
