//! The takeover of the kernel's NUMA balancing: it is off as long as the balancer runs, and then
//! what it was before.
//!
//! ```text
//! hold the switch -> write the record -> switch off ... restore the mode -> remove the record
//! ```
//!
//! A kill anywhere leaves a record of what is to be restored, or nothing to restore. The next start
//! restores it, in the same boot. Whoever switches the balancing on meanwhile has the last word.

use std::path::PathBuf;

use nodeward_machine::{Error, Machine, NumaBalancingSwitch};
use nodeward_model::OtherBalancer;
use nodeward_records::state::{StateError, StateFile};
use serde::{Deserialize, Serialize};

const OFF: u32 = 0;
/// The version of the record. It is raised whenever its fields change.
const RECORD_VERSION: u32 = 2;

/// The record of a takeover: the mode that is to be restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TakeoverRecord {
    /// The boot of the machine: the next one begins with a mode of its own.
    boot: String,
    /// The mode before the takeover.
    mode: u32,
}

/// The reasons for which the kernel's balancing was not switched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeoverError {
    /// The switch cannot be used.
    #[error("the kernel's NUMA balancing cannot be taken over")]
    Switch(#[from] Error),
    /// The record cannot be written, read or removed.
    #[error("the record of what the kernel's NUMA balancing was before cannot be used")]
    Record(#[from] StateError),
    /// There is no place for the record.
    #[error(
        "taking the kernel's NUMA balancing over needs a state directory that is ours, for a \
         record of what to restore; choose one by NODEWARD_STATE_DIR"
    )]
    NoRecord,
}

/// The kernel's balancing is off, because we switched it off. Dropping this restores the mode.
pub struct Takeover {
    switch: Box<dyn NumaBalancingSwitch>,
    record: StateFile,
    mode: u32,
    is_over: bool,
}

/// The result of the beginning of a takeover.
pub enum Begun {
    /// The kernel's balancing was off before.
    WasOff,
    /// Another process holds the switch.
    HeldByOther,
    /// The kernel's balancing is off now.
    Taken(Takeover),
}

/// The result of the end of a takeover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The kernel's balancing has this mode again.
    Restored(u32),
    /// Another program set this mode meanwhile; it stands.
    Changed(u32),
    /// Another process holds the switch; the record waits for the next start.
    HeldByOther,
    /// The kernel's balancing was switched off in an earlier boot.
    OfEarlierBoot,
}

/// The file of the record at a path.
pub fn takeover_file(path: PathBuf) -> StateFile {
    StateFile::new(path, RECORD_VERSION)
}

impl Takeover {
    /// Switches the kernel's balancing off, if it is on.
    ///
    /// # Errors
    /// If it cannot be switched, or the record cannot be written; then all is as it was.
    pub fn begin(machine: &dyn Machine, record: Option<StateFile>) -> Result<Begun, TakeoverError> {
        let is_kernel = |rival: &OtherBalancer| matches!(rival, OtherBalancer::Kernel { .. });
        if !machine.other_balancers()?.iter().any(is_kernel) {
            return Ok(Begun::WasOff);
        }
        let Some(switch) = machine.hold_numa_balancing()? else { return Ok(Begun::HeldByOther) };
        let (mode, record) = (switch.mode()?, record.ok_or(TakeoverError::NoRecord)?);
        record.write(&TakeoverRecord { boot: switch.boot_id().to_owned(), mode })?;
        let taken = Self { switch, record, mode, is_over: false };
        taken.switch.set_mode(OFF)?; // else dropping it removes the record
        Ok(Begun::Taken(taken))
    }

    /// Restores the mode that a balancer left off when it was killed; `None` if none did.
    ///
    /// # Errors
    /// If the record cannot be read, or the mode cannot be set.
    pub fn recover(
        machine: &dyn Machine,
        record: StateFile,
    ) -> Result<Option<Ended>, TakeoverError> {
        let Some(TakeoverRecord { boot, mode }) = record.read()? else { return Ok(None) };
        let Some(switch) = machine.hold_numa_balancing()? else {
            return Ok(Some(Ended::HeldByOther));
        };
        if switch.boot_id() != boot {
            record.remove()?;
            return Ok(Some(Ended::OfEarlierBoot));
        }
        Self { switch, record, mode, is_over: false }.end().map(Some)
    }

    /// Returns the mode before the takeover.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Restores the mode, unless another program set one meanwhile.
    ///
    /// # Errors
    /// If it cannot be set; the record then stays for the next start.
    pub fn end(mut self) -> Result<Ended, TakeoverError> {
        self.restore()
    }

    fn restore(&mut self) -> Result<Ended, TakeoverError> {
        self.is_over = true;
        let ended = match self.switch.mode()? {
            OFF => {
                self.switch.set_mode(self.mode)?;
                Ended::Restored(self.mode)
            }
            mode => Ended::Changed(mode),
        };
        self.record.remove()?;
        Ok(ended)
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        if !self.is_over
            && let Err(error) = self.restore()
        {
            tracing::warn!(%error, "the kernel's NUMA balancing stays off");
        }
    }
}
