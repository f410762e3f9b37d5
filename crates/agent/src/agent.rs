//! Starts the agent, tells it of rounds, and ends it.

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
use crate::moves::Moves;
use crate::placement::Published;
use crate::server::{Server, Waker};
use crate::service::Service;

/// What an agent is started with.
#[derive(Clone, Copy)]
pub struct AgentOptions {
    /// Limits of moves.
    pub limits: MoveLimits,
    /// How decisions are put into words.
    pub explainer: Explainer,
    /// How moves are entered into the ledger.
    pub journal: Journal,
}

/// A running agent. It ends when it is dropped.
pub struct Agent {
    published: Arc<Published>,
    moves: Arc<Moves>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Serves a socket from now on, by threads of its own.
    ///
    /// # Errors
    /// If a thread or a descriptor cannot be had.
    pub fn start(
        listener: UnixListener,
        machine: Arc<dyn Machine>,
        groups: Arc<SharedGroups>,
        options: AgentOptions,
    ) -> io::Result<Self> {
        let AgentOptions { limits, explainer, journal } = options;
        let published = Arc::new(Published::default());
        let moves = Arc::new(Moves::new(Arc::clone(&machine), limits, journal));
        let groups = Groups { called: groups, page_bytes: machine.page_bytes() };
        let service = Service {
            machine,
            moves: Arc::clone(&moves),
            groups,
            published: Arc::clone(&published),
            limits,
            explainer,
        };
        let identity = AgentIdentity::read().map_err(io::Error::other)?;
        let server = Server::new(listener, Arc::new(service), identity)?;
        let waker = server.waker();
        let work = move || server.run();
        let thread = thread::Builder::new().name("nodeward-agent".to_owned()).spawn(work)?;
        Ok(Self { published, moves, waker, thread: Some(thread) })
    }

    /// Makes a round the one that requests are answered by.
    pub fn publish(&self, report: &RoundReport) {
        self.published.replace(report);
    }
}

impl Drop for Agent {
    /// Ends moves between two batches, so that none is half done.
    fn drop(&mut self) {
        self.moves.end_all();
        self.waker.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
