//! What CPU time is spent for.

/// The purpose of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuTimeKind {
    /// The program itself.
    User,
    /// Page faults and freeing of memory.
    Fault,
    /// Unmapping pages, a step of a migration.
    Unmap,
    /// Flushing translations of other CPUs.
    Flush,
    /// Copying pages.
    Copy,
    /// Bringing pages back into sight.
    Map,
    /// Other kernel work.
    Kernel,
}

impl CpuTimeKind {
    /// All purposes.
    pub const ALL: [Self; 7] =
        [Self::User, Self::Fault, Self::Unmap, Self::Flush, Self::Copy, Self::Map, Self::Kernel];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Fault => "fault",
            Self::Unmap => "unmap",
            Self::Flush => "flush",
            Self::Copy => "copy",
            Self::Map => "map",
            Self::Kernel => "kernel",
        }
    }
}
