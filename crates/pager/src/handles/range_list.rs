//! Lists of ranges, each with a destination of its own, that one call moves.

use std::ops::Range;
use std::time::{Duration, Instant};

use nodeward_machine::{EntryRefusal, EntryStatus, MovePagesCall};
use nodeward_model::{NodeId, PageLocation, SkipReason};
use nodeward_policy::pacing::RateLimit;

use super::placement;
use super::region::Region;
use crate::chunk::CHUNK_BYTES;
use crate::error::{Error, Result};
use crate::migration::{
    Cancel, ChunkTask, Migration, MigrationReport, MoveOptions, PageSkips, elapsed_ns,
};
use crate::page_bits::PageBits;
use crate::region::Placement;

/// Parts of ranges that are put in order together: they need about 2 MiB, whatever the list.
const PARTS_MAX: usize = 1 << 16;

/// A range of a region, and the node that it is to go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTarget {
    /// Bytes from the region's start, whole pages.
    pub range: Range<usize>,
    /// The node to which the range is to go.
    pub to: NodeId,
}

/// The result for one range of a list.
#[derive(Debug)]
pub enum RangeStatus {
    /// All pages of the range are on the destination.
    There,
    /// Some pages stayed.
    Stayed {
        /// Number of base pages that stayed.
        pages: u64,
        /// The reason for which the first of them stayed.
        reason: SkipReason,
    },
    /// The range or the node is invalid, and nothing was done about it.
    Refused(Error),
}

/// The outcome of a list.
#[derive(Debug)]
pub struct RangeListReport {
    /// The status of each range, in the order of the list.
    pub ranges: Vec<RangeStatus>,
    /// The sum over all valid ranges. A page that several ranges with the same destination name in
    /// a row counts once.
    pub total: MigrationReport,
}

/// Time between two looks for a cancellation, while the rate makes a list wait.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The part of a range that lies in one chunk.
#[derive(Clone, Copy)]
struct ListPart {
    chunk: usize,
    /// Pages of the chunk.
    first: u16,
    end: u16,
    /// The range's index in the list.
    range: usize,
    to: NodeId,
}

impl ListPart {
    fn pages(&self) -> Range<usize> {
        self.first.into()..self.end.into()
    }
}

/// Parts of a chunk that are moved together.
struct PartGroup {
    task: ChunkTask,
    /// Indices of the parts.
    parts: Vec<usize>,
}

impl Region {
    /// Moves many ranges, each to its node, in the order of the list as far as ranges overlap. An
    /// invalid entry is refused by its status, and the others are done. Runs on the calling thread,
    /// except for chunks that others are moving: `how.lanes` and `how.budget.stall` have no effect,
    /// and `how.progress` is not called.
    ///
    /// # Errors
    /// As [`Region::migrate`], but not for single entries.
    pub fn migrate_list(
        &self,
        list: &[RangeTarget],
        how: &Migration<'_>,
    ) -> Result<RangeListReport> {
        self.pager.check_caller()?;
        let options =
            how.move_options(self.base_page_bytes(), self.managed().map(|region| &**region))?;
        let began = Instant::now();
        let ranges = list.iter().map(|target| self.status_before(target)).collect();
        let mut report = RangeListReport { ranges, total: MigrationReport::default() };
        let mut parts = self.valid_parts(list, &report.ranges).peekable();
        let mut pace = Pace::new(how, began);
        let mut window = Vec::new();
        while parts.peek().is_some() {
            window.clear();
            window.extend(parts.by_ref().take(PARTS_MAX));
            window.sort_by_key(|part| part.chunk); // stable: ranges of a chunk stay in order
            self.move_window(&window, &options, &mut pace, &mut report)?;
        }
        report.total.took_ns = elapsed_ns(began);
        report.total.lanes = 1;
        report.total.cancelled = pace.is_cancelled();
        Ok(report)
    }

    fn status_before(&self, target: &RangeTarget) -> RangeStatus {
        let checked = self
            .check_range(&target.range)
            .and_then(|()| placement::check(&self.pager, &Placement::Node(target.to)));
        checked.map_or_else(RangeStatus::Refused, |()| RangeStatus::There)
    }

