//! Who has the kernel migrate pages, how many, in what time, and for how long pages are held.

use std::path::Path;

use aya::maps::{HashMap, MapError, PerCpuArray, PerCpuHashMap};

use crate::kernel_types::KernelTypes;
use crate::probe::{Absent, Attachment, Probe};
use crate::program_set::ProgramSet;
use crate::time_histogram::{BUCKETS, TimeHistogram};
use crate::unavailable::Unavailable;

/// The programs of `programs/migrations.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../objects/migrations.o");

/// The processes that can be watched at a time.
pub const PIDS_MAX: usize = 1024;
/// Reasons that are told apart, by their numbers; the last slot has all from there on.
const REASONS: usize = 16;
/// Fields of `struct counts` before its buckets.
const FIELDS: usize = 10;

const HOLDS: &str = "time for which pages are held";
const HUGE_HOLDS: &str = "time for which huge pages are held as a whole";
const RECORD: &str = "trace_event_raw_mm_migrate_pages";

const fn probe(program: &'static str, tracepoint: &'static str, tells: &'static str) -> Probe {
    Probe { program, at: Attachment::Tracepoint(tracepoint), tells }
}

/// The end of a call comes first: without it nothing is counted, and starts need not be kept. A
/// release comes before its hold: without it a hold need not be kept.
const PROBES: &[Probe] = &[
    probe("migrate_end", "mm_migrate_pages", "pages that are migrated"),
    probe("release_pte", "remove_migration_pte", HOLDS),
    probe("hold_pte", "set_migration_pte", HOLDS),
    probe("release_pmd", "remove_migration_pmd", HUGE_HOLDS),
    probe("hold_pmd", "set_migration_pmd", HUGE_HOLDS),
    probe("migrate_start", "mm_migrate_pages_start", "time of calls"),
    probe("tlb_flush", "tlb_flush", "TLB flushes"),
];

/// A process that has the kernel migrate pages, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MigrationCaller {
    /// Number of the reason.
    reason: u32,
    /// Its pid, 0 for the idle task.
    pub pid: u32,
    /// The name of its thread: bytes that others chose.
    pub thread_name: Vec<u8>,
}

impl MigrationCaller {
    /// Reads `struct caller` of the program.
    fn from_words(words: [u64; 3]) -> Self {
        let name = [words[1].to_ne_bytes(), words[2].to_ne_bytes()].concat();
        let thread_name = name.into_iter().take_while(|byte| *byte != 0).collect();
        let (reason, pid) = match words[0].to_ne_bytes() {
            [a, b, c, d, e, f, g, h] => {
                (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
            }
        };
        Self { reason, pid, thread_name }
    }
}

/// What one caller did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallerCounts {
    /// Calls of the kernel's migrate_pages().
    pub calls: u64,
    /// Base pages that arrived.
    pub succeeded: u64,
    /// Base pages that stayed.
    pub failed: u64,
}

impl CallerCounts {
    fn since(self, earlier: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            succeeded: self.succeeded.saturating_sub(earlier.succeeded),
            failed: self.failed.saturating_sub(earlier.failed),
        }
    }
}

/// Huge pages (THP), each counted as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThpCounts {
    /// Those that arrived.
    pub succeeded: u64,
    /// Those that stayed.
    pub failed: u64,
    /// Those of either that were split for it.
    pub split: u64,
}

/// What was done for one reason. What this kernel does not tell is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationCounts {
    /// Name of the reason: the kernel's enumerator without `MR_`, in small letters.
    pub reason: String,
    /// Calls and pages.
    pub all: CallerCounts,
    /// Huge pages among them.
    pub thp: Option<ThpCounts>,
    /// Large folios that were split, huge pages included.
    pub large_folio_splits: Option<u64>,
    /// Nanoseconds in calls.
    pub call_ns: Option<u64>,
    /// Times that other CPUs, all of them at once, were asked to flush their TLBs.
    pub tlb_flushes: Option<u64>,
    /// The time for which a page table had a migration entry in place of a page, for each entry.
    pub holds: Option<TimeHistogram>,
    /// The callers, by pid.
    pub callers: Vec<(MigrationCaller, CallerCounts)>,
}

