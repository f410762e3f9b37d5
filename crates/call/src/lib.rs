//! Calls of a Varlink service over a Unix socket, by a client that waits for each reply.
//!
//! A message is a JSON object and a zero byte. What the service sends is untrusted: a reply has a
//! greatest length, and a time after which nobody waits for it any more. Nothing here raises
//! SIGPIPE, which would end a C program.

#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Read as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The socket at which the agent of the system listens.
pub const AGENT_SOCKET: &str = "/run/nodeward/nodeward.sock";

/// Bytes of a reply: the homes of a hundred thousand processes.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// The reasons for which a call brings no reply.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Nobody answers at the socket, or there is none.
    #[error("nobody answers")]
    NobodyAnswers(#[source] io::Error),
    /// The socket may not be used.
    #[error("the socket may not be used")]
    NoAccess(#[source] io::Error),
    /// The connection ended, or no reply came in time.
    #[error("no reply came")]
    Lost(#[source] io::Error),
    /// The service refused.
    #[error("the service answered {}", .0.error)]
    Refused(ErrorReply),
    /// The service said what is no reply.
    #[error("the service answered what is no reply")]
    NoReply(String),
}

/// An error that a service replied, with its name in the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply {
    /// The name of the error, with that of the interface in front.
    pub error: String,
    /// The fields of the error; null if it has none.
    pub parameters: Value,
}

/// A connection to a service.
#[derive(Debug)]
pub struct ServiceConnection {
    stream: UnixStream,
    timeout: Duration,
    /// Bytes that came behind the last reply and were not taken yet.
    input: Vec<u8>,
}

#[derive(Serialize)]
struct CallMessage<'a> {
    method: &'a str,
    parameters: Value,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

#[derive(Deserialize)]
struct ReplyMessage {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    parameters: Option<Value>,
    #[serde(default)]
    continues: Option<bool>,
}

impl ServiceConnection {
    /// Connects. `timeout` is the longest time for connecting, for sending, and for a reply.
    ///
    /// # Errors
    /// `NobodyAnswers`, or `NoAccess`.
    pub fn open(path: &Path, timeout: Duration) -> Result<Self, ConnectionError> {
        let stream = connect(path, timeout).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => ConnectionError::NoAccess(error),
            _ => ConnectionError::NobodyAnswers(error),
        })?;
        Ok(Self { stream, timeout, input: Vec::new() })
    }

    /// Calls a method, and returns the parameters of the reply.
    ///
    /// # Errors
    /// `Lost`, `Refused`, or `NoReply`.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value, ConnectionError> {
        // A refused connection is closed with its reason: that is read even if nothing can be sent.
        let sent = self.send(method, parameters, false);
        match (self.receive(), sent) {
            (Err(ConnectionError::Lost(_)), Err(error)) => Err(error),
            (received, _) => received.map(|(parameters, _)| parameters),
        }
    }

    /// Sends a call; with `more` several replies may come.
    ///
    /// # Errors
    /// `Lost`.
    pub fn send(
        &mut self,
        method: &str,
        parameters: Value,
        more: bool,
    ) -> Result<(), ConnectionError> {
        let request = serde_json::to_vec(&CallMessage { method, parameters, more });
        let mut bytes = request.map_err(|error| ConnectionError::Lost(error.into()))?;
        bytes.push(0);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let sent = retry_on_intr(|| net::send(&self.stream, rest, SendFlags::NOSIGNAL));
            rest = &rest[sent.map_err(|error| ConnectionError::Lost(in_time(error.into())))?..];
        }
        Ok(())
    }

    /// Returns the parameters of the next reply, and whether others follow.
    ///
    /// # Errors
    /// `Lost`, `Refused`, or `NoReply`.
    pub fn receive(&mut self) -> Result<(Value, bool), ConnectionError> {
        let message = self.message().map_err(|error| ConnectionError::Lost(in_time(error)))?;
        let reply: ReplyMessage = serde_json::from_slice(&message).map_err(|_| {
            ConnectionError::NoReply(String::from_utf8_lossy(&message).into_owned())
        })?;
        let parameters = reply.parameters.unwrap_or_default();
        match reply.error {
            Some(error) => Err(ConnectionError::Refused(ErrorReply { error, parameters })),
            None => Ok((parameters, reply.continues.unwrap_or(false))),
        }
    }

    /// Reads until a message is complete, and returns it without its zero byte.
    fn message(&mut self) -> io::Result<Vec<u8>> {
        let until = Instant::now() + self.timeout;
        let mut searched = 0;
        loop {
            if let Some(end) = self.input[searched..].iter().position(|&byte| byte == 0) {
                let mut message: Vec<u8> = self.input.drain(..=searched + end).collect();
                message.pop();
                return Ok(message);
            }
            searched = self.input.len();
            if searched > REPLY_BYTES_MAX {
                return Err(io::Error::other("a reply is too long"));
            }
            if Instant::now() > until {
                return Err(ErrorKind::TimedOut.into());
            }
            let mut bytes = [0; 16 << 10];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.input.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn connect(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let kind = SocketType::STREAM;
    let socket = net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    for kind in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(&socket, kind, Some(timeout))?;
    }
    let address = SocketAddrUnix::new(path)?;
    match retry_on_intr(|| net::connect(&socket, &address)) {
        // It waited in vain for a place in the queue of who listens.
        Err(Errno::AGAIN) => Err(ErrorKind::TimedOut.into()),
        connected => connected.map(|()| UnixStream::from(socket)).map_err(io::Error::from),
    }
}

/// Turns the error of a read that took too long into `TimedOut`.
fn in_time(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;
    use std::thread::{self, JoinHandle};

    use serde_json::json;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Serves one connection: reads a call, and sends pieces of replies.
    fn serve(pieces: Vec<Vec<u8>>) -> (tempfile::TempDir, JoinHandle<Value>) {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let work = move || {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = BufReader::new(stream);
            let mut heard = Vec::new();
            stream.read_until(0, &mut heard).unwrap();
            assert_eq!(heard.pop(), Some(0));
            // Who has heard enough may have gone.
            pieces.iter().for_each(|piece| _ = stream.get_mut().write_all(piece));
            serde_json::from_slice(&heard).unwrap()
        };
        (folder, thread::spawn(work))
    }

    fn ask(pieces: &[&[u8]]) -> (Result<Value, ConnectionError>, Value) {
        let (folder, server) = serve(pieces.iter().map(|piece| piece.to_vec()).collect());
        let mut connection = ServiceConnection::open(&folder.path().join("socket"), LONG).unwrap();
        let reply = connection.call("a.b.C", json!({ "x": 1 }));
        drop(connection);
        (reply, server.join().unwrap())
    }

    /// Goal: a call is one object and a zero byte, and a reply may come in any pieces; what it
    /// lacks is null.
    #[test]
    fn a_call_and_its_reply() {
        let (reply, heard) = ask(&[b"{\"param", b"eters\":{\"y\":2}}", b"\0"]);
        assert_eq!(reply.unwrap(), json!({ "y": 2 }));
        assert_eq!(heard, json!({ "method": "a.b.C", "parameters": { "x": 1 } }));
        assert_eq!(ask(&[b"{}\0"]).0.unwrap(), Value::Null);
    }

    /// Goal: several replies in one piece are taken one by one.
    #[test]
    fn more_replies() {
        let replies = b"{\"parameters\":1,\"continues\":true}\0{\"parameters\":2}\0";
        let (folder, server) = serve(vec![replies.to_vec()]);
        let mut connection = ServiceConnection::open(&folder.path().join("socket"), LONG).unwrap();
        connection.send("a.b.C", json!({}), true).unwrap();
        assert_eq!(connection.receive().unwrap(), (json!(1), true));
        assert_eq!(connection.receive().unwrap(), (json!(2), false));
        assert!(matches!(connection.receive(), Err(ConnectionError::Lost(_))));
        assert_eq!(server.join().unwrap()["more"], true);
    }

    /// Goal: what is no reply is told apart: an error of the service, no JSON, a connection that
    /// ends, and a reply that never ends.
    #[test]
    fn what_is_no_reply() {
        let refused = ask(&[b"{\"error\":\"a.b.D\",\"parameters\":{\"z\":3}}\0"]).0;
        let expected = ErrorReply { error: "a.b.D".to_owned(), parameters: json!({ "z": 3 }) };
        assert!(matches!(refused, Err(ConnectionError::Refused(it)) if it == expected));
        let strange = ask(&[b"hello\xff\0"]).0;
        assert!(matches!(strange, Err(ConnectionError::NoReply(it)) if it == "hello\u{fffd}"));
        for half in [&b""[..], b"{"] {
            let lost = ask(&[half]).0;
            let end = ErrorKind::UnexpectedEof;
            assert!(matches!(lost, Err(ConnectionError::Lost(it)) if it.kind() == end));
        }
        let endless = vec![b' '; REPLY_BYTES_MAX + (1 << 20)];
        let lost = ask(&[&endless]).0;
        assert!(matches!(lost, Err(ConnectionError::Lost(it)) if it.to_string().contains("long")));
    }

    /// Goal: a call ends in time: with a service that never replies, one that sends a byte now and
    /// then, and one that takes no connection.
    #[test]
    fn patience_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let short = Duration::from_millis(50);
        let is_late = |error: ConnectionError| match error {
            ConnectionError::Lost(it) | ConnectionError::NobodyAnswers(it) => {
                assert_eq!(it.kind(), ErrorKind::TimedOut, "{it}");
            }
            other => panic!("{other:?}"),
        };
        let mut silent = ServiceConnection::open(&path, short).unwrap();
        is_late(silent.call("a.b.C", json!({})).unwrap_err());

        let mut slow = ServiceConnection::open(&path, short).unwrap();
        let (first, _) = listener.accept().unwrap();
        drop(first);
        let (mut second, _) = listener.accept().unwrap();
        let drip = thread::spawn(move || {
            // Until the other end is closed.
            while second.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        });
        is_late(slow.call("a.b.C", json!({})).unwrap_err());
        drop(slow);
        drip.join().unwrap();

        // The queue of who never accepts has an end; here it is as short as the kernel has it.
        net::listen(&listener, 0).unwrap();
        let waiting: Vec<_> = (0..10).map(|_| ServiceConnection::open(&path, short)).collect();
        waiting.into_iter().filter_map(Result::err).last().map(is_late).expect("a full queue");
    }

    /// Goal: where nobody listens, where there is no socket, and where a path is too long, nobody
    /// answers.
    #[test]
    fn nobody_answers() {
        let folder = tempfile::tempdir().unwrap();
        let stale = folder.path().join("stale");
        drop(UnixListener::bind(&stale).unwrap());
        let long = folder.path().join("x".repeat(200));
        for path in [&stale, &folder.path().join("none"), &long] {
            let error = ServiceConnection::open(path, LONG).unwrap_err();
            assert!(matches!(error, ConnectionError::NobodyAnswers(_)), "{error:?}");
        }
    }
}
