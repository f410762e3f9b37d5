//! Who has the kernel migrate pages, how many, and in what time.

use std::path::Path;

use aya::maps::{MapError, PerCpuArray, PerCpuHashMap};

use crate::program_set::{Absent, Attachment, Probe, ProgramSet};
use crate::unavailable::Unavailable;

/// The programs of `programs/migrations.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../objects/migrations.o");

/// The end of a call comes first: without it nothing is counted, and starts need not be kept.
const PROBES: &[Probe] = &[
    Probe {
        program: "migrate_end",
        at: Attachment::Tracepoint("mm_migrate_pages"),
        tells: "pages that are migrated",
    },
    Probe {
        program: "migrate_start",
        at: Attachment::Tracepoint("mm_migrate_pages_start"),
        tells: "time of a call",
    },
    Probe {
        program: "flush",
        at: Attachment::Tracepoint("tlb_flush"),
        tells: "TLB flushes of other CPUs",
    },
];

/// Why the kernel migrates pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MigrationReason {
    /// A reason that is none of these.
    Other,
    /// Compaction.
    Compaction,
    /// Memory with errors.
    MemoryFailure,
    /// Memory that goes offline.
    Hotplug,
    /// migrate_pages(2), move_pages(2) or cpusets.
    SystemCall,
    /// mbind(2).
    Mbind,
    /// NUMA balancing.
    NumaBalancing,
    /// A contiguous range is allocated.
    ContiguousRange,
    /// Pages are pinned for long.
    LongtermPin,
    /// Reclaim moves pages to a slower node.
    Demotion,
    /// DAMON.
    Damon,
}

impl MigrationReason {
    /// In the order of `enum reason` of the program.
    const ALL: [Self; 11] = [
        Self::Other,
        Self::Compaction,
        Self::MemoryFailure,
        Self::Hotplug,
        Self::SystemCall,
        Self::Mbind,
        Self::NumaBalancing,
        Self::ContiguousRange,
        Self::LongtermPin,
        Self::Demotion,
        Self::Damon,
    ];

    fn from_number(number: u64) -> Self {
        let at = usize::try_from(number).ok().and_then(|at| Self::ALL.get(at).copied());
        at.unwrap_or(Self::Other)
    }
}

/// A process that has pages migrated, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageMover {
    /// Why.
    pub reason: MigrationReason,
    /// Its process, 0 for the idle task.
    pub pid: u32,
    /// The name of its thread: bytes that others chose.
    pub thread_name: Vec<u8>,
}

impl PageMover {
    /// Reads `struct mover` of the program.
    fn from_words(words: [u64; 3]) -> Self {
        let name = [words[1].to_ne_bytes(), words[2].to_ne_bytes()].concat();
        let thread_name = name.into_iter().take_while(|byte| *byte != 0).collect();
        let (reason, pid) = match words[0].to_ne_bytes() {
            [a, b, c, d, e, f, g, h] => {
                (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
            }
        };
        Self { reason: MigrationReason::from_number(u64::from(reason)), pid, thread_name }
    }
}

/// What a mover did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationCounts {
    /// Calls of the kernel's migrate_pages().
    pub calls: u64,
    /// Base pages that arrived.
    pub succeeded: u64,
    /// Base pages that stayed.
    pub failed: u64,
    /// Nanoseconds of the calls whose start was seen.
    pub ns: u64,
    /// Nanoseconds of the longest of them.
    pub ns_max: u64,
    /// TLB flushes of other CPUs in these calls.
    pub flushes: u64,
    /// Calls whose start was seen.
    pub timed: u64,
}