impl MigrationCounts {
    /// Returns what came after `earlier`, an earlier state of the same counts.
    fn since(&self, earlier: &Self) -> Self {
        let known = |caller| earlier.callers.iter().find(|(it, _)| it == caller);
        let callers = self.callers.iter().map(|(caller, now)| {
            let then = known(caller).map_or_else(CallerCounts::default, |(_, then)| *then);
            (caller.clone(), now.since(then))
        });
        Self {
            reason: self.reason.clone(),
            all: self.all.since(earlier.all),
            thp: difference(self.thp, earlier.thp, ThpCounts::since),
            large_folio_splits: difference(
                self.large_folio_splits,
                earlier.large_folio_splits,
                u64::saturating_sub,
            ),
            call_ns: difference(self.call_ns, earlier.call_ns, u64::saturating_sub),
            tlb_flushes: difference(self.tlb_flushes, earlier.tlb_flushes, u64::saturating_sub),
            holds: difference(self.holds.as_ref(), earlier.holds.as_ref(), TimeHistogram::since),
            callers: callers.filter(|(_, counts)| *counts != CallerCounts::default()).collect(),
        }
    }
}

impl ThpCounts {
    fn since(self, earlier: Self) -> Self {
        Self {
            succeeded: self.succeeded.saturating_sub(earlier.succeeded),
            failed: self.failed.saturating_sub(earlier.failed),
            split: self.split.saturating_sub(earlier.split),
        }
    }
}

fn difference<T, R>(now: Option<T>, then: Option<T>, since: impl Fn(T, T) -> R) -> Option<R> {
    now.zip(then).map(|(now, then)| since(now, then))
}

/// What is not in the counts, or not whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostEvents {
    /// Calls whose caller is not told: there were more callers than the map holds.
    pub callers: u64,
    /// Calls without time and holds: more were under way than the map holds.
    pub starts: u64,
    /// Holds whose begin is not known.
    pub holds: u64,
    /// Times that a program did not run, because it was interrupted by itself.
    pub runs: u64,
}

impl LostEvents {
    fn since(self, earlier: Self) -> Self {
        Self {
            callers: self.callers.saturating_sub(earlier.callers),
            starts: self.starts.saturating_sub(earlier.starts),
            holds: self.holds.saturating_sub(earlier.holds),
            runs: self.runs.saturating_sub(earlier.runs),
        }
    }
}

/// What was counted since the programs were attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedMigrations {
    /// Each reason of this kernel, in its order.
    pub reasons: Vec<MigrationCounts>,
    /// What is missing.
    pub lost: LostEvents,
}

impl CountedMigrations {
    /// Returns what came after `earlier`, an earlier state of the same counter.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.reasons.iter().zip(&earlier.reasons);
        Self {
            reasons: pairs.map(|(now, then)| now.since(then)).collect(),
            lost: self.lost.since(earlier.lost),
        }
    }
}

/// What the running kernel tells.
#[derive(Clone, Copy, Debug)]
struct Offers {
    thp: bool,
    large_folios: bool,
    call_times: bool,
    tlb_flushes: bool,
    holds: bool,
}

impl Offers {
    fn of(types: &KernelTypes, absent: &[Absent]) -> Self {
        let runs = |program| absent.iter().all(|absent| absent.probe.program != program);
        let call_times = runs("migrate_start");
        Self {
            thp: types.has_field(RECORD, "thp_succeeded"),
            large_folios: types.has_field(RECORD, "large_folio_split"),
            call_times,
            tlb_flushes: call_times && runs("tlb_flush"),
            holds: call_times && runs("hold_pte") && runs("release_pte"),
        }
    }

    /// Reads `struct counts` of the program, of all CPUs.
    fn counts<'a>(
        self,
        reason: String,
        cpus: impl Iterator<Item = &'a [u64; FIELDS + BUCKETS]>,
    ) -> MigrationCounts {
        let sum = sum(cpus);
        let [calls, succeeded, failed, thp_succeeded, thp_failed, split, folios, ns, flushes, _] =
            *sum.first_chunk::<FIELDS>().expect("it has that many");
        let thp = ThpCounts { succeeded: thp_succeeded, failed: thp_failed, split };
        MigrationCounts {
            reason,
            all: CallerCounts { calls, succeeded, failed },
            thp: self.thp.then_some(thp),
            large_folio_splits: self.large_folios.then_some(folios),
            call_ns: self.call_times.then_some(ns),
            tlb_flushes: self.tlb_flushes.then_some(flushes),
            holds: self.holds.then(|| TimeHistogram::new(&sum[FIELDS..], sum[FIELDS - 1])),
            callers: Vec::new(),
        }
    }
}

