//! The switch of the kernel's NUMA balancing on the fake machine.

use std::sync::{Arc, Mutex};

use nodeward_model::OtherBalancer;

use super::lock::lock;
use crate::{Error, NumaBalancingSwitch, Result};

/// The kernel's NUMA balancing. Tests write it.
#[derive(Clone, Debug)]
pub struct FakeNumaBalancing {
    /// Its mode; `None` if the kernel has none.
    pub mode: Option<u32>,
    /// The boot of the machine.
    pub boot_id: String,
    /// Whether a process holds the switch.
    pub is_held: bool,
    /// The advice in the `Denied` error of a caller that may not open the switch; `None` permits
    /// it.
    pub denied: Option<String>,
    /// The same of a caller that may open the switch, and may not change it.
    pub change_denied: Option<String>,
}

impl Default for FakeNumaBalancing {
    fn default() -> Self {
        Self {
            mode: None,
            boot_id: "paper".to_owned(),
            is_held: false,
            denied: None,
            change_denied: None,
        }
    }
}

impl FakeNumaBalancing {
    /// Returns it as another balancer sees it.
    pub(super) fn rival(&self) -> Option<OtherBalancer> {
        self.mode.filter(|&mode| mode != 0).map(|mode| OtherBalancer::Kernel { mode })
    }
}

/// Holds the switch; `None` if a process does already.
pub(super) fn hold(
    shared: &Arc<Mutex<FakeNumaBalancing>>,
) -> Result<Option<Box<dyn NumaBalancingSwitch>>> {
    let mut balancing = lock(shared);
    if balancing.mode.is_none() {
        let reason = "this kernel has none".to_owned();
        return Err(Error::Unsupported { action: SWITCHING, reason });
    }
    balancing.denied.clone().map_or(Ok(()), denied)?;
    if std::mem::replace(&mut balancing.is_held, true) {
        return Ok(None);
    }
    let boot_id = balancing.boot_id.clone();
    Ok(Some(Box::new(FakeSwitch { balancing: Arc::clone(shared), boot_id })))
}

const SWITCHING: &str = "switching the kernel's NUMA balancing";

fn denied(remedy: String) -> Result<()> {
    Err(Error::Denied { action: SWITCHING.to_owned(), remedy })
}

struct FakeSwitch {
    balancing: Arc<Mutex<FakeNumaBalancing>>,
    boot_id: String,
}

impl NumaBalancingSwitch for FakeSwitch {
    fn boot_id(&self) -> &str {
        &self.boot_id
    }

    fn mode(&self) -> Result<u32> {
        Ok(lock(&self.balancing).mode.unwrap_or(0))
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        let mut balancing = lock(&self.balancing);
        balancing.change_denied.clone().map_or(Ok(()), denied)?;
        balancing.mode = Some(mode);
        Ok(())
    }
}

impl Drop for FakeSwitch {
    fn drop(&mut self) {
        lock(&self.balancing).is_held = false;
    }
}