impl MigrationCounts {
    /// Adds what each CPU counted, as `struct counts` of the program.
    fn sum<'a>(cpus: impl IntoIterator<Item = &'a [u64; 7]>) -> Self {
        cpus.into_iter().fold(Self::default(), |sum, cpu| {
            let [calls, succeeded, failed, ns, ns_max, flushes, timed] = *cpu;
            Self {
                calls: sum.calls + calls,
                succeeded: sum.succeeded + succeeded,
                failed: sum.failed + failed,
                ns: sum.ns + ns,
                ns_max: sum.ns_max.max(ns_max),
                flushes: sum.flushes + flushes,
                timed: sum.timed + timed,
            }
        })
    }
}

/// What was counted since the programs were attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedMigrations {
    /// Each mover, in order of reason and pid.
    pub movers: Vec<(PageMover, MigrationCounts)>,
    /// Calls that are in none of them, because the map of movers was full.
    pub lost_calls: u64,
    /// Calls whose time is not known, because the map of calls was full.
    pub lost_starts: u64,
}

/// MigrationCounts migrations while it lives.
pub struct MigrationCounter {
    programs: ProgramSet,
}

impl MigrationCounter {
    /// Starts to count, on the machine whose files are below `root`.
    ///
    /// # Errors
    ///
    /// No program can be loaded.
    pub fn start(root: &Path) -> Result<Self, Unavailable> {
        Ok(Self { programs: ProgramSet::load(OBJECT, PROBES, &[], root)? })
    }

    /// Returns what cannot be told, and why.
    pub fn absent(&self) -> &[Absent] {
        self.programs.absent()
    }

    /// Returns what was counted.
    ///
    /// # Errors
    ///
    /// A map cannot be read.
    pub fn read(&self) -> Result<CountedMigrations, MapError> {
        let map = PerCpuHashMap::<_, [u64; 3], [u64; 7]>::try_from(self.programs.map("movers"))?;
        let mut movers = Vec::new();
        for entry in map.iter() {
            let (mover, cpus) = entry?;
            movers.push((PageMover::from_words(mover), MigrationCounts::sum(cpus.iter())));
        }
        movers.sort_by(|(one, _), (other, _)| one.cmp(other));
        let lost = PerCpuArray::<_, u64>::try_from(self.programs.map("lost"))?;
        let lost = |at| lost.get(&at, 0).map(|cpus| cpus.iter().sum());
        Ok(CountedMigrations { movers, lost_calls: lost(0)?, lost_starts: lost(1)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a mover is read from the bytes that the program writes: reason 6, process 77, and a
    /// name of 15 bytes that need not be text.
    #[test]
    fn a_mover_is_read_from_its_words() {
        let first = (77_u64 << 32) | 6;
        let name = *b"\xff\x1b[2Jnodeward-x\0";
        let (low, high) = name.split_at(8);
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
        let first = match cfg!(target_endian = "little") {
            true => first,
            false => first.rotate_left(32),
        };
        let mover = PageMover::from_words([first, word(low), word(high)]);
        assert_eq!((mover.reason, mover.pid), (MigrationReason::NumaBalancing, 77));
        assert_eq!(mover.thread_name, name[..15]);
    }

    /// Goal: a reason of a later program is `Other`, not a panic.
    #[test]
    fn an_unknown_reason_is_another_one() {
        assert_eq!(MigrationReason::from_number(10), MigrationReason::Damon);
        assert_eq!(MigrationReason::from_number(11), MigrationReason::Other);
        assert_eq!(MigrationReason::from_number(u64::MAX), MigrationReason::Other);
    }

    /// Goal: counts of CPUs add up; of longest times the longest stays.
    #[test]
    fn counts_of_cpus_add_up() {
        let sum = MigrationCounts::sum(&[[1, 512, 0, 900, 900, 2, 1], [2, 7, 3, 500, 400, 1, 2]]);
        let expected = MigrationCounts {
            calls: 1 + 2,
            succeeded: 512 + 7,
            failed: 3,
            ns: 900 + 500,
            ns_max: 900,
            flushes: 2 + 1,
            timed: 1 + 2,
        };
        assert_eq!(sum, expected);
    }
}