/// Adds what each CPU counted; of the longest hold, the last field before the buckets, the longest
/// stays.
fn sum<'a, const N: usize>(cpus: impl Iterator<Item = &'a [u64; N]>) -> [u64; N] {
    let mut sum = [0_u64; N];
    for cpu in cpus {
        for (at, (sum, count)) in sum.iter_mut().zip(cpu).enumerate() {
            *sum = if at == FIELDS - 1 { (*sum).max(*count) } else { *sum + count };
        }
    }
    sum
}

/// Counts migrations while it lives.
pub struct MigrationCounter {
    programs: ProgramSet,
    offers: Offers,
    reasons: Vec<String>,
}

impl MigrationCounter {
    /// Starts to count, on the machine whose files are below `root`: calls made by the processes
    /// `pids`, at most [`PIDS_MAX`], or by all if there are none.
    ///
    /// # Errors
    ///
    /// No program can be loaded, or not the one that counts pages.
    pub fn start(root: &Path, pids: &[u32]) -> Result<Self, Unavailable> {
        let only_watched = u32::from(!pids.is_empty());
        let mut programs =
            ProgramSet::load(OBJECT, PROBES, &[("only_watched", only_watched)], root)?;
        programs.require("migrate_end")?;
        let mut watched = HashMap::<_, u32, u32>::try_from(programs.map_mut("watched"))?;
        pids.iter().try_for_each(|pid| watched.insert(pid, 1, 0))?;
        let types = KernelTypes::read(root)?;
        let offers = Offers::of(&types, programs.absent());
        Ok(Self { programs, offers, reasons: reason_names(&types) })
    }

    /// Returns what cannot be told, and why.
    pub fn absent(&self) -> &[Absent] {
        self.programs.absent()
    }

    /// Returns what was counted. Cost: some 20 system calls, and one for each caller.
    ///
    /// # Errors
    ///
    /// A map cannot be read.
    pub fn read(&self) -> Result<CountedMigrations, MapError> {
        let map = self.programs.map("reasons");
        let map = PerCpuArray::<_, [u64; FIELDS + BUCKETS]>::try_from(map)?;
        let mut reasons = Vec::new();
        for (slot, name) in (0..).zip(&self.reasons) {
            reasons.push(self.offers.counts(name.clone(), map.get(&slot, 0)?.iter()));
        }
        for (caller, counts) in self.callers()? {
            let slot = usize::try_from(caller.reason).unwrap_or(REASONS);
            reasons
                .get_mut(slot)
                .into_iter()
                .for_each(|it| it.callers.push((caller.clone(), counts)));
        }
        Ok(CountedMigrations { reasons, lost: self.lost()? })
    }

    fn callers(&self) -> Result<Vec<(MigrationCaller, CallerCounts)>, MapError> {
        let map = self.programs.map("callers");
        let map = PerCpuHashMap::<_, [u64; 3], [u64; 3]>::try_from(map)?;
        let mut callers = Vec::new();
        for entry in map.iter() {
            let (caller, cpus) = entry?;
            let mut counts = CallerCounts::default();
            for [calls, succeeded, failed] in cpus.iter() {
                counts.calls += calls;
                counts.succeeded += succeeded;
                counts.failed += failed;
            }
            callers.push((MigrationCaller::from_words(caller), counts));
        }
        callers.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(callers)
    }

    fn lost(&self) -> Result<LostEvents, MapError> {
        let map = PerCpuArray::<_, u64>::try_from(self.programs.map("lost"))?;
        let lost = |at| map.get(&at, 0).map(|cpus| cpus.iter().sum());
        let runs = self.programs.missed_runs();
        Ok(LostEvents { callers: lost(0)?, starts: lost(1)?, holds: lost(2)?, runs })
    }
}

