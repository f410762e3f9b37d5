//! A client of the agent, which waits for each reply.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodeward_call::{ConnectionError, ErrorReply, ServiceConnection};
use nodeward_model::{
    Escape as _, GroupHome, GroupName, MappingKind, MemorySelector, Pid, Residency,
};
use nodeward_mover::placement::SavedMemory;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::authority::Refusal;
use crate::errors::CallError;
use crate::wire::{Order, WireGroups, WireHomes, WirePlan, WireProgress, WireReport, WireSegment};

/// Time for a reply. The longest look takes five seconds, and others may be before us.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The reasons for which a request brings no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No agent listens at the socket.
    #[error(
        "no agent answers at {}; start nodeward balance with balance.socket set to that, or name \
         another by --agent=SOCKET",
        path.escaped()
    )]
    NoAgent {
        /// The path of the socket.
        path: PathBuf,
        /// The error of connect(2).
        source: io::Error,
    },
    /// The socket may not be used.
    #[error("{} may not be used; balance.socket-mode and -group say who may", path.escaped())]
    NoAccess {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The agent ended before it replied.
    #[error("the agent ended meanwhile; what it had moved is in its ledger")]
    Lost(#[source] io::Error),
    /// The agent refused.
    #[error(transparent)]
    Refused(#[from] CallError),
    /// The agent said what we do not understand.
    #[error("the agent answered '{}', which this version does not understand", .0.escaped())]
    Strange(String),
}

impl ClientError {
    /// Returns the pid of the process that the agent does not find, if that is why.
    pub fn missing_process(&self) -> Option<u32> {
        match self {
            Self::Refused(CallError::NotAllowed {
                pid, reason: Refusal::NoSuchProcess, ..
            }) => Some(*pid),
            _ => None,
        }
    }
}

/// A connection to an agent.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    connection: ServiceConnection,
}

/// The replies about the progress of a move, until the move has ended.
pub struct ProgressStream(Client);

impl Client {
    /// Connects to the agent at `path`.
    ///
    /// # Errors
    /// If nobody listens there, or we may not connect.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        Self::connect_for(path, TIMEOUT)
    }

    /// Connects; each reply must come within this time.
    ///
    /// # Errors
    /// Those of [`Client::connect`].
    pub fn connect_for(path: &Path, timeout: Duration) -> Result<Self, ClientError> {
        let connection = ServiceConnection::open(path, timeout)
            .map_err(|error| ClientError::new(error, path))?;
        Ok(Self { path: path.to_owned(), connection })
    }

    /// Returns all metrics, as Prometheus' text.
    ///
    /// # Errors
    /// Those of the request.
    pub fn metrics(&mut self) -> Result<String, ClientError> {
        read(self.call("io.nodeward.Metrics.Read", json!({}))?["text"].take())
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

    /// Watches a move, over a second connection.
    ///
    /// # Errors
    /// Those of connecting.
    pub fn watch(&self, number: u64) -> Result<ProgressStream, ClientError> {
        let mut client = Self::connect(&self.path)?;
        let asked = json!({ "move": number });
        let sent = client.connection.send("io.nodeward.Moves.Progress", asked, true);
        sent.map_err(|error| client.told(error))?;
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

    /// Returns where the memory of processes is, as a placement keeps it.
    ///
    /// # Errors
    /// Those of the request.
    pub fn saved_memory(
        &mut self,
        pids: &[Pid],
        kinds: &BTreeSet<MappingKind>,
    ) -> Result<SavedMemory, ClientError> {
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let parameters = json!({ "pids": pids, "kinds": kinds });
        let mut reply = self.call("io.nodeward.Placement.Save", parameters)?;
        let mappings = read(reply["mappings"].take())?;
        Ok(SavedMemory { mappings, segments: read(reply["segments"].take())? })
    }

    /// Returns the decisions of the balancer's last round about all processes of the caller.
    ///
    /// # Errors
    /// Those of the request.
    pub fn homes(&mut self) -> Result<WireHomes, ClientError> {
        self.call("io.nodeward.Placement.Homes", json!({})).and_then(read)
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
    pub fn groups(&mut self) -> Result<WireGroups, ClientError> {
        read(self.call("io.nodeward.Groups.List", json!({}))?)
    }

    /// Calls a method, and returns the parameters of the reply.
    ///
    /// # Errors
    /// Those of the request.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value, ClientError> {
        self.connection.call(method, parameters).map_err(|error| self.told(error))
    }

    fn told(&self, error: ConnectionError) -> ClientError {
        ClientError::new(error, &self.path)
    }
}

impl ClientError {
    fn new(error: ConnectionError, path: &Path) -> Self {
        let path = path.to_owned();
        match error {
            ConnectionError::NobodyAnswers(source) => Self::NoAgent { path, source },
            ConnectionError::NoAccess(_) => Self::NoAccess { path },
            ConnectionError::Lost(source) => Self::Lost(source),
            ConnectionError::NoReply(words) => Self::Strange(words),
            ConnectionError::Refused(ErrorReply { error, parameters }) => {
                CallError::from_reply(&error, Some(parameters))
                    .map_or_else(Self::Strange, Self::from)
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
        let client = &mut self.0;
        let (mut parameters, _) = client.connection.receive().map_err(|it| client.told(it))?;
        read(parameters["progress"].take())
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, ClientError> {
    serde_json::from_value(value).map_err(|error| ClientError::Strange(error.to_string()))
}
