//! A client of a server: it sets and gets random keys, and checks every answer.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::protocol::{ServerKind, VALUE_BYTES, value};

/// One request in so many sets a key.
const SETS_ONE_IN: u64 = 10;
/// Keys that are set in one write while the server is filled.
const FILLED_TOGETHER: u32 = 256;

/// A connection, and what each key was set to last.
pub struct CheckingClient {
    kind: ServerKind,
    stream: UnixStream,
    versions: Vec<u32>,
    random: u64,
    request: Vec<u8>,
    expected: Vec<u8>,
    answer: Vec<u8>,
}

impl CheckingClient {
    /// Connects to a server, and sets as many keys as fill `bytes` bytes.
    pub fn fill(kind: ServerKind, socket: &Path, bytes: u64) -> Result<Self> {
        let stream = UnixStream::connect(socket).context("cannot connect to the server")?;
        let keys = (bytes / VALUE_BYTES as u64).max(1);
        let [request, expected, answer] = [(); 3].map(|()| Vec::new());
        let versions = vec![0; usize::try_from(keys)?];
        let mut client =
            Self { kind, stream, versions, random: 0x9e37_79b9, request, expected, answer };
        let keys = u32::try_from(keys)?;
        for first in (0..keys).step_by(FILLED_TOGETHER as usize) {
            client.begin();
            (first..keys.min(first + FILLED_TOGETHER)).for_each(|key| client.add_set(key));
            client.exchange()?;
        }
        Ok(client)
    }

    /// Makes one request, and checks its answer.
    pub fn request(&mut self) -> Result<()> {
        // Marsaglia's xorshift of 64 bits (2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let key = (self.random >> 8) % self.versions.len() as u64;
        let key = u32::try_from(key)?;
        self.begin();
        if self.random.is_multiple_of(SETS_ONE_IN) {
            self.versions[key as usize] += 1;
            self.add_set(key);
        } else {
            self.kind.get(key, &mut self.request);
            let value = value(key, self.versions[key as usize]);
            self.kind.got(key, &value, &mut self.expected);
        }
        self.exchange()
    }

    fn begin(&mut self) {
        self.request.clear();
        self.expected.clear();
    }

    fn add_set(&mut self, key: u32) {
        let value = value(key, self.versions[key as usize]);
        self.kind.set(key, &value, &mut self.request);
        self.expected.extend_from_slice(self.kind.is_set());
    }

    fn exchange(&mut self) -> Result<()> {
        self.stream.write_all(&self.request)?;
        self.answer.resize(self.expected.len(), 0);
        self.stream.read_exact(&mut self.answer).context("the server has ended")?;
        ensure!(self.answer == self.expected, "the server has lost or changed a value");
        Ok(())
    }
}
