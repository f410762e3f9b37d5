//! The other end: a client that waits for each reply.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodeward_model::{Escape as _, GroupHome, GroupName, MemorySelector, Pid, Residency};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use varlink::{Reply, Request};

use crate::errors::CallError;
use crate::wire::{Order, WireGroup, WirePlan, WireProgress, WireReport, WireSegment};

/// Bytes of a reply: the homes of a hundred thousand processes.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// Time for a reply. The longest look takes five seconds, and others may be before us.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why a request brought nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no agent answers at {}; start nodeward balance with balance.socket set to that, or name \
         another by --agent=SOCKET",
        path.escaped()
    )]
    NoAgent {
        /// Where.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The socket may not be used.
    #[error("{} may not be used; balance.socket-mode and -group say who may", path.escaped())]
    NoAccess {
        /// Where.
        path: PathBuf,
    },
    /// The agent ended.
    #[error("the agent ended meanwhile; what it had moved is in its ledger")]
    Lost(#[source] io::Error),
    /// The agent refused.
    #[error(transparent)]
    Refused(#[from] CallError),
    /// The agent said what we do not understand.
    #[error("the agent answered '{}', which this version does not understand", .0.escaped())]
    Strange(String),
}

/// A connection to an agent.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: UnixStream,
    input: Vec<u8>,
}

/// Replies about the progress of a move, until it has ended.
pub struct ProgressStream(Client);

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// If nobody listens there, or we may not connect.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path).map_err(|source| match source.kind() {
            ErrorKind::PermissionDenied => ClientError::NoAccess { path: path.to_owned() },
            _ => ClientError::NoAgent { path: path.to_owned(), source },
        })?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(ClientError::Lost)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(ClientError::Lost)?;
        Ok(Self { path: path.to_owned(), stream, input: Vec::new() })
    }

    /// Returns what an order would do.
    ///
    /// # Errors
    /// Those of the request.
    pub fn plan(&mut self, order: &Order) -> Result<WirePlan, ClientError> {
        self.call("io.nodeward.Moves.Plan", json!({ "order": order })).and_then(read)
    }

    /// Begins a move, and returns its number.
    ///
    /// # Errors
    /// Those of the request.
    pub fn start(&mut self, order: &Order) -> Result<u64, ClientError> {
        let reply = self.call("io.nodeward.Moves.Start", json!({ "order": order }))?;
        read(reply["move"].clone())
    }

    /// Watches a move, over a connection of its own.
    ///
    /// # Errors
    /// Those of connecting.
    pub fn watch(&self, number: u64) -> Result<ProgressStream, ClientError> {
        let mut client = Self::connect(&self.path)?;
        client.send("io.nodeward.Moves.Progress", json!({ "move": number }), true)?;
        Ok(ProgressStream(client))
    }

    /// Asks a move to end.
    ///
    /// # Errors
    /// Those of the request.
    pub fn cancel(&mut self, number: u64) -> Result<(), ClientError> {
        self.call("io.nodeward.Moves.Cancel", json!({ "move": number })).map(|_| ())
    }

    /// Returns the account of a move that has ended.
    ///
    /// # Errors
    /// Those of the request.
    pub fn account(&mut self, number: u64) -> Result<WireReport, ClientError> {
        let mut reply = self.call("io.nodeward.Moves.Account", json!({ "move": number }))?;
        read(reply["report"].take())
    }

    /// Returns where the memory of a process is, and which segments it maps.
    ///
    /// # Errors
    /// Those of the request.
    pub fn residency(
        &mut self,
        pid: Pid,
        exact: bool,
        samples_min: u64,
        seed: Option<u64>,
    ) -> Result<(Residency, Vec<WireSegment>), ClientError> {
        let mut parameters = json!({ "pid": pid, "exact": exact, "samples_min": samples_min });
        if let Some(seed) = seed {
            parameters["seed"] = json!(seed);
        }
        let mut reply = self.call("io.nodeward.Residency.Show", parameters)?;
        let segments = read(reply["segments"].take())?;
        Ok((read(reply)?, segments))
    }

    /// Returns the balancer's decision about a process, for programs and for people.
    ///
    /// # Errors
    /// Those of the request.
    pub fn explain(&mut self, pid: Pid) -> Result<(Value, String), ClientError> {
        let mut reply = self.call("io.nodeward.Placement.Explain", json!({ "pid": pid }))?;
        Ok((reply["document"].take(), read(reply["text"].take())?))
    }

    /// Makes a group, and returns its number.
    ///
    /// # Errors
    /// Those of the request.
    pub fn create_group(&mut self, name: &GroupName, home: &GroupHome) -> Result<u32, ClientError> {
        let parameters = json!({ "name": name, "home": home.to_string() });
        read(self.call("io.nodeward.Groups.Create", parameters)?["group"].take())
    }

    /// Says where a group is to be.
    ///
    /// # Errors
    /// Those of the request.
    pub fn set_group_home(&mut self, group: u32, home: &GroupHome) -> Result<(), ClientError> {
        let parameters = json!({ "group": group, "home": home.to_string() });
        self.call("io.nodeward.Groups.SetHome", parameters).map(|_| ())
    }

    /// Puts threads of a process into a group; all if `threads` is `None`.
    ///
    /// # Errors
    /// Those of the request.
    pub fn add_threads(
        &mut self,
        group: u32,
        pid: Pid,
        threads: Option<&[u32]>,
    ) -> Result<(), ClientError> {
        let mut parameters = json!({ "group": group, "pid": pid });
        if let Some(threads) = threads {
            parameters["threads"] = json!(threads);
        }
        self.call("io.nodeward.Groups.AddThreads", parameters).map(|_| ())
    }

    /// Puts memory of a process into a group.
    ///
    /// # Errors
    /// Those of the request.
    pub fn add_memory(
        &mut self,
        group: u32,
        pid: Pid,
        memory: &[MemorySelector],
    ) -> Result<(), ClientError> {
        let memory: Vec<String> = memory.iter().map(ToString::to_string).collect();
        let parameters = json!({ "group": group, "pid": pid, "memory": memory });
        self.call("io.nodeward.Groups.AddMemory", parameters).map(|_| ())
    }

    /// Deletes a group.
    ///
    /// # Errors
    /// Those of the request.
    pub fn delete_group(&mut self, group: u32) -> Result<(), ClientError> {
        self.call("io.nodeward.Groups.Delete", json!({ "group": group })).map(|_| ())
    }

    /// Returns the groups of the caller; all for root.
    ///
    /// # Errors
    /// Those of the request.
    pub fn groups(&mut self) -> Result<Vec<WireGroup>, ClientError> {
        read(self.call("io.nodeward.Groups.List", json!({}))?["groups"].take())
    }

    /// Calls any method, and returns its parameters.
    ///
    /// # Errors
    /// Those of the request.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value, ClientError> {
        // A refused connection is closed with its reason: that is read even if nothing can be sent.
        let sent = self.send(method, parameters, false);
        match (self.receive(), sent) {
            (Err(ClientError::Lost(_)), Err(error)) => Err(error),
            (received, _) => received.map(|(parameters, _)| parameters),
        }
    }

    fn send(&mut self, method: &str, parameters: Value, more: bool) -> Result<(), ClientError> {
        let mut request = Request::create(method, Some(parameters));
        request.more = more.then_some(true);
        let bytes = varlink::sansio::serialize_request(&request);
        let bytes = bytes.map_err(|_| ClientError::Strange(method.to_owned()))?;
        self.stream.write_all(&bytes).map_err(ClientError::Lost)
    }

    /// Returns the parameters of the next reply, and whether others follow.
    fn receive(&mut self) -> Result<(Value, bool), ClientError> {
        let message = self.message().map_err(ClientError::Lost)?;
        let strange = || ClientError::Strange(String::from_utf8_lossy(&message).into_owned());
        let reply: Reply = serde_json::from_slice(&message).map_err(|_| strange())?;
        match reply.error {
            Some(name) => match CallError::from_reply(&name, reply.parameters) {
                Ok(refused) => Err(refused.into()),
                Err(name) => Err(ClientError::Strange(name)),
            },
            None => Ok((reply.parameters.unwrap_or_default(), reply.continues.unwrap_or(false))),
        }
    }

    fn message(&mut self) -> io::Result<Vec<u8>> {
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

impl ProgressStream {
    /// Waits for the next report.
    ///
    /// # Errors
    /// If the agent refuses, or ends.
    pub fn wait_for_next(&mut self) -> Result<WireProgress, ClientError> {
        let (mut parameters, _) = self.0.receive()?;
        read(parameters["progress"].take())
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, ClientError> {
    serde_json::from_value(value).map_err(|error| ClientError::Strange(error.to_string()))
}
