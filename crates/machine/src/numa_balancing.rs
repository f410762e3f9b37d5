//! The switch of the kernel's own NUMA balancing.

use crate::Result;

/// The switch, held by one process at a time. Dropping it lets go of it and changes nothing.
pub trait NumaBalancingSwitch: Send {
    /// Returns the boot of the machine, which no other boot of any machine has.
    fn boot_id(&self) -> &str;

    /// Returns the mode as kernel.numa_balancing has it; 0 is off.
    fn mode(&self) -> Result<u32>;

    /// Sets the mode.
    ///
    /// # Errors
    /// `Denied` if the caller may not, with the remedy.
    fn set_mode(&self, mode: u32) -> Result<()>;
}
