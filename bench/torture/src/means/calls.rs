//! System calls that read and write the memory, with pipes, sockets and files.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;

use nodeward_linux::interference::{TransferCall, transfer};
use rustix::fs::MemfdFlags;

use crate::means_thread::{Means, MeansEnv, MeansThreads, SkippedMeans, single_thread};
use crate::owned_range::{OwnedRange, PAGE, PAGE_WORDS};
use crate::test_memory::RangeUse;
use crate::thread_context::{StepFailure, ThreadContext, failure};
use crate::thread_status;

pub const WHAT: &str = "read, write, send, recv, preadv and pwritev by pipe, socket and file";

/// Number of pages that fit into a pipe, and into a socket.
const PIPE_PAGES: usize = 8;

struct Calls {
    ranges: Vec<OwnedRange<'static>>,
    pipe: (OwnedFd, OwnedFd),
    socket: (UnixStream, UnixStream),
    file: File,
}

pub fn make(env: &mut MeansEnv<'_>) -> MeansThreads {
    let skipped = |error: std::io::Error| SkippedMeans(error.to_string());
    let pipe = rustix::pipe::pipe().map_err(|error| skipped(error.into()))?;
    let socket = UnixStream::pair().map_err(skipped)?;
    let file = rustix::fs::memfd_create("torture", MemfdFlags::CLOEXEC);
    let file = File::from(file.map_err(|error| skipped(error.into()))?);
    single_thread(Calls { ranges: env.memory.ranges(RangeUse::Plain), pipe, socket, file })
}

impl Means for Calls {
    fn step(&mut self, context: &mut ThreadContext) -> Result<(), StepFailure> {
        let count = self.ranges.len();
        let lot = &mut self.ranges[context.random.below(count)];
        match context.random.below(3) {
            0 => by_pipe(context, lot, &self.pipe),
            1 => by_socket(context, lot, &mut self.socket),
            _ => by_file(context, lot, &self.file),
        }
    }

    fn end(&mut self, _hand: &mut ThreadContext) -> Result<(), StepFailure> {
        self.socket.0.shutdown(Shutdown::Both).ok();
        Ok(())
    }

    fn ranges(&mut self) -> &mut [OwnedRange<'static>] {
        &mut self.ranges
    }
}

/// Makes system calls transfer all of some words, a few pages at a time: during a large call the
/// watchdog would not see that the thread makes progress.
pub fn transfer_all(
    what: &'static str,
    fd: BorrowedFd<'_>,
    words: &[AtomicU64],
    how: impl Fn(usize) -> TransferCall,
) -> Result<(), StepFailure> {
    let mut done = 0;
    while done < size_of_val(words) {
        thread_status::mark_progress();
        let rest = &words[done / 8..];
        let piece = &rest[..rest.len().min(PIPE_PAGES * PAGE_WORDS)];
        match transfer(fd, piece, how(done)) {
            Ok(bytes) if bytes > 0 && bytes % 8 == 0 => done += bytes,
            Ok(bytes) => {
                return Err(StepFailure::Failed(format!("{what}: {bytes} bytes after {done}")));
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => (),
            Err(error) => return Err(failure(what)(error)),
        }
    }
    Ok(())
}

/// Returns some random pages that fit into a pipe.
fn few_pages(context: &mut ThreadContext, lot: &OwnedRange) -> std::ops::Range<usize> {
    let pages = context.random_pages(lot);
    pages.start..pages.end.min(pages.start + PIPE_PAGES)
}

/// Checks a copy that a system call made from the memory.
fn check_copy(
    what: &'static str,
    lot: &OwnedRange,
    pages: std::ops::Range<usize>,
    found: &[u8],
) -> Result<(), StepFailure> {
    lot.check_copy(pages, found).map_err(|finding| {
        eprintln!("{what} carried what is not there:");
        finding.into()
    })
}

fn by_pipe(
    context: &mut ThreadContext,
    lot: &mut OwnedRange,
    (from, to): &(OwnedFd, OwnedFd),
) -> Result<(), StepFailure> {
    let pages = few_pages(context, lot);
    let mut content = vec![0; pages.len() * PAGE];
    context.begin_action("write to a pipe", lot, &pages);
    transfer_all("write", to.as_fd(), lot.words_of(pages.clone()), |_| TransferCall::Write)?;
    let mut ends = (File::from(dup(from)?), File::from(dup(to)?));
    ends.0.read_exact(&mut content).map_err(failure("read"))?;
    check_copy("write", lot, pages.clone(), &content)?;
    let content = lot.advance_image(pages.clone());
    ends.1.write_all(&content).map_err(failure("write"))?;
    context.begin_action("read from a pipe", lot, &pages);
    transfer_all("read", from.as_fd(), lot.words_of(pages.clone()), |_| TransferCall::Read)?;
    Ok(lot.check(pages)?)
}

fn dup(fd: &OwnedFd) -> Result<OwnedFd, StepFailure> {
    fd.try_clone().map_err(failure("dup"))
}

fn by_socket(
    context: &mut ThreadContext,
    lot: &mut OwnedRange,
    (one, other): &mut (UnixStream, UnixStream),
) -> Result<(), StepFailure> {
    let pages = few_pages(context, lot);
    let mut content = vec![0; pages.len() * PAGE];
    context.begin_action("send", lot, &pages);
    transfer_all("send", one.as_fd(), lot.words_of(pages.clone()), |_| TransferCall::Send)?;
    other.read_exact(&mut content).map_err(failure("read"))?;
    check_copy("send", lot, pages.clone(), &content)?;
    other.write_all(&lot.advance_image(pages.clone())).map_err(failure("write"))?;
    context.begin_action("recv", lot, &pages);
    transfer_all("recv", one.as_fd(), lot.words_of(pages.clone()), |_| TransferCall::Receive)?;
    Ok(lot.check(pages)?)
}

fn by_file(
    context: &mut ThreadContext,
    lot: &mut OwnedRange,
    file: &File,
) -> Result<(), StepFailure> {
    let pages = context.random_pages(lot);
    let mut content = vec![0; pages.len() * PAGE];
    context.begin_action("pwritev", lot, &pages);
    let words = lot.words_of(pages.clone());
    transfer_all("pwritev", file.as_fd(), words, |done| TransferCall::WriteAt(done as u64))?;
    file.read_exact_at(&mut content, 0).map_err(failure("pread"))?;
    check_copy("pwritev", lot, pages.clone(), &content)?;
    file.write_all_at(&lot.advance_image(pages.clone()), 0).map_err(failure("pwrite"))?;
    context.begin_action("preadv", lot, &pages);
    transfer_all("preadv", file.as_fd(), words, |done| TransferCall::ReadAt(done as u64))?;
    Ok(lot.check(pages)?)
}
