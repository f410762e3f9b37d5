//! The sysctl kernel.numa_balancing, which switches the kernel's NUMA balancing.

use std::path::Path;

use nodeward_machine::{NumaBalancingSwitch, Result};

use crate::sysctl::{HeldSysctl, Sysctl};

const SYSCTL: Sysctl = Sysctl {
    name: "kernel.numa_balancing",
    action: "switching the kernel's NUMA balancing",
    missing: "this kernel has none (CONFIG_NUMA_BALANCING)",
};

/// Returns the mode; `None` if the kernel has no such balancing (`CONFIG_NUMA_BALANCING`).
pub fn mode(root: &Path) -> Option<u32> {
    SYSCTL.read(root).ok().flatten()
}

/// Holds the switch; `None` if another process does.
///
/// # Errors
/// `Denied` if the file may not be written, `Unsupported` if there is none.
pub fn hold(root: &Path) -> Result<Option<SysctlSwitch>> {
    Ok(SYSCTL.hold(root)?.map(SysctlSwitch))
}

/// The switch, held.
#[derive(Debug)]
pub struct SysctlSwitch(HeldSysctl);

impl NumaBalancingSwitch for SysctlSwitch {
    fn boot_id(&self) -> &str {
        self.0.boot_id()
    }

    fn mode(&self) -> Result<u32> {
        self.0.value()
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        self.0.set(mode)
    }
}
