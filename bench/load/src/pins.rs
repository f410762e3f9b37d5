//! Pages that the kernel cannot move because a pipe holds them.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use nodeward_linux::own_process::hold_in_pipe;

use crate::memory::{PageWords, page_bytes};

const PIPE_BYTES: usize = 1 << 20; // the limit for unprivileged users

/// Pipes that hold pages as long as this lives.
#[derive(Debug, Default)]
pub struct PipePins {
    pipes: Vec<(OwnedFd, OwnedFd)>,
    /// Number of pages held.
    pub pinned: usize,
}

impl PipePins {
    /// Holds `wanted` of the pages, evenly spread.
    pub fn pin_evenly(pages: &[PageWords], wanted: usize) -> Result<Self> {
        ensure!(wanted <= pages.len(), "--pin asks for more pages than --size has");
        let mut pins = Self::default();
        for number in 0..wanted {
            pins.pin(pages[number * pages.len() / wanted])?;
        }
        Ok(pins)
    }

    fn pin(&mut self, page: PageWords) -> Result<()> {
        if self.pinned.is_multiple_of(PIPE_BYTES / page_bytes()) {
            let (read, write) = rustix::pipe::pipe()?;
            rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES)
                .context("pipes are used up; pin fewer pages or raise fs.pipe-user-pages-soft")?;
            self.pipes.push((read, write));
        }
        let (_, write) = self.pipes.last().context("no pipe")?;
        let taken = hold_in_pipe(write.as_fd(), page).context("a pipe refused a page")?;
        ensure!(taken == page_bytes(), "a pipe took only {taken} bytes of a page");
        self.pinned += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeward_linux::own_process::{AreaBacking, MappedArea};

    /// Goal: more pages than one pipe takes can be held; more than there are cannot.
    #[test]
    fn pages_are_held_by_several_pipes() {
        let area = MappedArea::map(300 * page_bytes(), AreaBacking::Anonymous).unwrap();
        let pages: Vec<PageWords> = area.words().chunks_exact(page_bytes() / 8).collect();
        let pins = PipePins::pin_evenly(&pages, 290).unwrap();
        assert_eq!(pins.pinned, 290);
        assert_eq!(pins.pipes.len(), 290 * page_bytes() / PIPE_BYTES + 1);
        assert!(PipePins::pin_evenly(&pages, 301).is_err());
    }
}
