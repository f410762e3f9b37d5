//! How far allocations of a CPU run ahead of its frees, and frees ahead of allocations, in each
//! period; and how often the CPU visits a zone.

use std::path::Path;

use aya::maps::{Array, MapError, PerCpuArray};
use aya::programs::ProgramError;

use crate::program_set::{Absent, Attachment, Probe, ProgramSet};
use crate::unavailable::Unavailable;

/// The programs of `programs/page_lists.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../objects/page_lists.o");

/// Depths take the first two.
pub const PROBES: &[Probe] = &[
    Probe {
        program: "page_alloc",
        at: Attachment::Tracepoint("mm_page_alloc"),
        tells: "pages that are allocated",
    },
    Probe {
        program: "page_free",
        at: Attachment::Tracepoint("mm_page_free"),
        tells: "pages that are freed",
    },
    Probe {
        program: "page_free_batched",
        at: Attachment::Tracepoint("mm_page_free_batched"),
        tells: "visits of zones by frees of many pages",
    },
    Probe {
        program: "zone_to_list",
        at: Attachment::Tracepoint("mm_page_alloc_zone_locked"),
        tells: "visits of zones to fill a list",
    },
    Probe {
        program: "list_to_zone",
        at: Attachment::Tracepoint("mm_page_pcpu_drain"),
        tells: "visits of zones to give pages back",
    },
];

/// The words of `struct cpu` in the program: four, and twice the ten of `struct counts`.
const CPU_WORDS: usize = 4 + 2 * COUNT_WORDS;
const COUNT_WORDS: usize = 10;

/// Which blocks of pages go through page lists, in this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOrders {
    /// Blocks of up to 2^largest pages do.
    pub largest: u32,
    /// Blocks of 2^huge pages do, too.
    pub huge: Option<u32>,
}

impl ListOrders {
    /// Returns the constants of the program.
    pub fn constants(self) -> [(&'static str, u32); 2] {
        // Blocks of one page always go through lists: 0 adds nothing.
        [("largest_order", self.largest), ("huge_order", self.huge.unwrap_or(0))]
    }
}

/// What one CPU did in one period, in base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodCounts {
    /// Allocated pages minus freed pages at the end of the period.
    pub balance: i64,
    /// The largest balance in it, which began with 0.
    pub highest: i64,
    /// The smallest one.
    pub lowest: i64,
    /// The largest rise of the balance.
    pub alloc_depth: i64,
    /// The largest fall.
    pub free_depth: i64,
    /// Pages that were allocated.
    pub allocated: u64,
    /// Pages that were freed.
    pub freed: u64,
    /// Visits of a zone to fill a list.
    pub refills: u64,
    /// Visits of a zone to give pages back.
    pub drains: u64,
}

/// What was counted in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedPeriod {
    /// By CPU, as far as the kernel can have CPUs; one that did nothing has zeros.
    pub cpus: Vec<PeriodCounts>,
    /// Events since the start that were not counted, because they interrupted the count of another.
    pub missed: u64,
}

impl CountedPeriod {
    /// Reads what each CPU has in its map about a period.
    pub fn of(period: u64, cpus: &[[u64; CPU_WORDS]]) -> Self {
        let missed = cpus.iter().map(|cpu| cpu[1]).fold(0, u64::saturating_add);
        let first = 4 + COUNT_WORDS * usize::from(period % 2 == 1);
        let counts = |cpu: &[u64; CPU_WORDS]| PeriodCounts::of(period, &cpu[first..]);
        Self { cpus: cpus.iter().map(counts).collect(), missed }
    }
}

impl PeriodCounts {
    /// Reads `struct counts`; what is of an earlier period is zeros.
    fn of(period: u64, words: &[u64]) -> Self {
        let signed = |at: usize| words[at].cast_signed();
        if words[0] != period {
            return Self::default();
        }
        Self {
            balance: signed(1),
            highest: signed(2),
            lowest: signed(3),
            alloc_depth: signed(4),
            free_depth: signed(5),
            allocated: words[6],
            freed: words[7],
            refills: words[8],
            drains: words[9],
        }
    }

    /// Returns whether the CPU neither allocated nor freed a page.
    pub fn is_idle(&self) -> bool {
        self.allocated == 0 && self.freed == 0
    }

    /// Returns all visits of zones.
    pub fn visits(&self) -> u64 {
        self.refills.saturating_add(self.drains)
    }
}

/// Counts while it lives.
pub struct DepthCounter {
    programs: ProgramSet,
    period: u64,
}

