//! Keeps the memory files of a snapshot at their original size.
//!
//! A page that a restored guest touches for the first time is read from the file before it is
//! copied, and a read fills a hole of a file in shared memory. A hole of the original snapshot
//! still holds zeros, so it can be punched again at any time, even under a running guest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};

/// File that lists the data extents of each memory file.
const RECORD: &str = "extents.json";
/// Bytes by which a file may grow before it is trimmed.
const SLACK_BYTES: u64 = 64 << 20;
/// Unit of allocated space in file systems.
const BLOCK_BYTES: u64 = 512;

/// The ranges of a file that hold data: start and end in bytes, ascending.
type Extents = Vec<(u64, u64)>;

/// Records the data extents of the memory files of a new snapshot.
pub fn record(dir: &Path) -> Result<()> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".ram") {
            all.insert(name, extents(&File::open(entry.path())?)?);
        }
    }
    Ok(fs::write(dir.join(RECORD), serde_json::to_vec(&all)?)?)
}

/// Punches the holes that runs have filled, in files that have grown enough to be worth it.
pub fn trim(dir: &Path) -> Result<()> {
    let recorded = fs::read(dir.join(RECORD)).context("no record of the memory files")?;
    let recorded: BTreeMap<String, Extents> = serde_json::from_slice(&recorded)?;
    for (name, extents) in recorded {
        let file = File::options().read(true).write(true).open(dir.join(name))?;
        let size: u64 = extents.iter().map(|(start, end)| end - start).sum();
        let meta = file.metadata()?;
        if meta.blocks() * BLOCK_BYTES > size + SLACK_BYTES {
            punch_holes(&file, &extents, meta.len())?;
        }
    }
    Ok(())
}

fn extents(file: &File) -> Result<Extents> {
    let mut extents = Vec::new();
    let mut at = 0;
    while let Ok(start) = seek(file, SeekFrom::Data(at)) {
        at = seek(file, SeekFrom::Hole(start))?;
        extents.push((start, at));
    }
    Ok(extents)
}

fn punch_holes(file: &File, extents: &Extents, length: u64) -> Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let mut at = 0;
    for &(start, end) in extents.iter().chain([&(length, length)]) {
        if start > at {
            fallocate(file, flags, at, start - at)?;
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn holes_come_back_and_data_stays() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = File::create_new(dir.path().join("node0.ram")).unwrap();
        file.set_len(256 << 20).unwrap();
        file.write_at(b"kept", 8 << 20).unwrap();
        record(dir.path()).unwrap();
        let before = file.metadata().unwrap().blocks();
        file.write_all_at(&vec![0; 80 << 20], 64 << 20).unwrap(); // more than the slack of 64 MiB
        trim(dir.path()).unwrap();
        assert_eq!(file.metadata().unwrap().blocks(), before);
        assert_eq!(&fs::read(dir.path().join("node0.ram")).unwrap()[8 << 20..][..4], b"kept");
    }
}
