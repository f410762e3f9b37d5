//! Moves that the screen orders: planned, carried out and taken back, here or by an agent.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail, ensure};
use nodeward_agent::client::Client;
use nodeward_agent::wire::Order;
use nodeward_machine::Machine as _;
use nodeward_model::{Name, NodePairs, Pid, Topology};
use nodeward_mover::{MoveControl, MoveOrder, PlanReport, Selection};
use nodeward_records::ledger::OperationId;

use super::move_words;
use crate::machines::shared_memory::SharedMemory;
use crate::machines::{SelectedMachine, node_pairs};
use crate::progress::{AgentProgress, ProgressSource, StoppableWork};
use crate::settings::MoveSettings;
use crate::top::{MoveStatus, NewMove};
use crate::verbs::move_task::{CarriedOut, MoveTask};
use crate::verbs::{by_agent, undo};

/// Moves memory of processes of a machine.
pub struct TopMover {
    /// The machine.
    pub machine: Arc<SelectedMachine>,
    /// Workers and limits.
    pub settings: MoveSettings,
    /// The socket of the agent that moves.
    pub agent: Option<PathBuf>,
    /// Held while memory of a simulated machine moves: only one thread may let its time pass.
    pub exclusive: Arc<Mutex<()>>,
}

/// A planned move.
pub struct PlannedMove {
    /// Its process.
    pub pid: Pid,
    /// The process in words.
    pub whose: String,
    /// What it would do.
    pub lines: Vec<String>,
    how: MoveBy,
}

enum MoveBy {
    Here(Box<MoveTask>),
    ByAgent(Box<Order>),
}

/// What came of a move.
pub struct MoveOutcome {
    /// In words.
    pub words: String,
    /// The operation that can be taken back.
    pub last: Option<LastMove>,
}

/// A move that can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastMove {
    id: OperationId,
    pid: Pid,
}

/// The progress of a move, here or by an agent.
pub enum MoveProgress {
    /// Here.
    Here(MoveControl),
    /// By an agent.
    ByAgent(AgentProgress),
}

impl MoveProgress {
    /// Asks the move to end between two batches.
    pub fn stop(&self) {
        match self {
            Self::Here(control) => control.stop(),
            Self::ByAgent(progress) => StoppableWork::stop(progress),
        }
    }

    /// Returns how far it is.
    pub fn status(&self) -> MoveStatus {
        let ((done_bytes, total_bytes), moved_bytes, is_stopping) = match self {
            Self::Here(it) => (it.done_of_total(), it.moved_bytes(), it.is_stopped()),
            Self::ByAgent(it) => (it.done_of_total(), it.moved_bytes(), it.is_stopped()),
        };
        MoveStatus { done_bytes, total_bytes, moved_bytes, is_stopping, ..MoveStatus::default() }
    }
}

impl PlannedMove {
    /// Returns the progress of this move, which has not begun.
    pub fn progress(&self) -> MoveProgress {
        match self.how {
            MoveBy::Here(_) => MoveProgress::Here(MoveControl::default()),
            MoveBy::ByAgent(_) => MoveProgress::ByAgent(AgentProgress::default()),
        }
    }
}

impl TopMover {
    /// Plans a move, and changes nothing.
    ///
    /// # Errors
    /// If it cannot be made, or nothing would move.
    pub fn plan(&self, order: &NewMove, live: &MoveControl) -> Result<PlannedMove> {
        let words: Vec<&str> = order.nodes.split_whitespace().collect();
        let [from, to] = words[..] else { bail!("give two words: FROM and TO, such as 0 1") };
        let machine = self.machine.machine();
        let topology = machine.topology()?;
        let names = self.machine.node_names(&topology)?;
        let pairs = node_pairs::parse_pairs(from, to, &topology, &names)?;
        match &self.agent {
            Some(path) => {
                let pid = order.pid;
                let order = Order { pids: Some(vec![pid]), ..Order::between(&pairs) };
                plan_by_agent(&mut Client::connect(path)?, pid, order)
            }
            None => {
                let command = ["nodeward", "move", &order.pid.to_string(), from, to];
                self.plan_here(order.pid, pairs, (&topology, &command.map(Name::from)), live)
            }
        }
    }

    /// Plans to take a move back.
    ///
    /// # Errors
    /// As [`TopMover::plan`].
    pub fn plan_undo(&self, last: LastMove, live: &MoveControl) -> Result<PlannedMove> {
        if let Some(path) = &self.agent {
            let order = Order { undo: Some(last.id.number()), ..Order::default() };
            return plan_by_agent(&mut Client::connect(path)?, last.pid, order);
        }
        let machine = self.machine.local("ledger of moves")?;
        let command = ["nodeward", "undo", &last.id.to_string()].map(Name::from).to_vec();
        let task = MoveTask { command: Some(command), ..undo::task_of(last.id, machine)? };
        let is_ours = task.processes.iter().any(|process| process.pid() == last.pid);
        ensure!(is_ours, "operation {} of the ledger is not this move", last.id);
        self.planned(last.pid, task, &machine.topology()?, live)
    }