/// Returns the names of the slots: those of the kernel's reasons, and of numbers that it does not
/// name.
fn reason_names(types: &KernelTypes) -> Vec<String> {
    let known = types.enumerators("migrate_reason");
    let name = |slot: usize| {
        let is_it = |(name, value): &&(String, u32)| {
            usize::try_from(*value) == Ok(slot) && name != "MR_TYPES"
        };
        let name = known.iter().find(is_it).and_then(|(name, _)| name.strip_prefix("MR_"));
        name.filter(|_| slot < REASONS - 1).map(str::to_lowercase)
    };
    (0..REASONS).map(|slot| name(slot).unwrap_or_else(|| format!("reason_{slot}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a caller is read from the bytes that the program writes: reason 6, process 77, and a
    /// name of 15 bytes that need not be text.
    #[test]
    fn a_caller_is_read_from_its_words() {
        let first = (77_u64 << 32) | 6;
        let name = *b"\xff\x1b[2Jnodeward-x\0";
        let (low, high) = name.split_at(8);
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
        let first = match cfg!(target_endian = "little") {
            true => first,
            false => first.rotate_left(32),
        };
        let caller = MigrationCaller::from_words([first, word(low), word(high)]);
        assert_eq!((caller.reason, caller.pid), (6, 77));
        assert_eq!(caller.thread_name, name[..15]);
    }

    const ALL_TOLD: Offers =
        Offers { thp: true, large_folios: true, call_times: true, tlb_flushes: true, holds: true };

    /// A CPU's counts: fields 1 to 10, and times in bucket 24.
    fn cpu(holds: u64) -> [u64; FIELDS + BUCKETS] {
        let mut words = [0; FIELDS + BUCKETS];
        (1..).zip(&mut words[..FIELDS]).for_each(|(number, word)| *word = number);
        words[FIELDS + 24] = holds;
        words
    }

    /// Goal: counts of CPUs add up, each from its own field; of longest times the longest stays.
    #[test]
    fn counts_of_cpus_add_up() {
        let mut other = cpu(3);
        other[FIELDS - 1] = 33;
        let counts = ALL_TOLD.counts("x".to_owned(), [cpu(4), other].iter());
        assert_eq!(counts.all, CallerCounts { calls: 2, succeeded: 4, failed: 6 });
        assert_eq!(counts.thp, Some(ThpCounts { succeeded: 8, failed: 10, split: 12 }));
        let others = (counts.large_folio_splits, counts.call_ns, counts.tlb_flushes);
        assert_eq!(others, (Some(2 * 7), Some(2 * 8), Some(2 * 9)));
        let holds = counts.holds.unwrap();
        assert_eq!((holds.count(), holds.max_ns()), (4 + 3, Some(33)));
    }

    /// Goal: what a kernel does not tell is unknown, not zero.
    #[test]
    fn what_is_not_told_is_unknown() {
        let none = Offers {
            thp: false,
            large_folios: false,
            call_times: false,
            tlb_flushes: false,
            holds: false,
        };
        let counts = none.counts("x".to_owned(), [cpu(4)].iter());
        assert_eq!((counts.all.calls, counts.thp, counts.holds), (1, None, None));
        assert_eq!((counts.large_folio_splits, counts.call_ns), (None, None));
        assert_eq!(counts.tlb_flushes, None);
    }

    /// Goal: a period has what came since; a caller that did nothing since is not in it.
    #[test]
    fn a_period_is_what_came_since() {
        let caller = |pid| MigrationCaller { reason: 0, pid, thread_name: b"a".to_vec() };
        let counts = |calls| CallerCounts { calls, succeeded: 2 * calls, failed: 0 };
        let mut before = ALL_TOLD.counts("x".to_owned(), [cpu(1)].iter());
        let mut after = ALL_TOLD.counts("x".to_owned(), [cpu(1), cpu(6)].iter());
        before.callers = vec![(caller(1), counts(3))];
        after.callers = vec![(caller(1), counts(3)), (caller(2), counts(4))];
        let period = after.since(&before);
        assert_eq!(period.callers, [(caller(2), counts(4))]);
        assert_eq!((period.all.calls, period.call_ns), (1, Some(8)));
        assert_eq!(period.holds.unwrap().count(), 6);
    }
}
