//! What a task does next.

use nodeward_scenario::AccessPattern;

use crate::memory::GranuleRange;
use crate::statistics::CpuTimeKind;

/// Cache lines that a program requests. They miss the caches unless these hold the part.
#[derive(Clone, Copy, Debug)]
pub struct LineAccess {
    /// The memory.
    pub range: GranuleRange,
    /// Remaining lines.
    pub lines: u64,
    /// Properties of the accesses.
    pub pattern: AccessPattern,
    /// Whether the lines are used repeatedly. A part that fits the cache is then found there.
    pub reused: bool,
}

/// Memory that the kernel copies from one node to another. Kernel work is not interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineCopy {
    /// The index of the source node.
    pub from: usize,
    /// The index of the destination node.
    pub to: usize,
    /// Remaining cache lines.
    pub lines: u64,
}

/// The work of one copier, by source node; the last element is copied first.
pub type CopyPart = Vec<LineCopy>;

/// An operation of a task.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Uses a CPU for a time, in nanoseconds of an idle core. Kernel work is not interrupted.
    Busy(CpuTimeKind, u64),
    /// Goes through memory.
    Access(LineAccess),
    /// Copies memory in the kernel.
    Copy(LineCopy),
    /// Waits until woken.
    Wait,
    /// Sleeps until this virtual time.
    Sleep(u64),
    /// Ends the task.
    Exit,
}