    fn plan_here(
        &self,
        pid: Pid,
        pairs: NodePairs,
        (topology, command): (&Topology, &[Name]),
        live: &MoveControl,
    ) -> Result<PlannedMove> {
        let processes = vec![self.machine.machine().open_process(pid)?];
        let selection = Selection::default();
        let shared_memory = match &*self.machine {
            SelectedMachine::Local(_) => {
                SharedMemory::find(&processes, &selection, (topology, &pairs), live)?
            }
            SelectedMachine::Simulated(_) => None,
        };
        let orders: Arc<[MoveOrder]> = [MoveOrder { pairs, pages: None }].into();
        let command = Some(command.to_vec());
        let task = MoveTask { shared_memory, command, ..MoveTask::new(processes, vec![orders]) };
        self.planned(pid, task, topology, live)
    }

    fn planned(
        &self,
        pid: Pid,
        task: MoveTask,
        topology: &Topology,
        live: &MoveControl,
    ) -> Result<PlannedMove> {
        let machine = self.machine.machine();
        let identity = task.processes.iter().find(|it| it.pid() == pid).map(|it| it.identity());
        let name = identity.transpose()?.map(|identity| identity.name).unwrap_or_default();
        let whose = format!("process {pid} ({name})");
        let _held = self.hold();
        let (report, segments) = task.plan(machine, topology, &self.settings, live)?;
        ensure!(!live.is_stopped(), "the plan was given up");
        let is_local = matches!(*self.machine, SelectedMachine::Local(_));
        let plans = report.processes.iter().map(|(_, plan)| plan).chain(&segments);
        let lines = move_words::plan(&whose, plans, machine.page_bytes(), is_local)?;
        Ok(PlannedMove { pid, whose, lines, how: MoveBy::Here(Box::new(task)) })
    }

    /// Carries out a plan.
    ///
    /// # Errors
    /// If nothing could be attempted.
    pub fn carry_out(&self, plan: &PlannedMove, live: &MoveProgress) -> Result<MoveOutcome> {
        match (&plan.how, live) {
            (MoveBy::Here(task), MoveProgress::Here(live)) => {
                let machine = self.machine.machine();
                let is_local = matches!(*self.machine, SelectedMachine::Local(_));
                let topology = machine.topology()?;
                let _held = self.hold();
                let done = task.carry_out(machine, &topology, (&self.settings, is_local), live)?;
                Ok(outcome(plan, &done, machine.page_bytes()))
            }
            (MoveBy::ByAgent(order), MoveProgress::ByAgent(live)) => {
                let Some(path) = &self.agent else { bail!("there is no agent") };
                let report = by_agent::carry_out(Client::connect(path)?, order, live)?;
                let (page_bytes, ledger) = (report.page_bytes, report.ledger);
                let report = by_agent::with_reason(report.into(), live);
                let ledger = ledger.and_then(by_agent::ledger);
                let done = CarriedOut { report, shared: None, ledger, collapse: None };
                Ok(outcome(plan, &done, page_bytes))
            }
            _ => bail!("the plan and its progress are of different moves"),
        }
    }

    /// Keeps others from letting the time of a simulated machine pass.
    fn hold(&self) -> Option<MutexGuard<'_, ()>> {
        matches!(*self.machine, SelectedMachine::Simulated(_))
            .then(|| self.exclusive.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Plans a move that an agent makes.
///
/// # Errors
/// As [`TopMover::plan`].
pub fn plan_by_agent(client: &mut Client, pid: Pid, order: Order) -> Result<PlannedMove> {
    let plan = client.plan(&order)?;
    let page_bytes = plan.page_bytes;
    let report = PlanReport::from(plan);
    let whose = format!("process {pid}");
    let plans = report.processes.iter().map(|(_, plan)| plan);
    let lines = move_words::plan(&whose, plans, page_bytes, true)?;
    Ok(PlannedMove { pid, whose, lines, how: MoveBy::ByAgent(Box::new(order)) })
}

fn outcome(plan: &PlannedMove, done: &CarriedOut, page_bytes: u64) -> MoveOutcome {
    let ledger = done.ledger.as_ref().filter(|ledger| ledger.error.is_none());
    let last = ledger.map(|ledger| LastMove { id: ledger.id, pid: plan.pid });
    MoveOutcome { words: move_words::outcome(&plan.whose, done, page_bytes, last.is_some()), last }
}
