//! Direct I/O: a device reads and writes the pages themselves.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use nodeward_linux::trouble::{Carry, carry};
use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use super::calls::carry_all;
use super::{Made, Means, Site, Skipped, one};
use crate::ground::{LOT_BYTES, Use};
use crate::hand::{Fault, Hand, failed};
use crate::lot::{Lot, PAGE};

pub const WHAT: &str = "direct I/O with a file";

struct Direct {
    lots: Vec<Lot<'static>>,
    /// The file opened with and without the page cache.
    cached: NamedTempFile,
    direct: File,
}

pub fn make(site: &mut Site<'_>) -> Made {
    let dir = site.dir.clone();
    let skipped = |error: std::io::Error| {
        Skipped(format!("no direct I/O in {}: {error}; name a --dir on a disk", dir.display()))
    };
    let cached = NamedTempFile::new_in(&dir).map_err(skipped)?;
    cached.as_file().set_len(LOT_BYTES as u64).map_err(skipped)?;
    let direct = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(cached.path())
        .map_err(skipped)?;
    let lots = site.ground.lots(Use::Held);
    let Some(lot) = lots.first() else {
        return Err(Skipped("no region is for devices on this road".to_owned()));
    };
    // Some file systems refuse direct I/O only at the first write.
    carry(direct.as_fd(), lot.words_of(0..1), Carry::Write).map_err(skipped)?;
    one(Direct { lots, cached, direct })
}

impl Means for Direct {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let count = self.lots.len();
        let lot = &mut self.lots[hand.dice.below(count)];
        hand.turn(lot)?;
        let pages = hand.pages(lot);
        let words = lot.words_of(pages.clone());
        hand.does("write directly", lot, &pages);
        carry_all("direct write", self.direct.as_fd(), words, |done| Carry::WriteAt(done as u64))?;
        let mut content = vec![0; pages.len() * PAGE];
        let file = self.cached.as_file();
        file.read_exact_at(&mut content, 0).map_err(failed("pread"))?;
        lot.check_copy(pages.clone(), &content)?;
        file.write_all_at(&lot.next_image(pages.clone()), 0).map_err(failed("pwrite"))?;
        file.sync_data().map_err(failed("fdatasync"))?;
        hand.does("read directly", lot, &pages);
        carry_all("direct read", self.direct.as_fd(), words, |done| Carry::ReadAt(done as u64))?;
        Ok(lot.check(pages)?)
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.lots
    }
}
