//! Starts the agent, gives the agent each round's report, and ends the agent.

use std::io;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nodeward_balancer::{RoundReport, SharedGroups};
use nodeward_machine::Machine;

use crate::caller::AgentIdentity;
use crate::groups::Groups;
use crate::hooks::{Explainer, Journal};
use crate::limits::MoveLimits;
use crate::metrics::AgentTotals;
use crate::moves::Moves;
use crate::placement::Published;
use crate::request_counts::RequestCounts;
use crate::server::{Server, Waker};
use crate::service::Service;

/// The limits and hooks with which an agent is started.
#[derive(Clone, Copy)]
pub struct AgentOptions {
    /// Limits of the moves of each user.
    pub limits: MoveLimits,
    /// Puts decisions into words.
    pub explainer: Explainer,
    /// Enters moves into the ledger.
    pub journal: Journal,
    /// Processes that metrics name at most.
    pub metrics_processes: usize,
}

/// A running agent. Dropping it ends the agent.
pub struct Agent {
    service: Arc<Service>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Serves a socket from now on, by threads that the agent starts.
    ///
    /// # Errors
    /// If a thread or a descriptor cannot be had.
    pub fn start(
        listener: UnixListener,
        machine: Arc<dyn Machine>,
        groups: Arc<SharedGroups>,
        options: AgentOptions,
    ) -> io::Result<Self> {
        let AgentOptions { limits, explainer, journal, metrics_processes } = options;
        let moves = Arc::new(Moves::new(Arc::clone(&machine), limits, journal));
        let groups = Groups { called: groups, machine: Arc::clone(&machine) };
        let service = Arc::new(Service {
            machine,
            moves,
            groups,
            published: Published::default(),
            limits,
            explainer,
            metrics_processes,
            requests: RequestCounts::default(),
        });
        let identity = AgentIdentity::read().map_err(io::Error::other)?;
        let server = Server::new(listener, Arc::clone(&service), identity)?;
        let waker = server.waker();
        let work = move || server.run();
        let thread = thread::Builder::new().name("nodeward-agent".to_owned()).spawn(work)?;
        Ok(Self { service, waker, thread: Some(thread) })
    }

    /// Makes this round the one by which requests are answered.
    pub fn publish(&self, report: &RoundReport) {
        self.service.published.replace(report);
    }

    /// Returns what it did since it started.
    pub fn totals(&self) -> AgentTotals {
        self.service.totals()
    }
}

impl Drop for Agent {
    /// Ends moves between two batches, so that none is half done.
    fn drop(&mut self) {
        self.service.moves.end_all();
        self.waker.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
