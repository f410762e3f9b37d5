//! Carries what a command writes to the host, as it is written.
//!
//! When the command has ended, all that it wrote is in its pipes or its terminal. That is carried
//! to its end, however slow guest and host are. Children that it left behind may write on for ever:
//! what they write afterwards is dropped.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Result as IoResult, pipe};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use nodeward_lab_agent::wire::Frame;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

const PIECE_BYTES: usize = 64 << 10;
/// Most that is carried of a stream when the command has ended. Pipes have 64 KiB by default and 1
/// MiB at most, unless root asks for more; a terminal has less.
const LEFT_BYTES_MAX: usize = 1 << 20;

/// Threads that carry one stream each.
pub struct Carriers {
    to_host: Arc<Mutex<File>>,
    threads: Vec<JoinHandle<()>>,
    /// Closed when the command has ended, which every carrier sees at the other end.
    runs: PipeWriter,
    ended: PipeReader,
}

impl Carriers {
    pub fn new(port: &File) -> Result<Self> {
        let to_host = port.try_clone().context("cannot share the port to the host")?;
        let (ended, runs) = pipe().context("cannot make a pipe")?;
        Ok(Self { to_host: Arc::new(Mutex::new(to_host)), threads: Vec::new(), runs, ended })
    }

    /// Starts to carry a stream, in frames of one kind.
    pub fn carry<R>(&mut self, stream: R, frame: fn(Vec<u8>) -> Frame) -> Result<()>
    where
        R: Read + AsFd + Send + 'static,
    {
        let ended = self.ended.try_clone().context("cannot share a pipe")?;
        let to_host = Arc::clone(&self.to_host);
        self.threads.push(thread::spawn(move || {
            let send = |bytes: &[u8]| {
                let mut port = to_host.lock().unwrap_or_else(PoisonError::into_inner);
                frame(bytes.to_vec()).write_to(&mut *port)
            };
            if let Err(why) = pump(stream, &ended, send) {
                eprintln!("nodeward-lab-init: output is lost: {why}");
            }
        }));
        Ok(())
    }

    /// The command has ended: carries what it left.
    pub fn finish(self) {
        drop(self.runs);
        for thread in self.threads {
            // A carrier that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Sends what comes, until the stream ends, or until nothing is left of it after the command has
/// ended.
fn pump(
    mut stream: impl Read + AsFd,
    ended: &PipeReader,
    mut send: impl FnMut(&[u8]) -> IoResult<()>,
) -> IoResult<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let (mut over, mut left) = (false, LEFT_BYTES_MAX);
    while left > 0 {
        over = over || has_ended(&stream, ended)?;
        match (is_ready(&stream)?, over) {
            (true, _) => {}
            (false, true) => break,
            (false, false) => continue,
        }
        let bytes = match stream.read(&mut piece) {
            Ok(0) => break,
            // How a terminal says that nobody has it open any more.
            Err(why) if why.raw_os_error() == Some(Errno::IO.raw_os_error()) => break,
            Err(why) => return Err(why),
            Ok(bytes) => bytes,
        };
        send(&piece[..bytes])?;
        left -= if over { bytes.min(left) } else { 0 };
    }
    Ok(())
}

/// Waits until there is something to read or the command has ended; whether it has.
fn has_ended(stream: &impl AsFd, ended: &PipeReader) -> IoResult<bool> {
    let mut fds = [PollFd::new(stream, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
    wait(&mut fds, None)?;
    Ok(!fds[1].revents().is_empty())
}

/// Whether a read would return at once, be it with the stream's end.
fn is_ready(stream: &impl AsFd) -> IoResult<bool> {
    let mut fds = [PollFd::new(stream, PollFlags::IN)];
    wait(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(!fds[0].revents().is_empty())
}

fn wait(fds: &mut [PollFd<'_>], time: Option<&Timespec>) -> IoResult<()> {
    loop {
        match poll(fds, time) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Goal: what was written before the end arrives to the last byte, although somebody else keeps
    /// the stream open and whoever takes it is slow.
    #[test]
    fn what_was_written_before_the_end_arrives() {
        let (stream, mut writer) = pipe().unwrap();
        let (ended, runs) = pipe().unwrap();
        let kept = writer.try_clone().unwrap();
        let mut sent = Vec::new();
        thread::scope(|scope| {
            let carrier = scope.spawn(|| {
                pump(stream, &ended, |bytes| {
                    thread::yield_now();
                    sent.extend_from_slice(bytes);
                    Ok(())
                })
            });
            // More than a pipe holds, so some of it is carried while the command runs.
            writer.write_all(&[7; 300_000]).unwrap();
            drop(runs);
            carrier.join().unwrap().unwrap();
        });
        assert_eq!(sent, [7; 300_000]);
        drop(kept);
    }

    /// Goal: somebody who writes on for ever does not keep the carrier.
    #[test]
    fn who_never_stops_is_left() {
        let (ended, runs) = pipe().unwrap();
        drop(runs);
        let mut sent = 0;
        pump(File::open("/dev/zero").unwrap(), &ended, |bytes| {
            sent += bytes.len();
            Ok(())
        })
        .unwrap();
        // 1 MiB in pieces of 64 KiB.
        assert_eq!(sent, LEFT_BYTES_MAX);
    }
}