    /// Returns the parts of all ranges that were not refused.
    fn valid_parts(
        &self,
        list: &[RangeTarget],
        statuses: &[RangeStatus],
    ) -> impl Iterator<Item = ListPart> + use<> {
        let page_bytes = self.base_page_bytes();
        let is_valid = |status: &RangeStatus| !matches!(status, RangeStatus::Refused(_));
        let entries = list.iter().zip(statuses).enumerate();
        let valid = entries.filter(|(_, (_, status))| is_valid(status));
        let valid: Vec<_> =
            valid.map(|(index, (target, _))| (index, target.range.clone(), target.to)).collect();
        valid.into_iter().flat_map(move |(range, bytes, to)| {
            let chunks = bytes.start / CHUNK_BYTES..bytes.end.div_ceil(CHUNK_BYTES);
            chunks.map(move |chunk| {
                let start = chunk * CHUNK_BYTES;
                let first = (bytes.start.max(start) - start) / page_bytes;
                let end = (bytes.end.min(start + CHUNK_BYTES) - start) / page_bytes;
                ListPart { chunk, first: first as u16, end: end as u16, range, to }
            })
        })
    }

    fn move_window(
        &self,
        window: &[ListPart],
        options: &MoveOptions,
        pace: &mut Pace<'_>,
        report: &mut RangeListReport,
    ) -> Result<()> {
        let Some(region) = self.managed() else {
            return self.move_window_by_kernel(window, pace, report);
        };
        for parts in window.chunk_by(|one, other| one.chunk == other.chunk) {
            for PartGroup { task, parts: members } in groups(parts) {
                let bytes = task.pages.len() * self.base_page_bytes();
                let skips = match pace.may_go_on(bytes) {
                    true => {
                        let total = &mut report.total;
                        self.uffd_backend()?.move_task(region, options, task, total)?
                    }
                    false => interrupt(&task, &mut report.total),
                };
                members.iter().for_each(|&part| report.note(&parts[part], &skips));
            }
        }
        Ok(())
    }

    /// Moves parts with move_pages(2), in one call for each group.
    fn move_window_by_kernel(
        &self,
        window: &[ListPart],
        pace: &mut Pace<'_>,
        report: &mut RangeListReport,
    ) -> Result<()> {
        let page_bytes = self.base_page_bytes();
        for parts in window.chunk_by(|one, other| one.chunk == other.chunk) {
            let chunk = parts[0].chunk * CHUNK_BYTES..(parts[0].chunk + 1) * CHUNK_BYTES;
            self.prepare_for_kernel(&(chunk.start..chunk.end.min(self.bytes())))?;
            for PartGroup { task, parts: members } in groups(parts) {
                let skips = match pace.may_go_on(task.pages.len() * page_bytes) {
                    true => self.move_group_by_kernel(&task, &mut report.total)?,
                    false => interrupt(&task, &mut report.total),
                };
                members.iter().for_each(|&part| report.note(&parts[part], &skips));
            }
        }
        Ok(())
    }

    fn move_group_by_kernel(
        &self,
        task: &ChunkTask,
        total: &mut MigrationReport,
    ) -> Result<PageSkips> {
        let start = self.as_ptr() as u64 + (task.chunk * CHUNK_BYTES) as u64;
        let address = |page: usize| start + (page * self.base_page_bytes()) as u64;
        let there =
            self.pager.myself.locate(&task.pages.iter().map(address).collect::<Vec<_>>())?;
        let mut call = MovePagesCall::new(false);
        task.pages.iter().for_each(|page| call.push(address(page), task.to));
        let outcome = self.pager.myself.move_pages(&call)?;
        let mut skips = PageSkips::default();
        for ((page, before), status) in task.pages.iter().zip(there).zip(&outcome.status) {
            let was_there = before == PageLocation::On(task.to);
            match reason_of(*status, task.to) {
                None if was_there => total.account.already_there += 1,
                None => {
                    total.account.moved += 1;
                    total.one_way_pages += 1;
                }
                Some(why) => {
                    total.account.skip(why, 1);
                    skips.set(page, Some(why));
                }
            }
        }
        total.batches += 1;
        Ok(skips)
    }
}

impl RangeListReport {
    /// Notes what became of a part.
    fn note(&mut self, part: &ListPart, skips: &PageSkips) {
        let status = &mut self.ranges[part.range];
        for why in skips.of(part.pages()) {
            match status {
                RangeStatus::Stayed { pages, .. } => *pages += 1,
                _ => *status = RangeStatus::Stayed { pages: 1, reason: why },
            }
        }
    }
}

