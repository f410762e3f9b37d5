//! Starts and ends the balancer of this process.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nodeward::GroupAgent;
use nodeward_balancer::{AccessChoice, BalanceSettings, Balancer, RivalMode};
use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::{Pid, ProcessFilter};
use nodeward_pager::spawn_without_signals;

use crate::agent_presence::answers;
use crate::one_each::OneEach;
use crate::own_groups::OwnGroups;
use crate::rounds;
use crate::shared::{OwnShared, OwnStatus};

/// How an [`OwnBalancer`] works.
#[derive(Clone, Debug)]
pub struct OwnOptions {
    /// Time from one round to the next.
    pub interval: Duration,
    /// Maximum number of bytes moved per second.
    pub budget_bytes_per_s: u64,
    /// What it does while the kernel's NUMA balancing or numad is active. `TakeOver` is not for
    /// programs: it is as `StandBack`.
    pub rivals: RivalMode,
    /// The agent that it makes way for.
    pub agent: GroupAgent,
}

impl Default for OwnOptions {
    /// A round a second, 2 GiB a second, standing back while others balance, and making way for the
    /// agent of [`GroupAgent::default`].
    fn default() -> Self {
        let usual = BalanceSettings::default();
        Self {
            interval: Duration::from_nanos(usual.interval_ns),
            budget_bytes_per_s: usual.process_budget_bytes_per_s,
            rivals: usual.rivals,
            agent: GroupAgent::default(),
        }
    }
}

/// The reasons for which there is no balancer in this process. Nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum StartFailure {
    /// An agent answers, or is there and may not be asked. Two balancers would work against each
    /// other.
    #[error("an agent answers already; make the groups there")]
    AgentAnswers,
    /// This process has a balancer.
    #[error("this process has a balancer already; use that, or drop it first")]
    HasOne,
    /// The machine cannot be read.
    #[error("this process cannot be balanced: {0}")]
    Machine(#[from] nodeward_machine::Error),
    /// The thread cannot be started.
    #[error(transparent)]
    Thread(#[from] nodeward::Error),
}

/// A balancer of this process's groups, with a thread of its own.
///
/// When it is dropped, the thread ends, within the move of one chunk; threads and memory stay where
/// they are. In a child of fork(2) there is no thread: calls there fail, dropping it does nothing,
/// and another one may be started.
#[derive(Debug)]
pub struct OwnBalancer {
    groups: Arc<OwnGroups>,
    thread: Option<JoinHandle<()>>,
    _right: OneEach,
}

impl OwnBalancer {
    /// Starts a balancer on this machine.
    ///
    /// # Errors
    /// If an agent answers, if this process has a balancer, or if the machine cannot be read.
    pub fn start(options: &OwnOptions) -> Result<Self, StartFailure> {
        Self::start_on(Arc::new(Linux::open_in_program()), options)
    }

    /// Starts a balancer on a machine that has this process.
    ///
    /// # Errors
    /// As [`OwnBalancer::start`].
    pub fn start_on(machine: Arc<dyn Machine>, options: &OwnOptions) -> Result<Self, StartFailure> {
        let right = OneEach::take().ok_or(StartFailure::HasOne)?;
        if answers(&options.agent) {
            return Err(StartFailure::AgentAnswers);
        }
        let pid = Pid::of_this_process();
        let key = (pid, machine.open_process(pid)?.identity()?.started_ticks);
        let wanted = ProcessFilter { pids: vec![pid], ..ProcessFilter::default() };
        let page_bytes = machine.page_bytes();
        let balancer = Balancer::new(machine, &wanted, settings(options), None)?;
        let shared = OwnShared::new(key, page_bytes, balancer.called_groups());
        let (shared, agent) = (Arc::new(shared), options.agent.clone());
        let work = Arc::clone(&shared);
        let run = move || rounds::run(&work, balancer, &agent);
        let thread = spawn_without_signals("nodeward-own".to_owned(), run)?;
        Ok(Self { groups: Arc::new(OwnGroups(shared)), thread: Some(thread), _right: right })
    }

    /// Returns whom to ask for groups: this balancer.
    pub fn agent(&self) -> GroupAgent {
        let groups = Arc::clone(&self.groups);
        GroupAgent::in_process(groups)
    }

    /// Returns what was done so far; in a child of fork(2) only that there is no balancer.
    pub fn status(&self) -> OwnStatus {
        let shared = &self.groups.0;
        match shared.is_here() {
            true => shared.lock().status.clone(),
            false => {
                let ended = Some("the balancer is that of the parent process".to_owned());
                OwnStatus { ended, ..OwnStatus::default() }
            }
        }
    }
}

impl Drop for OwnBalancer {
    fn drop(&mut self) {
        let shared = &self.groups.0;
        let Some(thread) = self.thread.take() else { return };
        if !shared.is_here() {
            // The thread is the parent's.
            return std::mem::forget(thread);
        }
        shared.lock().is_over = true;
        shared.live.stop();
        shared.wake.notify_all();
        let _ = thread.join();
    }
}

fn settings(options: &OwnOptions) -> BalanceSettings {
    let interval_ns = u64::try_from(options.interval.as_nanos()).unwrap_or(u64::MAX);
    BalanceSettings {
        interval_ns,
        budget_bytes_per_s: options.budget_bytes_per_s,
        process_budget_bytes_per_s: options.budget_bytes_per_s,
        user_budget_bytes_per_s: options.budget_bytes_per_s,
        rivals: options.rivals,
        access: AccessChoice::Off,
        groups_only: true,
        ..BalanceSettings::default()
    }
}
