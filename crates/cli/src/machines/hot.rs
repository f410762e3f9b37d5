//! Sources of hot pages of a process: files, and the kernel's own trackers.

mod files;
mod source;
mod tracker;

use std::path::Path;

use anyhow::{Result, bail};
use nodeward_model::units;

use tracker::{Tracker, TrackerSource};

pub use source::HotSource;

/// Default watch time of the kernel's trackers.
const WATCH_NS: u64 = 2_000_000_000;

/// Opens the source of a name: `damon` and `written` with or without a time after a colon, or a
/// file (`-` is standard input), whose format is detected by its content. Checks at once that it
/// works here.
///
/// # Errors
/// If there is no such source, or it does not work here.
pub fn open_source(name: &str) -> Result<Box<dyn HotSource>> {
    let (kind, time) = name.split_once(':').map_or((name, None), |(kind, t)| (kind, Some(t)));
    let watch_ns = || time.map_or(Ok(WATCH_NS), units::parse_duration_ns);
    match kind {
        "damon" => Ok(Box::new(TrackerSource::probe(Tracker::Damon, watch_ns()?)?)),
        "written" => Ok(Box::new(TrackerSource::probe(Tracker::SoftDirty, watch_ns()?)?)),
        _ if name.is_empty() => bail!("--hot needs a file, damon or written"),
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
            ("", "a file, damon or written"),
            ("/no/such/file", "/no/such/file"),
            ("damon:soon", "time"),
        ] {
            let error =
                open_source(name).err().map(|error| format!("{error:#}")).unwrap_or_default();
            assert!(error.contains(words), "{name}: {error}");
        }
    }
}
