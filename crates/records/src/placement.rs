//! Where the memory and the threads of processes are, kept in a file: one JSON document, which
//! docs/reference/placement-file.md describes.
//!
//! A person may edit such a file, and anyone may have written it: everything read is checked, and
//! its size is bounded. Names are kept in their escaped form, which is unique for their bytes.

mod error;
mod escaped_name;
mod saved_run;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use nodeward_files::{Visibility, read, write};
use nodeward_model::{Cpumask, MappingKind, NodeId, Pid};
use serde::{Deserialize, Serialize};

pub use error::{FILE_BYTES_MAX, PlacementFileError};
pub use escaped_name::EscapedName;
pub use saved_run::{SavedRun, bytes_of, overlapping, sort_and_join};

/// The name of the format in a file, before its version.
const FORMAT: &str = "nodeward.placement/";
const VERSION: &str = "1";

/// The placement of processes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedPlacement {
    schema: String,
    /// When it was saved, in milliseconds since 1970.
    pub saved_unix_ms: u64,
    /// The processes, in the order in which they were named.
    pub processes: Vec<PlacedProcess>,
    /// The memory of shared segments, each once, by offset in the segment.
    pub segments: Vec<Vec<SavedRun>>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacedProcess {
    /// Its pid.
    pub pid: Pid,
    /// Its name.
    pub name: EscapedName,
    /// The path of its program, where that is known.
    pub executable: Option<EscapedName>,
    /// Its threads, in ascending order of their ids.
    pub threads: Vec<SavedThread>,
    /// Its mappings, in ascending order of their addresses, also those without pages.
    pub mappings: Vec<SavedMapping>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedThread {
    /// Its name.
    pub name: EscapedName,
    /// The node on which it ran last, where that is known.
    pub node: Option<NodeId>,
    /// The CPUs on which it might run, if these were not all of the machine.
    pub cpus: Option<Cpumask>,
}

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedMapping {
    /// The kind of its memory.
    pub kind: MappingKind,
    /// Its path; empty for anonymous memory.
    pub name: EscapedName,
    /// Bytes of its file before it.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// What might be done with it: `rw-`.
    pub permissions: EscapedName,
    /// The index of the segment of which it shows a part; then it has no runs of its own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub segment: Option<usize>,
    /// Its memory, by offset in the mapping.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub runs: Vec<SavedRun>,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    schema: String,
}

impl SavedPlacement {
    /// Returns the placement of processes.
    pub fn new(
        saved_unix_ms: u64,
        processes: Vec<PlacedProcess>,
        segments: Vec<Vec<SavedRun>>,
    ) -> Self {
        Self { schema: format!("{FORMAT}{VERSION}"), saved_unix_ms, processes, segments }
    }

    /// Writes it into a file of which only the owner reads; one that is there is replaced as a
    /// whole if it is a placement. Returns the bytes of the file.
    ///
    /// # Errors
    /// `Foreign` if something else is there, `TooLarge`, `Write`. What was there stays.
    pub fn write(&self, path: &Path) -> Result<u64, PlacementFileError> {
        let failed = |source| PlacementFileError::Write { path: path.into(), source };
        let mut text = serde_json::to_vec(self).map_err(|error| failed(Arc::new(error.into())))?;
        text.push(b'\n');
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(PlacementFileError::TooScattered { path: path.into() });
        }
        check_replaceable(path)?;
        write(path, &text, Visibility::Owner).map_err(|error| failed(Arc::new(error)))?;
        Ok(text.len() as u64)
    }

    /// Reads it from a file.
    ///
    /// # Errors
    /// `Read`, `TooLarge`, `CutShort`, `NotOurs`, `OtherVersion`, `Wrong`.
    pub fn read(path: &Path) -> Result<Self, PlacementFileError> {
        let bytes = read(path, FILE_BYTES_MAX + 1).map_err(|source| PlacementFileError::Read {
            path: path.into(),
            source: Arc::new(source),
        })?;
        Self::parse(&bytes, path)
    }

    /// Parses the bytes of a file. `path` is for the error message only.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, PlacementFileError> {
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(PlacementFileError::TooLarge { path: path.into() });
        }
        check_version(bytes, path)?;
        let wrong = |description| PlacementFileError::Wrong { path: path.into(), description };
        let found: Self =
            serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        found.check().map_err(wrong)?;
        Ok(found)
    }

    fn check(&self) -> Result<(), String> {
        let threads = self.processes.iter().flat_map(|process| &process.threads);
        threads.filter_map(|thread| thread.node).try_for_each(saved_run::check_node)?;
        let mappings = self.processes.iter().flat_map(|process| &process.mappings);
        let mut named = mappings.clone().filter_map(|mapping| mapping.segment);
        if let Some(index) = named.find(|&index| index >= self.segments.len()) {
            return Err(format!("a mapping names segment {index}, which is not there"));
        }
        let of_mappings = mappings.map(|mapping| &mapping.runs);
        of_mappings.chain(&self.segments).try_for_each(|runs| saved_run::check(runs))
    }
}

fn check_version(bytes: &[u8], path: &Path) -> Result<(), PlacementFileError> {
    let head: Head = match serde_json::from_slice(bytes) {
        Ok(head) => head,
        Err(error) if error.is_eof() => {
            return Err(PlacementFileError::CutShort { path: path.into() });
        }
        Err(_) => return Err(PlacementFileError::NotOurs { path: path.into() }),
    };
    match head.schema.strip_prefix(FORMAT) {
        Some(VERSION) => Ok(()),
        Some(found) => Err(PlacementFileError::OtherVersion {
            path: path.into(),
            found: found.chars().take(VERSION_CHARS_MAX).collect(),
            known: VERSION,
        }),
        None => Err(PlacementFileError::NotOurs { path: path.into() }),
    }
}

/// Characters of an unknown version that are told.
const VERSION_CHARS_MAX: usize = 20;

/// Checks that a path may be replaced: nothing is there, or a file that begins as ours do.
fn check_replaceable(path: &Path) -> Result<(), PlacementFileError> {
    let beginning = format!("{{\"schema\":\"{FORMAT}");
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(found) if found.is_file() && found.len() == 0 => return Ok(()),
        Ok(_) | Err(_) => {}
    }
    match read(path, beginning.len() as u64) {
        Ok(bytes) if bytes == beginning.as_bytes() => Ok(()),
        Ok(_) => Err(PlacementFileError::Foreign { path: path.into() }),
        Err(source) => {
            Err(PlacementFileError::Write { path: path.into(), source: Arc::new(source) })
        }
    }
}

#[cfg(test)]
mod tests;
