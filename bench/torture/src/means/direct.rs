//! Direct I/O: a device reads and writes the pages themselves.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use nodeward_linux::interference::{TransferCall, transfer};
use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use super::calls::transfer_all;
use crate::means_thread::{Means, MeansEnv, MeansThreads, SkippedMeans, single_thread};
use crate::owned_range::{OwnedRange, PAGE};
use crate::test_memory::{RANGE_BYTES, RangeUse};
use crate::thread_context::{StepFailure, ThreadContext, failure};

pub const WHAT: &str = "direct I/O with a file";

struct Direct {
    ranges: Vec<OwnedRange<'static>>,
    /// The file opened with and without the page cache.
    cached: NamedTempFile,
    direct: File,
}

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    let dir = env.dir.clone();
    let skipped = |error: std::io::Error| {
        SkippedMeans(format!("no direct I/O in {}: {error}; name a --dir on a disk", dir.display()))
    };
    let cached = NamedTempFile::new_in(&dir).map_err(skipped)?;
    cached.as_file().set_len(RANGE_BYTES as u64).map_err(skipped)?;
    let direct = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(cached.path())
        .map_err(skipped)?;
    let lots = env.memory.ranges(RangeUse::PinnedOrLocked);
    let Some(lot) = lots.first() else {
        return Err(SkippedMeans("no region is for devices with this backend".to_owned()));
    };
    // Some file systems refuse direct I/O only at the first write.
    transfer(direct.as_fd(), lot.words_of(0..1), TransferCall::Write).map_err(skipped)?;
    single_thread(Direct { ranges: lots, cached, direct })
}

impl Means for Direct {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let count = self.ranges.len();
        let lot = &mut self.ranges[context.random.below(count)];
        context.check_and_write(lot)?;
        let pages = context.random_pages(lot);
        let words = lot.words_of(pages.clone());
        context.begin_action("write directly", lot, &pages);
        transfer_all("direct write", self.direct.as_fd(), words, |done| {
            TransferCall::WriteAt(done as u64)
        })?;
        let mut content = vec![0; pages.len() * PAGE];
        let file = self.cached.as_file();
        file.read_exact_at(&mut content, 0).map_err(failure("pread"))?;
        lot.check_copy(pages.clone(), &content)?;
        file.write_all_at(&lot.advance_image(pages.clone()), 0).map_err(failure("pwrite"))?;
        file.sync_data().map_err(failure("fdatasync"))?;
        context.begin_action("read directly", lot, &pages);
        transfer_all("direct read", self.direct.as_fd(), words, |done| {
            TransferCall::ReadAt(done as u64)
        })?;
        Ok(lot.check(pages)?)
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.ranges
    }
}