/// Groups the parts of a chunk by destination. A part joins an earlier group if no later one has a
/// page of it, so what happens to a page happens in the order of the list.
fn groups(parts: &[ListPart]) -> Vec<PartGroup> {
    let mut groups: Vec<PartGroup> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let pages = PageBits::of(part.pages());
        let blocks = |group: &PartGroup| {
            group.task.to != part.to && !group.task.pages.and(&pages).is_empty()
        };
        let last = groups.iter().rposition(|group| group.task.to == part.to || blocks(group));
        match last.filter(|&last| groups[last].task.to == part.to) {
            Some(last) => {
                groups[last].task.pages.insert_all(part.pages());
                groups[last].parts.push(index);
            }
            None => {
                let task = ChunkTask { chunk: part.chunk, pages, to: part.to };
                groups.push(PartGroup { task, parts: vec![index] });
            }
        }
    }
    groups
}

fn interrupt(task: &ChunkTask, total: &mut MigrationReport) -> PageSkips {
    let mut skips = PageSkips::default();
    skips.skip(&task.pages, SkipReason::Interrupted);
    total.account.skip(SkipReason::Interrupted, task.pages.len() as u64);
    skips
}

/// Returns why a page stayed; `None` if it is on the destination.
fn reason_of(status: EntryStatus, to: NodeId) -> Option<SkipReason> {
    let refusal = match status {
        EntryStatus::On(node) => return (node != to).then_some(SkipReason::WrongNode),
        EntryStatus::Refused(refusal) => refusal,
        _ => return Some(SkipReason::Interrupted),
    };
    Some(match refusal {
        EntryRefusal::Busy => SkipReason::Pinned,
        EntryRefusal::Shared => SkipReason::Shared,
        EntryRefusal::Absent => SkipReason::NotPresent,
        EntryRefusal::Fault => SkipReason::Unmovable,
        EntryRefusal::NoMemory => SkipReason::NoMemory,
        EntryRefusal::Other(_) => SkipReason::Refused,
    })
}

/// The rate of a list, and the request to end it.
struct Pace<'a> {
    rate: Option<RateLimit>,
    cancel: Option<&'a Cancel>,
    began: Instant,
    was_cancelled: bool,
}

impl<'a> Pace<'a> {
    fn new(how: &Migration<'a>, began: Instant) -> Self {
        let rate = how.budget.bytes_per_s.map(RateLimit::new);
        Self { rate, cancel: how.cancel, began, was_cancelled: false }
    }

    /// Returns whether a group of `bytes` bytes may be moved; sleeps as long as the rate wants, or
    /// until the list is cancelled.
    fn may_go_on(&mut self, bytes: usize) -> bool {
        let now = elapsed_ns(self.began);
        let wait_ns = self.rate.as_mut().map_or(0, |rate| rate.reserve(now, bytes as u64));
        let until = Instant::now() + Duration::from_nanos(wait_ns);
        loop {
            self.was_cancelled |= self.cancel.is_some_and(Cancel::is_cancelled);
            let wait = until.saturating_duration_since(Instant::now());
            if self.was_cancelled || wait.is_zero() {
                return !self.was_cancelled;
            }
            std::thread::sleep(wait.min(CANCEL_POLL_INTERVAL));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.was_cancelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(pages: Range<usize>, to: u32, range: usize) -> ListPart {
        let (first, end) = (pages.start as u16, pages.end as u16);
        ListPart { chunk: 0, first, end, range, to: NodeId(to) }
    }

    /// Goal: parts to one node are moved together even if others stand between them, unless these
    /// are about the same pages: page 5 goes to node 1, then to 2, and is on 1 in the end.
    #[test]
    fn parts_are_grouped_in_order() {
        let parts = [
            part(5..6, 1, 0),
            part(7..9, 2, 1),
            part(6..7, 1, 2),
            part(5..6, 2, 3),
            part(5..6, 1, 4),
        ];
        let groups = groups(&parts);
        let told: Vec<_> = groups.iter().map(|group| (group.task.to.0, &*group.parts)).collect();
        assert_eq!(told, [(1, &[0, 2][..]), (2, &[1, 3]), (1, &[4])]);
        assert_eq!(groups[0].task.pages, PageBits::of(5..7));
        assert_eq!(groups[1].task.pages.iter().collect::<Vec<_>>(), [5, 7, 8]);
    }
}
