//! Servers that keep values in memory, and what is said to them.

use std::path::Path;
use std::process::Command;

use clap::ValueEnum;

/// Bytes of a value.
pub const VALUE_BYTES: usize = 1024;

/// A server. Each listens on a Unix socket and answers with one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerKind {
    /// `redis-server`, without snapshots and logs
    Redis,
    /// `memcached`, with one worker
    Memcached,
}

impl ServerKind {
    /// Returns its program. Debian's package without the service has that of Redis by another name.
    pub fn program(self) -> &'static str {
        match self {
            Self::Redis => "redis-check-rdb",
            Self::Memcached => "memcached",
        }
    }

    /// Returns the name by which its program is a server.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Memcached => "memcached",
        }
    }

    /// Adds its options. It writes nothing to disk, and has room for twice as many bytes as its
    /// values take.
    pub fn options(self, command: &mut Command, socket: &Path, bytes: u64) {
        match self {
            Self::Redis => command
                .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
                .arg(socket),
            Self::Memcached => command
                .args(["-u", "root", "-t", "1", "-m"])
                .arg((bytes >> 19).max(64).to_string())
                .arg("-s")
                .arg(socket),
        };
    }

    /// Writes the request to set a key to a value.
    pub fn set(self, key: u32, value: &[u8], into: &mut Vec<u8>) {
        let head = match self {
            Self::Redis => format!("*3\r\n$3\r\nSET\r\n$8\r\n{key:08}\r\n${}\r\n", value.len()),
            Self::Memcached => format!("set {key:08} 0 0 {}\r\n", value.len()),
        };
        into.extend_from_slice(head.as_bytes());
        into.extend_from_slice(value);
        into.extend_from_slice(b"\r\n");
    }

    /// Writes the request for the value of a key.
    pub fn get(self, key: u32, into: &mut Vec<u8>) {
        let request = match self {
            Self::Redis => format!("*2\r\n$3\r\nGET\r\n$8\r\n{key:08}\r\n"),
            Self::Memcached => format!("get {key:08}\r\n"),
        };
        into.extend_from_slice(request.as_bytes());
    }

    /// Returns the answer to a request that sets a key.
    pub fn is_set(self) -> &'static [u8] {
        match self {
            Self::Redis => b"+OK\r\n",
            Self::Memcached => b"STORED\r\n",
        }
    }

    /// Writes the answer to a request for the value of a key.
    pub fn got(self, key: u32, value: &[u8], into: &mut Vec<u8>) {
        let (head, tail) = match self {
            Self::Redis => (format!("${}\r\n", value.len()), "\r\n"),
            Self::Memcached => (format!("VALUE {key:08} 0 {}\r\n", value.len()), "\r\nEND\r\n"),
        };
        into.extend_from_slice(head.as_bytes());
        into.extend_from_slice(value);
        into.extend_from_slice(tail.as_bytes());
    }
}

/// Writes the value that a key has at its `version`th write.
pub fn value(key: u32, version: u32) -> Vec<u8> {
    let word = u64::from(key) << 32 | u64::from(version);
    word.to_le_bytes().repeat(VALUE_BYTES / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: requests and answers are those of the two protocols, with lengths that fit.
    #[test]
    fn requests_have_the_form_of_their_protocol() {
        let text = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            write(&mut bytes);
            String::from_utf8(bytes).unwrap()
        };
        use ServerKind::{Memcached, Redis};
        let set = |kind: ServerKind| text(&|into| kind.set(7, b"abc", into));
        assert_eq!(set(Redis), "*3\r\n$3\r\nSET\r\n$8\r\n00000007\r\n$3\r\nabc\r\n");
        assert_eq!(set(Memcached), "set 00000007 0 0 3\r\nabc\r\n");
        let got = |kind: ServerKind| text(&|into| kind.got(7, b"abc", into));
        assert_eq!(got(Redis), "$3\r\nabc\r\n");
        assert_eq!(got(Memcached), "VALUE 00000007 0 3\r\nabc\r\nEND\r\n");
        assert_eq!(text(&|into| Memcached.get(7, into)), "get 00000007\r\n");
        assert_ne!(value(1, 2), value(1, 3));
        assert_eq!(value(1, 2).len(), VALUE_BYTES);
    }
}
