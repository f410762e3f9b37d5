//! The agent of a balancer: its socket, its ledgers, and its words.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use nodeward_agent::metrics::AgentTotals;
use nodeward_agent::socket::{SocketFile, handed_over, listen};
use nodeward_agent::{Agent, AgentOptions, Journal, JournalRequest};
use nodeward_balancer::{RoundReport, SharedGroups};
use nodeward_linux::peer;
use nodeward_machine::Machine;
use nodeward_model::Name;
use nodeward_mover::{LedgerReport, MoveReport, SharedLedger};
use nodeward_records::ledger::{Operation, OperationId};

use crate::output::explain;
use crate::results::ProcessExplanation;
use crate::settings::AgentSettings;
use crate::settings::state_dir::{self, now_unix_ms};
use crate::verbs::move_task::begin_journal_of;

/// An agent that runs, if one was asked for.
#[derive(Default)]
pub struct BalancerAgent {
    agent: Option<Agent>,
    _file: Option<SocketFile>,
}

impl BalancerAgent {
    /// Starts it at the socket that was handed over, or at the one that the settings name.
    ///
    /// # Errors
    /// If there can be no socket there.
    pub fn start(
        settings: &AgentSettings,
        machine: &Arc<dyn Machine>,
        groups: Arc<SharedGroups>,
    ) -> Result<Self> {
        let handed = handed_over(|name| std::env::var(name).ok(), take_descriptor);
        let handed = handed.context("the socket of the service manager cannot be used")?;
        let (listener, file) = match (handed, &settings.socket) {
            (Some(listener), _) => (listener, None),
            (None, Some(path)) => {
                let (listener, file) = listen(path, settings.access)?;
                (listener, Some(file))
            }
            (None, None) => return Ok(Self::default()),
        };
        let options = AgentOptions {
            limits: settings.limits,
            explainer: |pid, report, row, json| {
                explain::append_process(&ProcessExplanation { pid, report, row }, json);
            },
            journal: Journal { begin: begin_ledger, end: end_ledger, read: read_ledger },
            metrics_processes: settings.metrics_processes,
        };
        let agent = Agent::start(listener, Arc::clone(machine), groups, options);
        let agent = agent.context("the agent cannot be started")?;
        Ok(Self { agent: Some(agent), _file: file })
    }

    /// Makes a round the one that requests are answered by.
    pub fn publish(&self, report: &RoundReport) {
        if let Some(agent) = &self.agent {
            agent.publish(report);
        }
    }

    /// Returns what the agent did, if there is one.
    pub fn totals(&self) -> Option<AgentTotals> {
        self.agent.as_ref().map(Agent::totals)
    }
}

fn take_descriptor(number: i32) -> io::Result<OwnedFd> {
    peer::inherited(number)
}

fn begin_ledger(request: JournalRequest<'_>) -> Option<SharedLedger> {
    let JournalRequest { machine, processes, command, undoes } = request;
    let command = command.into_iter().map(Name::from).collect();
    begin_journal_of(machine, Ok(processes), undoes, command)
}

fn read_ledger(id: OperationId) -> Option<Operation> {
    state_dir::ledgers().and_then(|store| Ok(store.read(id)?)).ok()
}

fn end_ledger(ledger: SharedLedger, report: &MoveReport) -> Option<LedgerReport> {
    ledger.end(report.account(), report.stopped.is_some(), now_unix_ms())
}
