//! Receives the host's files and its request.

use std::io::{Error, ErrorKind, Read, Result as IoResult};

use anyhow::{Context, Result};
use nodeward_lab_agent::protocol::{Frame, Request};

/// Unpacks the files that the host sends at the root, up to the request that follows them.
///
/// A failure to unpack is reported only after the request has arrived, so that the host never
/// writes to a guest that does not read.
pub fn receive(port: &mut impl Read) -> Result<Request> {
    let mut files = FilesReader { port, piece: Vec::new(), consumed: 0, request: None };
    let unpacked = unpack(&mut files);
    let request = files.into_request().context("no request came from the host")?;
    unpacked.context("cannot unpack the host's files")?;
    Ok(request)
}

fn unpack(files: &mut impl Read) -> Result<()> {
    let mut archive = tar::Archive::new(files);
    archive.set_preserve_permissions(true);
    archive.set_preserve_mtime(false);
    archive.set_overwrite(true);
    Ok(archive.unpack("/")?)
}

/// The tar stream in the frames before the request.
struct FilesReader<'a, R> {
    port: &'a mut R,
    piece: Vec<u8>,
    consumed: usize,
    request: Option<Request>,
}

impl<R: Read> FilesReader<'_, R> {
    /// Skips the data that the archive did not read, and returns the request.
    fn into_request(mut self) -> IoResult<Request> {
        std::io::copy(&mut self, &mut std::io::sink())?;
        self.request.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))
    }

    fn next_piece(&mut self) -> IoResult<()> {
        match Frame::read_from(self.port)? {
            Frame::Files(piece) => (self.piece, self.consumed) = (piece, 0),
            Frame::Run(request) => self.request = Some(request),
            other => return Err(Error::other(format!("the host sent {other:?}"))),
        }
        Ok(())
    }
}

impl<R: Read> Read for FilesReader<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> IoResult<usize> {
        while self.request.is_none() && self.consumed == self.piece.len() {
            self.next_piece()?;
        }
        let count = into.len().min(self.piece.len() - self.consumed);
        into[..count].copy_from_slice(&self.piece[self.consumed..self.consumed + count]);
        self.consumed += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use nodeward_lab_agent::protocol::Input;

    use super::*;

    fn request() -> Request {
        let (argv, env, seed) = (vec!["true".into()], Vec::new(), vec![7]);
        Request { argv, env, now_ns: 1, seed, input: Input::Nothing }
    }

    fn sent(frames: &[Frame]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for frame in frames {
            frame.write_to(&mut bytes).unwrap();
        }
        bytes
    }

    #[test]
    fn pieces_join_and_end_at_the_request() {
        let bytes =
            sent(&[Frame::Files(b"ab".into()), Frame::Files(b"c".into()), Frame::Run(request())]);
        let port = &mut bytes.as_slice();
        let mut files = FilesReader { port, piece: Vec::new(), consumed: 0, request: None };
        let mut all = String::new();
        files.read_to_string(&mut all).unwrap();
        assert_eq!(all, "abc");
        assert_eq!(files.into_request().unwrap(), request());
    }

    #[test]
    fn a_broken_archive_is_told_after_the_request_was_read() {
        let bytes = sent(&[Frame::Files(vec![b'x'; 600]), Frame::Run(request())]);
        let mut port = bytes.as_slice();
        let why = receive(&mut port).unwrap_err();
        assert_eq!(why.to_string(), "cannot unpack the host's files");
        assert!(port.is_empty(), "the request was left unread");
    }

    #[test]
    fn an_end_before_the_request_is_an_error() {
        let bytes = sent(&[Frame::Files(vec![0; 1024])]);
        let why = receive(&mut bytes.as_slice()).unwrap_err();
        assert_eq!(why.to_string(), "no request came from the host");
    }
}
