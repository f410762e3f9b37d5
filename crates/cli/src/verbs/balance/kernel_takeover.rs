//! `--rivals take-over`: the kernel's NUMA balancing is off while the balancer runs.

use std::sync::Arc;

use anyhow::Result;
use nodeward_balancer::{BalanceSettings, Begun, Ended, RivalMode, Takeover};
use nodeward_machine::Machine;
use nodeward_records::state::StateFile;

/// The kernel's balancing, as the settings want it. At the end it is what it was before.
pub struct KernelTakeover {
    machine: Arc<dyn Machine>,
    /// The record; `None` without a state directory of our own.
    record: Option<StateFile>,
    taken: Option<Takeover>,
}

impl KernelTakeover {
    /// Creates it, and restores what a balancer that was killed left off.
    pub fn new(machine: Arc<dyn Machine>, record: Option<StateFile>) -> Self {
        if let Some(record) = &record {
            recover(&*machine, record);
        }
        Self { machine, record, taken: None }
    }

    /// Takes over, or gives back, as the settings want it.
    ///
    /// # Errors
    /// If the kernel's balancing cannot be switched, or its mode cannot be recorded; then nothing
    /// was changed.
    pub fn apply(&mut self, settings: &BalanceSettings) -> Result<()> {
        let is_wanted = settings.act && settings.rivals == RivalMode::TakeOver;
        match (is_wanted, &self.taken) {
            (true, None) => self.begin(),
            (true, Some(_)) => Ok(()),
            (false, _) => {
                self.end();
                Ok(())
            }
        }
    }

    fn begin(&mut self) -> Result<()> {
        match Takeover::begin(&*self.machine, self.record.clone())? {
            Begun::WasOff => {}
            Begun::HeldByOther => {
                say!("nodeward: another process has taken the kernel's NUMA balancing over");
            }
            Begun::Taken(taken) => {
                say!(
                    "nodeward: the kernel's NUMA balancing is off for as long as this runs \
                     (kernel.numa_balancing was {})",
                    taken.mode()
                );
                self.taken = Some(taken);
            }
        }
        Ok(())
    }

    /// Restores what was switched off, and tells what came of it.
    pub fn end(&mut self) {
        match self.taken.take().map(Takeover::end) {
            None => {}
            Some(Ok(ended)) => report(ended),
            Some(Err(error)) => say!(
                "nodeward: the kernel's NUMA balancing stays off until the next start of nodeward \
                 balance: {:#}",
                anyhow::Error::new(error)
            ),
        }
    }
}

impl Drop for KernelTakeover {
    fn drop(&mut self) {
        self.end();
    }
}

/// Restores what a balancer left off when it was killed.
fn recover(machine: &dyn Machine, record: &StateFile) {
    match Takeover::recover(machine, record.clone()) {
        Ok(None | Some(Ended::OfEarlierBoot)) => {}
        Ok(Some(ended)) => {
            say!(
                "nodeward: a balancer that had switched the kernel's NUMA balancing off was killed"
            );
            report(ended);
        }
        Err(error) => say!(
            "nodeward: whether a balancer that was killed left the kernel's NUMA balancing off is \
             not known: {:#}",
            anyhow::Error::new(error)
        ),
    }
}

fn report(ended: Ended) {
    match ended {
        Ended::Restored(mode) => {
            say!(
                "nodeward: the kernel's NUMA balancing is on again (kernel.numa_balancing={mode})"
            );
        }
        Ended::Changed(mode) => {
            say!("nodeward: somebody set kernel.numa_balancing={mode} meanwhile; it stays so");
        }
        Ended::HeldByOther => {
            say!("nodeward: another process has taken it over since, and will restore it");
        }
        Ended::OfEarlierBoot => {}
    }
}
