//! System calls that read and write the memory, with pipes, sockets and files.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;

use nodeward_linux::trouble::{Carry, carry};
use rustix::fs::MemfdFlags;

use super::{Made, Means, Site, Skipped, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand, failed};
use crate::lot::{Lot, PAGE, PAGE_WORDS};
use crate::post;

pub const WHAT: &str = "read, write, send, recv, preadv and pwritev by pipe, socket and file";

/// Number of pages that fit into a pipe, and into a socket.
const PIPE_PAGES: usize = 8;

struct Calls {
    lots: Vec<Lot<'static>>,
    pipe: (OwnedFd, OwnedFd),
    socket: (UnixStream, UnixStream),
    file: File,
}

pub fn make(site: &mut Site<'_>) -> Made {
    let skipped = |error: std::io::Error| Skipped(error.to_string());
    let pipe = rustix::pipe::pipe().map_err(|error| skipped(error.into()))?;
    let socket = UnixStream::pair().map_err(skipped)?;
    let file = rustix::fs::memfd_create("torture", MemfdFlags::CLOEXEC);
    let file = File::from(file.map_err(|error| skipped(error.into()))?);
    one(Calls { lots: site.ground.lots(Use::Plain), pipe, socket, file })
}

impl Means for Calls {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let count = self.lots.len();
        let lot = &mut self.lots[hand.dice.below(count)];
        match hand.dice.below(3) {
            0 => by_pipe(hand, lot, &self.pipe),
            1 => by_socket(hand, lot, &mut self.socket),
            _ => by_file(hand, lot, &self.file),
        }
    }

    fn end(&mut self, _hand: &mut Hand) -> Result<(), Fault> {
        self.socket.0.shutdown(Shutdown::Both).ok();
        Ok(())
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.lots
    }
}

/// Makes system calls transfer all of some words, a few pages at a time: during a large call the
/// watchdog would not see that the thread makes progress.
pub fn carry_all(
    what: &'static str,
    fd: BorrowedFd<'_>,
    words: &[AtomicU64],
    how: impl Fn(usize) -> Carry,
) -> Result<(), Fault> {
    let mut done = 0;
    while done < size_of_val(words) {
        post::go_on();
        let rest = &words[done / 8..];
        let piece = &rest[..rest.len().min(PIPE_PAGES * PAGE_WORDS)];
        match carry(fd, piece, how(done)) {
            Ok(bytes) if bytes > 0 && bytes % 8 == 0 => done += bytes,
            Ok(bytes) => return Err(Fault::Failed(format!("{what}: {bytes} bytes after {done}"))),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => (),
            Err(error) => return Err(failed(what)(error)),
        }
    }
    Ok(())
}

/// Returns some random pages that fit into a pipe.
fn few_pages(hand: &mut Hand, lot: &Lot) -> std::ops::Range<usize> {
    let pages = hand.pages(lot);
    pages.start..pages.end.min(pages.start + PIPE_PAGES)
}

/// Checks a copy that a system call made from the memory.
fn same(
    what: &'static str,
    lot: &Lot,
    pages: std::ops::Range<usize>,
    found: &[u8],
) -> Result<(), Fault> {
    lot.check_copy(pages, found).map_err(|finding| {
        eprintln!("{what} carried what is not there:");
        finding.into()
    })
}

fn by_pipe(hand: &mut Hand, lot: &mut Lot, (from, to): &(OwnedFd, OwnedFd)) -> Result<(), Fault> {
    let pages = few_pages(hand, lot);
    let mut content = vec![0; pages.len() * PAGE];
    hand.does("write to a pipe", lot, &pages);
    carry_all("write", to.as_fd(), lot.words_of(pages.clone()), |_| Carry::Write)?;
    let mut ends = (File::from(clone(from)?), File::from(clone(to)?));
    ends.0.read_exact(&mut content).map_err(failed("read"))?;
    same("write", lot, pages.clone(), &content)?;
    let content = lot.next_image(pages.clone());
    ends.1.write_all(&content).map_err(failed("write"))?;
    hand.does("read from a pipe", lot, &pages);
    carry_all("read", from.as_fd(), lot.words_of(pages.clone()), |_| Carry::Read)?;
    Ok(lot.check(pages)?)
}

fn clone(fd: &OwnedFd) -> Result<OwnedFd, Fault> {
    fd.try_clone().map_err(failed("dup"))
}

fn by_socket(
    hand: &mut Hand,
    lot: &mut Lot,
    (one, other): &mut (UnixStream, UnixStream),
) -> Result<(), Fault> {
    let pages = few_pages(hand, lot);
    let mut content = vec![0; pages.len() * PAGE];
    hand.does("send", lot, &pages);
    carry_all("send", one.as_fd(), lot.words_of(pages.clone()), |_| Carry::Send)?;
    other.read_exact(&mut content).map_err(failed("read"))?;
    same("send", lot, pages.clone(), &content)?;
    other.write_all(&lot.next_image(pages.clone())).map_err(failed("write"))?;
    hand.does("recv", lot, &pages);
    carry_all("recv", one.as_fd(), lot.words_of(pages.clone()), |_| Carry::Receive)?;
    Ok(lot.check(pages)?)
}

fn by_file(hand: &mut Hand, lot: &mut Lot, file: &File) -> Result<(), Fault> {
    let pages = hand.pages(lot);
    let mut content = vec![0; pages.len() * PAGE];
    hand.does("pwritev", lot, &pages);
    let words = lot.words_of(pages.clone());
    carry_all("pwritev", file.as_fd(), words, |done| Carry::WriteAt(done as u64))?;
    file.read_exact_at(&mut content, 0).map_err(failed("pread"))?;
    same("pwritev", lot, pages.clone(), &content)?;
    file.write_all_at(&lot.next_image(pages.clone()), 0).map_err(failed("pwrite"))?;
    hand.does("preadv", lot, &pages);
    carry_all("preadv", file.as_fd(), words, |done| Carry::ReadAt(done as u64))?;
    Ok(lot.check(pages)?)
}
