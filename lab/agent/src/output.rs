//! Forwards the output of a command to the host while it is written.
//!
//! When the command has ended, its remaining output is in its pipes or its terminal. It is
//! forwarded completely, however slow guest and host are. Children that the command left behind may
//! write forever; their later output is dropped.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Result as IoResult, pipe};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use nodeward_lab_agent::protocol::Frame;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

const PIECE_BYTES: usize = 64 << 10;
/// Maximum number of bytes forwarded of a stream after the command has ended. Pipes have 64 KiB by
/// default and 1 MiB at most, unless root asks for more; a terminal has less.
const TRAILING_BYTES_MAX: usize = 1 << 20;

/// Threads that forward one stream each.
pub struct OutputForwarder {
    to_host: Arc<Mutex<File>>,
    threads: Vec<JoinHandle<()>>,
    /// Closed when the command has ended; every thread sees that at the other end.
    running_pipe: PipeWriter,
    ended_pipe: PipeReader,
}

impl OutputForwarder {
    pub fn new(port: &File) -> Result<Self> {
        let to_host = port.try_clone().context("cannot share the port to the host")?;
        let (ended, runs) = pipe().context("cannot make a pipe")?;
        Ok(Self {
            to_host: Arc::new(Mutex::new(to_host)),
            threads: Vec::new(),
            running_pipe: runs,
            ended_pipe: ended,
        })
    }

    /// Starts to forward a stream, in frames of one kind.
    pub fn forward<R>(&mut self, stream: R, frame: fn(Vec<u8>) -> Frame) -> Result<()>
    where
        R: Read + AsFd + Send + 'static,
    {
        let ended = self.ended_pipe.try_clone().context("cannot share a pipe")?;
        let to_host = Arc::clone(&self.to_host);
        self.threads.push(thread::spawn(move || {
            let send = |bytes: &[u8]| {
                let mut port = to_host.lock().unwrap_or_else(PoisonError::into_inner);
                frame(bytes.to_vec()).write_to(&mut *port)
            };
            if let Err(why) = forward_until_end(stream, &ended, send) {
                eprintln!("nodeward-lab-init: output is lost: {why}");
            }
        }));
        Ok(())
    }

    /// Forwards the remaining output after the command has ended.
    pub fn finish(self) {
        drop(self.running_pipe);
        for thread in self.threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Sends data until the stream ends, or until nothing remains after the command has ended.
fn forward_until_end(
    mut stream: impl Read + AsFd,
    ended: &PipeReader,
    mut send: impl FnMut(&[u8]) -> IoResult<()>,
) -> IoResult<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let (mut over, mut left) = (false, TRAILING_BYTES_MAX);
    while left > 0 {
        over = over || has_ended(&stream, ended)?;
        match (is_ready(&stream)?, over) {
            (true, _) => {}
            (false, true) => break,
            (false, false) => continue,
        }
        let bytes = match stream.read(&mut piece) {
            Ok(0) => break,
            // The error of a terminal that no process has open any more.
            Err(why) if why.raw_os_error() == Some(Errno::IO.raw_os_error()) => break,
            Err(why) => return Err(why),
            Ok(bytes) => bytes,
        };
        send(&piece[..bytes])?;
        left -= if over { bytes.min(left) } else { 0 };
    }
    Ok(())
}

/// Waits until there is data to read or the command has ended. Returns whether it has.
fn has_ended(stream: &impl AsFd, ended: &PipeReader) -> IoResult<bool> {
    let mut fds = [PollFd::new(stream, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
    wait(&mut fds, None)?;
    Ok(!fds[1].revents().is_empty())
}

/// Returns whether a read would return at once, also at the end of the stream.
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

    /// Goal: output written before the end arrives completely, although another process keeps the
    /// stream open and the receiver is slow.
    #[test]
    fn what_was_written_before_the_end_arrives() {
        let (stream, mut writer) = pipe().unwrap();
        let (ended, runs) = pipe().unwrap();
        let kept = writer.try_clone().unwrap();
        let mut sent = Vec::new();
        thread::scope(|scope| {
            let forwarder = scope.spawn(|| {
                forward_until_end(stream, &ended, |bytes| {
                    thread::yield_now();
                    sent.extend_from_slice(bytes);
                    Ok(())
                })
            });
            // More than a pipe holds, so some of it is forwarded while the command runs.
            writer.write_all(&[7; 300_000]).unwrap();
            drop(runs);
            forwarder.join().unwrap().unwrap();
        });
        assert_eq!(sent, [7; 300_000]);
        drop(kept);
    }

    /// Goal: a process that writes forever does not keep the thread.
    #[test]
    fn who_never_stops_is_left() {
        let (ended, runs) = pipe().unwrap();
        drop(runs);
        let mut sent = 0;
        forward_until_end(File::open("/dev/zero").unwrap(), &ended, |bytes| {
            sent += bytes.len();
            Ok(())
        })
        .unwrap();
        // 1 MiB in pieces of 64 KiB.
        assert_eq!(sent, TRAILING_BYTES_MAX);
    }
}