impl DepthCounter {
    /// Starts to count, on the machine whose files are below `root`. The first period begins.
    ///
    /// # Errors
    ///
    /// No program can be loaded.
    pub fn start(root: &Path, orders: ListOrders) -> Result<Self, Unavailable> {
        let programs = ProgramSet::load(OBJECT, PROBES, &orders.constants(), root)?;
        Ok(Self { programs, period: 0 })
    }

    /// Returns what cannot be told, and why.
    pub fn absent(&self) -> &[Absent] {
        self.programs.absent()
    }

    /// Returns a program without which there are no depths, if it does not run.
    pub fn missing(&self) -> Option<&Absent> {
        self.absent().iter().find(|absent| PROBES[..2].contains(absent.probe))
    }

    /// Ends the period, and begins the next one.
    ///
    /// # Errors
    ///
    /// A map cannot be read or written.
    pub fn end_period(&mut self) -> Result<CountedPeriod, MapError> {
        let ended = self.period;
        begin_period(&mut self.programs, ended + 1)?;
        self.period += 1;
        counted(&self.programs, ended)
    }

    /// Counts nothing until [`DepthCounter::resume`].
    ///
    /// # Errors
    ///
    /// A program stays attached.
    pub fn rest(&mut self) -> Result<(), ProgramError> {
        self.programs.detach()
    }

    /// Counts again, if it rested. A period begins.
    ///
    /// # Errors
    ///
    /// A program cannot be attached, or a map not be written.
    pub fn resume(&mut self) -> Result<(), Unavailable> {
        self.period += 1;
        begin_period(&mut self.programs, self.period)?;
        Ok(self.programs.attach_again()?)
    }

    /// Returns whether this thread can do all that. Otherwise the counter may be at rest.
    pub fn is_usable(&mut self) -> bool {
        self.rest().is_ok() && self.resume().is_ok() && self.end_period().is_ok()
    }
}

/// Begins a period of one of the objects here.
///
/// # Errors
///
/// The map cannot be written.
pub fn begin_period(programs: &mut ProgramSet, period: u64) -> Result<(), MapError> {
    Array::<_, u64>::try_from(programs.map_mut("periods"))?.set(0, period, 0)
}

/// Returns what was counted in a period that has ended.
///
/// # Errors
///
/// The map cannot be read.
pub fn counted(programs: &ProgramSet, period: u64) -> Result<CountedPeriod, MapError> {
    let cpus = PerCpuArray::<_, [u64; CPU_WORDS]>::try_from(programs.map("cpus"))?;
    Ok(CountedPeriod::of(period, &cpus.get(&0, 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a CPU that has these counts of two periods.
    fn words(periods: [u64; 2]) -> [u64; CPU_WORDS] {
        let mut words = [0; CPU_WORDS];
        words[1] = 3;
        for (at, period) in periods.into_iter().enumerate() {
            let first = 4 + at * COUNT_WORDS;
            words[first] = period;
            for (word, value) in words[first + 1..][..COUNT_WORDS - 1].iter_mut().zip(1..) {
                *word = 100 * period + value;
            }
            words[first + 3] = (-5_i64).cast_unsigned();
        }
        words
    }

    /// Goal: of two periods that follow one another the right one is read, with its sign; missed
    /// events of all CPUs add up.
    #[test]
    fn a_period_is_read_from_its_words() {
        let counted = CountedPeriod::of(7, &[words([6, 7]), words([8, 7])]);
        let expected = PeriodCounts {
            balance: 701,
            highest: 702,
            lowest: -5,
            alloc_depth: 704,
            free_depth: 705,
            allocated: 706,
            freed: 707,
            refills: 708,
            drains: 709,
        };
        assert_eq!(counted, CountedPeriod { cpus: vec![expected; 2], missed: 6 });
        assert_eq!(counted.cpus[0].visits(), 708 + 709);
    }

    /// Goal: a CPU that did nothing in a period has still the words of an earlier one, and counts
    /// as idle.
    #[test]
    fn an_old_period_is_no_count() {
        let counted = CountedPeriod::of(9, &[words([6, 7])]);
        assert_eq!(counted.cpus, [PeriodCounts::default()]);
        assert!(counted.cpus[0].is_idle());
    }

    /// Goal: a kernel without lists for huge pages leaves their order out.
    #[test]
    fn orders_are_constants() {
        let constants = |largest, huge| ListOrders { largest, huge }.constants();
        assert_eq!(constants(3, Some(9)), [("largest_order", 3), ("huge_order", 9)]);
        assert_eq!(constants(0, None), [("largest_order", 0), ("huge_order", 0)]);
    }
}
