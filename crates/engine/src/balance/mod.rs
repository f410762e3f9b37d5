//! A balancer: rounds of looking, deciding and acting that keep processes at home, on any machine.

mod events;
mod memory;
mod report;
mod settings;

use std::sync::Arc;

use nodeward_machine::{Machine, Result, Watch};
use nodeward_model::{Pid, Wanted};

pub use events::{Event, Host};
pub use memory::{Keep, Known, MEMORY_VERSION, Memory, state_file};
pub use report::{Cost, Done, News, ProcessRow, RoundReport, Short};
pub use settings::{BalanceSettings, OnRivals};

use crate::Live;

/// A balancer and all that it remembers between rounds.
pub struct Balancer {
    machine: Arc<dyn Machine>,
    watch: Box<dyn Watch>,
    settings: BalanceSettings,
    memory: Memory,
    keep: Option<Keep>,
    last: Option<RoundReport>,
}

impl Balancer {
    /// A balancer of these processes, which goes on with what an earlier one remembered.
    ///
    /// # Errors
    /// If the processes cannot be watched.
    pub fn new(
        machine: Arc<dyn Machine>,
        wanted: Wanted,
        settings: BalanceSettings,
        memory: Option<Memory>,
    ) -> Result<Self> {
        let watch = machine.watch(&wanted)?;
        let memory = memory.unwrap_or_default();
        Ok(Self { machine, watch, settings, memory, keep: None, last: None })
    }

    /// Writes down from now on what is learnt and moved.
    pub fn keep(&mut self, keep: Keep) {
        self.keep = Some(keep);
    }

    /// Goes on with other processes or settings.
    ///
    /// # Errors
    /// If the processes cannot be watched; everything then stays as it was.
    pub fn reload(&mut self, wanted: Wanted, settings: BalanceSettings) -> Result<()> {
        self.watch = self.machine.watch(&wanted)?;
        self.settings = settings;
        Ok(())
    }

    /// Looks, decides, acts, and looks at what came of it.
    ///
    /// # Errors
    /// Only if the machine as a whole cannot be looked at.
    pub fn round(&mut self, _live: &Live) -> Result<RoundReport> {
        let report = RoundReport::default();
        self.last = Some(report.clone());
        Ok(report)
    }

    /// What the last round saw of a process, would do or did with it, and why.
    pub fn explain(&self, pid: Pid) -> Option<&ProcessRow> {
        self.last.as_ref()?.processes.iter().find(|row| row.pid == pid)
    }

    /// Looks into this process before others, whatever that costs.
    pub fn look_first(&mut self, _pid: Pid) {}

    /// What it would go on with.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    fn now_ns(&self) -> u64 {
        self.machine.now_ns()
    }

    fn sleep_ns(&self, ns: u64) {
        self.machine.sleep_ns(ns);
    }
}
