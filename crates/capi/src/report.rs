//! The report of a migration, as C gets it.

use std::ffi::{CString, c_char};
use std::mem::offset_of;
use std::ptr;
use std::sync::LazyLock;

use nodeward::{MigrationReport, SkipReason};

use crate::sized::Versioned;

/// Slots for reasons in struct nodeward_report; more than there are reasons today.
pub const NODEWARD_SKIP_SLOTS: usize = 32;

/// Reasons for which a page stays where it was. nodeward_skip_advice() has a line for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum NodewardSkip {
    /// In use by direct I/O or a device, or held by nodeward_region_pin().
    Pinned = 0,
    /// Other processes map it too.
    Shared = 1,
    /// A child made by fork(2) still has it.
    SharedAfterFork = 2,
    /// Not in memory.
    NotPresent = 3,
    /// In swap.
    Swapped = 4,
    /// The destination has no free memory.
    NoMemory = 5,
    /// The destination has no free huge page.
    NoHugePage = 6,
    /// The cpuset does not allow the destination.
    NotAllowed = 7,
    /// The kernel never moves it.
    Unmovable = 8,
    /// The kernel put it on another node.
    WrongNode = 9,
    /// It cannot be moved within the stall budget.
    StallBudget = 10,
    /// The migration ended before its turn.
    Interrupted = 11,
    /// The process ended, or the address was unmapped.
    Gone = 12,
    /// The kernel refused for another reason.
    Refused = 13,
    /// It is shared memory beyond a limit of `nodeward move`. No function of this library has it.
    SharedAbove = 14,
    /// `nodeward move` did not try it, beside pinned pages. No function of this library has it.
    PinnedUntried = 15,
}

impl From<SkipReason> for NodewardSkip {
    fn from(reason: SkipReason) -> Self {
        match reason {
            SkipReason::Pinned => Self::Pinned,
            SkipReason::Shared => Self::Shared,
            SkipReason::SharedAfterFork => Self::SharedAfterFork,
            SkipReason::NotPresent => Self::NotPresent,
            SkipReason::Swapped => Self::Swapped,
            SkipReason::NoMemory => Self::NoMemory,
            SkipReason::NoHugePage => Self::NoHugePage,
            SkipReason::NotAllowed => Self::NotAllowed,
            SkipReason::Unmovable => Self::Unmovable,
            SkipReason::WrongNode => Self::WrongNode,
            SkipReason::StallBudget => Self::StallBudget,
            SkipReason::Interrupted => Self::Interrupted,
            SkipReason::Gone => Self::Gone,
            SkipReason::Refused => Self::Refused,
            SkipReason::SharedAbove => Self::SharedAbove,
            SkipReason::PinnedUntried => Self::PinnedUntried,
        }
    }
}

impl NodewardSkip {
    fn slot(self) -> usize {
        self as usize
    }
}

/// The account of a migration. Set `size` before the call; the call writes all other fields. Pages
/// are base pages. Each page of the range is in exactly one of `moved_pages`, `already_there_pages`
/// and `skipped_pages`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodewardReport {
    /// sizeof(struct nodeward_report)
    pub size: usize,
    /// On the destination now, and were not before.
    pub moved_pages: u64,
    /// On the destination from the start.
    pub already_there_pages: u64,
    /// Stayed where they were, or are not in memory.
    pub skipped_pages: u64,
    /// `skipped_pages` by reason; the slots are numbered by enum nodeward_skip.
    pub skipped_by_reason: [u64; NODEWARD_SKIP_SLOTS],
    /// Went to recycled pages.
    pub recycled_pages: u64,
    /// Went to fresh pages.
    pub one_way_pages: u64,
    /// Unmapped, until the next thread touches them and brings them to its node.
    pub lazy_pages: u64,
    /// Batches.
    pub batches: u64,
    /// Duration of the call.
    pub took_ns: u64,
    /// Time to unmap pages, summed over lanes as the next three.
    pub unmap_ns: u64,
    /// Time to copy.
    pub copy_ns: u64,
    /// Time to map pages.
    pub map_ns: u64,
    /// Time to get destination pages and to give back emptied ones.
    pub supply_ns: u64,
    /// The longest time that pages were unmapped.
    pub longest_hold_ns: u64,
    /// Lanes that took part.
    pub lanes: u32,
    /// 1 if it was cancelled, or ended by releasing the region.
    pub cancelled: u32,
    /// Blocks of 2 MiB that left as base pages and arrived as one huge page.
    pub huge_arrivals: u64,
    /// Blocks of 2 MiB of which base pages arrived as base pages, although huge pages were asked
    /// for (NODEWARD_ARRIVE_HUGE).
    pub huge_fallbacks: u64,
}

// SAFETY: numbers only, without padding, size first; zeros are valid.
unsafe impl Versioned for NodewardReport {
    const NAME: &'static str = "nodeward_report";
    const FIRST_SIZE: usize = offset_of!(Self, cancelled) + size_of::<u32>();
}

impl From<&MigrationReport> for NodewardReport {
    fn from(report: &MigrationReport) -> Self {
        let mut skipped_by_reason = [0; NODEWARD_SKIP_SLOTS];
        for (&reason, &pages) in &report.account.skipped {
            skipped_by_reason[NodewardSkip::from(reason).slot()] = pages;
        }
        Self {
            size: size_of::<Self>(),
            moved_pages: report.account.moved,
            already_there_pages: report.account.already_there,
            skipped_pages: report.account.skipped_total(),
            skipped_by_reason,
            recycled_pages: report.recycled_pages,
            one_way_pages: report.one_way_pages,
            lazy_pages: report.lazy_pages,
            batches: report.batches,
            took_ns: report.took_ns,
            unmap_ns: report.step_times.unmap_ns,
            copy_ns: report.step_times.copy_ns,
            map_ns: report.step_times.map_ns,
            supply_ns: report.step_times.supply_ns,
            longest_hold_ns: report.longest_hold_ns,
            lanes: report.lanes,
            cancelled: report.cancelled.into(),
            huge_arrivals: report.huge_arrivals,
            huge_fallbacks: report.huge_fallbacks,
        }
    }
}

/// The words for each slot that has a reason.
type ReasonTexts = [Option<CString>; NODEWARD_SKIP_SLOTS];

static NAMES: LazyLock<ReasonTexts> = LazyLock::new(|| reason_texts(SkipReason::name));
static ADVICE: LazyLock<ReasonTexts> = LazyLock::new(|| reason_texts(SkipReason::advice));

fn reason_texts(of: impl Fn(SkipReason) -> &'static str) -> ReasonTexts {
    let mut words = [const { None }; NODEWARD_SKIP_SLOTS];
    for reason in SkipReason::ALL {
        words[NodewardSkip::from(reason).slot()] = CString::new(of(reason)).ok();
    }
    words
}

fn text_at(words: &'static ReasonTexts, slot: u32) -> *const c_char {
    let slot = usize::try_from(slot).unwrap_or(usize::MAX);
    words.get(slot).and_then(Option::as_ref).map_or(ptr::null(), |word| word.as_ptr())
}

/// Returns the name of a reason, for example "pinned", valid for ever; NULL for a slot without
/// reason.
#[unsafe(no_mangle)]
pub extern "C" fn nodeward_skip_name(reason: u32) -> *const c_char {
    text_at(&NAMES, reason)
}

/// Returns one line about a reason: its meaning and what to do. NULL for a slot without reason.
#[unsafe(no_mangle)]
pub extern "C" fn nodeward_skip_advice(reason: u32) -> *const c_char {
    text_at(&ADVICE, reason)
}
