//! Pages that the kernel cannot move because a pipe holds them.

use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result, ensure};
use nodeward_linux::own::hold_in_pipe;

use crate::memory::{Page, page_bytes};

const PIPE_BYTES: usize = 1 << 20; // the limit for unprivileged users

/// Pipes that hold pages as long as this lives.
#[derive(Debug, Default)]
pub struct Pins {
    pipes: Vec<(OwnedFd, OwnedFd)>,
    /// Number of pages held.
    pub held: usize,
}

impl Pins {
    /// Holds `wanted` of the pages, evenly spread.
    pub fn spread(pages: &[Page], wanted: usize) -> Result<Self> {
        ensure!(wanted <= pages.len(), "--pin asks for more pages than --size has");
        let mut pins = Self::default();
        for number in 0..wanted {
            pins.hold(pages[number * pages.len() / wanted])?;
        }
        Ok(pins)
    }

    fn hold(&mut self, page: Page) -> Result<()> {
        if self.held.is_multiple_of(PIPE_BYTES / page_bytes()) {
            let (read, write) = rustix::pipe::pipe()?;
            rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES)
                .context("pipes are used up; pin fewer pages or raise fs.pipe-user-pages-soft")?;
            self.pipes.push((read, write));
        }
        let (_, write) = self.pipes.last().context("no pipe")?;
        let taken = hold_in_pipe(write.as_fd(), page).context("a pipe refused a page")?;
        ensure!(taken == page_bytes(), "a pipe took only {taken} bytes of a page");
        self.held += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeward_linux::own::{Area, Backing};

    /// Goal: more pages than one pipe takes can be held; more than there are cannot.
    #[test]
    fn pages_are_held_by_several_pipes() {
        let area = Area::map(300 * page_bytes(), Backing::Anonymous).unwrap();
        let pages: Vec<Page> = area.words().chunks_exact(page_bytes() / 8).collect();
        let pins = Pins::spread(&pages, 290).unwrap();
        assert_eq!(pins.held, 290);
        assert_eq!(pins.pipes.len(), 290 * page_bytes() / PIPE_BYTES + 1);
        assert!(Pins::spread(&pages, 301).is_err());
    }
}
