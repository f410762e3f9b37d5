//! Moves a list of folios to their destinations and reports the outcome of each.
//!
//! move_pages(2) reports incompletely: the first folio that cannot be moved ends the call, its run
//! has no status, and the folios after it are not tried. Some refusals are ambiguous. Every gap is
//! closed by locating the page again, and retries are bounded.

use std::sync::Arc;

use nodeward_machine::{
    CallEnd, EntryRefusal, EntryStatus, Error, Machine, MovePagesCall, MovePagesOutcome, Process,
    SEPARATOR,
};
use nodeward_model::{Account, PageLocation, Range, SkipReason};
use nodeward_policy::folio_plan::FolioMove;
use nodeward_policy::pacing::run_lengths;

use crate::MoveControl;
use crate::pacer::MovePacer;

/// Pauses before each further attempt at refused folios, or look at pages in flight. Short I/O ends
/// within the first two. The others are for another migrating thread that may have been preempted.
pub const RETRY_PAUSES_NS: [u64; 4] = [1_000_000, 10_000_000, 50_000_000, 250_000_000];
/// Maximum number of folios that get a last attempt one by one, each at the cost of a call. In a
/// run, the kernel stops isolating pages at the first one that it may not move, so a good page
/// behind it could be refused with it.
const SINGLES_MAX: usize = 8;

/// Checks that the huge pages of processes can be split.
///
/// # Errors
/// `Unsupported`, `Denied`, or `Gone`.
pub fn check_split(processes: &[Arc<dyn Process>]) -> Result<(), Error> {
    processes.iter().try_for_each(|process| process.split_folio(Range::new(0, 0)).map(drop))
}

/// The context needed to move folios of one process.
pub struct FolioMover<'a> {
    pub machine: &'a dyn Machine,
    pub process: &'a dyn Process,
    pub control: &'a MoveControl,
    pub pacer: &'a MovePacer,
    pub move_shared: bool,
    pub hugetlb: bool,
    /// Other workers may be moving the same pages, for another process that maps them too.
    pub has_concurrent_moves: bool,
}

/// The outcome of one attempt at one folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttemptOutcome {
    Moved,
    /// It stays, and another attempt would not help.
    Skipped(SkipReason),
    /// It stays for this reason; another attempt may help.
    Retryable(SkipReason),
    /// The call ended before it was tried.
    NotTried,
}

/// The outcome for a list of folios. Each is in `moved` or in `left`, or its pages are in
/// `account`.
#[derive(Debug, Default)]
pub struct FolioMoveOutcome {
    pub moved: Vec<FolioMove>,
    /// Folios that were refused at every attempt, though another one might help, and the reason.
    pub refused: Vec<(FolioMove, SkipReason)>,
    /// Pages of folios that stay.
    pub account: Account,
    /// The error of the machine, if it refused to work for a reason other than the process being
    /// gone; pages that were not tried are then accounted for as `Refused`.
    pub error: Option<Error>,
}

impl FolioMoveOutcome {
    /// Accounts for folios that stay.
    pub fn skip(&mut self, folios: &[FolioMove], reason: SkipReason) {
        self.account.skip(reason, pages_of(folios));
    }

    /// Adds the outcome of other folios.
    pub fn join(&mut self, other: Self) {
        self.moved.extend(other.moved);
        self.refused.extend(other.refused);
        self.account.add(&other.account);
        self.error = self.error.take().or(other.error);
    }
}

/// The number of folios tried, and the outcome of each folio, or of each of its pages.
type CallResult = (usize, Vec<(FolioMove, AttemptOutcome)>);
/// Folios to try again, with the reason.
type RetryList = Vec<(FolioMove, SkipReason)>;

impl FolioMover<'_> {
    /// Moves the folios.
    pub fn move_folios(&self, folios: &[FolioMove]) -> FolioMoveOutcome {
        let mut outcome = FolioMoveOutcome::default();
        let mut stuck = RetryList::new();
        self.attempt(folios, u32::MAX, &mut outcome, &mut stuck);
        for (retry, pause_ns) in RETRY_PAUSES_NS.into_iter().enumerate() {
            if self.should_retry(&stuck, &outcome) && self.may_succeed(retry, &stuck) {
                self.machine.sleep_ns(pause_ns);
                self.retry(&mut stuck, u32::MAX, &mut outcome);
            }
        }
        if stuck.len() <= SINGLES_MAX && self.should_retry(&stuck, &outcome) {
            self.retry(&mut stuck, 1, &mut outcome);
        }
        outcome.refused = stuck;
        outcome
    }

    fn should_retry(&self, stuck: &RetryList, outcome: &FolioMoveOutcome) -> bool {
        !stuck.is_empty() && outcome.error.is_none() && !self.control.is_stopped()
    }

    /// Returns whether one more attempt may help, after `retries` retries.
    fn may_succeed(&self, retries: usize, stuck: &RetryList) -> bool {
        match retries {
            0 => true,
            _ if stuck.iter().all(|&(_, reason)| is_out_of_memory(reason)) => false,
            1 => true,
            2 if self.has_concurrent_moves => true,
            _ => self.are_in_flight(stuck),
        }
    }

    /// Returns whether some of these folios are being moved by another thread.
    fn are_in_flight(&self, stuck: &RetryList) -> bool {
        let addresses: Vec<u64> = stuck.iter().map(|(folio, _)| folio.address).collect();
        let places = self.process.locate(&addresses);
        places.is_ok_and(|places| places.contains(&PageLocation::InFlight))
    }

    fn retry(&self, stuck: &mut RetryList, run_pages_max: u32, outcome: &mut FolioMoveOutcome) {
        let folios: Vec<FolioMove> = stuck.drain(..).map(|(folio, _)| folio).collect();
        self.attempt(&folios, run_pages_max, outcome, stuck);
    }

    /// Makes one attempt at each folio, in as many calls as needed.
    fn attempt(
        &self,
        folios: &[FolioMove],
        run_pages_max: u32,
        outcome: &mut FolioMoveOutcome,
        stuck: &mut RetryList,
    ) {
        let mut rest = folios;
        while let Some(first) = rest.first() {
            if self.pacer.is_too_large(first.pages) {
                rest = &rest[1..];
                self.attempt_too_large(*first, run_pages_max, outcome, stuck);
                if outcome.error.is_some() {
                    return outcome.skip(rest, SkipReason::Refused);
                }
                continue;
            }
            let page_bytes = self.machine.page_bytes();
            let (count, run_pages) = self.pacer.next_call(rest, page_bytes);
            let bytes = pages_of(&rest[..count]) * page_bytes;
            self.pacer.wait_for_rate(self.machine, self.control, bytes);
            if self.control.is_stopped() {
                return outcome.skip(rest, SkipReason::Interrupted);
            }
            let (tried, attempts) = match self.call(&rest[..count], run_pages.min(run_pages_max)) {
                Ok(told) => told,
                Err(error) if error.is_gone() => return outcome.skip(rest, SkipReason::Gone),
                Err(error) => {
                    outcome.error = Some(error);
                    return outcome.skip(rest, SkipReason::Refused);
                }
            };
            self.record(&attempts, outcome, stuck);
            rest = &rest[tried..];
        }
    }

    /// Splits a folio that is too large for the stall budget, if that was requested, and makes an
    /// attempt at each of its pages. Somebody may hold the folio just now.
    fn attempt_too_large(
        &self,
        folio: FolioMove,
        run_pages_max: u32,
        outcome: &mut FolioMoveOutcome,
        stuck: &mut RetryList,
    ) {
        self.pacer.note_too_large(folio.pages);
        if !self.pacer.splits_huge() || self.hugetlb {
            return outcome.skip(&[folio], SkipReason::StallBudget);
        }
        let page_bytes = self.machine.page_bytes();
        let end = folio.address + u64::from(folio.pages) * page_bytes;
        match self.process.split_folio(Range::new(folio.address, end)) {
            Ok(true) => {
                self.pacer.record_split();
                let mut pages = FolioMoveOutcome::default();
                self.attempt(&base_pages(folio, page_bytes), run_pages_max, &mut pages, stuck);
                // A split frees pages of zeros (Linux 6.12): the zero page is there, which stays.
                pages.account.rename(SkipReason::Unmovable, SkipReason::NotPresent);
                outcome.join(pages);
            }
            Ok(false) => stuck.push((folio, SkipReason::StallBudget)),
            Err(error) if error.is_gone() => outcome.skip(&[folio], SkipReason::Gone),
            Err(error) => {
                tracing::debug!(%error, "a huge page is not split");
                outcome.skip(&[folio], SkipReason::StallBudget);
            }
        }
    }

    /// Records outcomes, and puts folios that may be tried again on the list `stuck`.
    fn record(
        &self,
        attempts: &[(FolioMove, AttemptOutcome)],
        outcome: &mut FolioMoveOutcome,
        stuck: &mut RetryList,
    ) {
        let mut moved = 0;
        for &(folio, attempt) in attempts {
            match attempt {
                AttemptOutcome::Moved => {
                    outcome.moved.push(folio);
                    moved += u64::from(folio.pages);
                }
                AttemptOutcome::Skipped(reason) => outcome.skip(&[folio], reason),
                AttemptOutcome::Retryable(reason) => stuck.push((folio, reason)),
                AttemptOutcome::NotTried => {}
            }
        }
        self.control.add_moved(moved * self.machine.page_bytes());
    }

    /// Makes one call. Returns the number of folios tried, at least one, and their outcomes.
    fn call(&self, folios: &[FolioMove], run_pages: u32) -> Result<CallResult, Error> {
        let batch = self.build_call(folios, run_pages);
        let began_ns = self.machine.now_ns();
        let outcome = self.process.move_pages(&batch)?;
        let took_ns = self.machine.now_ns() - began_ns;
        let pages = pages_of(folios);
        tracing::debug!(entries = batch.len(), pages, took_ns, end = ?outcome.end, "moved");
        self.pacer.record_call(folios, run_pages, took_ns);
        let mut attempts = self.read(&batch, &outcome, folios);
        let open = self.requery(folios, &mut attempts)?;
        let is_tried =
            |&(_, attempt): &(FolioMove, AttemptOutcome)| attempt != AttemptOutcome::NotTried;
        let attempts: Vec<_> = folios.iter().copied().zip(attempts).take_while(is_tried).collect();
        let tried = attempts.len();
        let told = match outcome.end {
            CallEnd::Aborted | CallEnd::NoMemory => {
                self.split_into_pages(attempts, &open, outcome.end)?
            }
            CallEnd::Complete | CallEnd::Gone | CallEnd::NotAllowed => attempts,
        };
        Ok((tried, told))
    }

    /// Replaces those of the folios in `open` that were split in a failed call by their pages: the
    /// kernel moves what it can of a folio that it had to split.
    fn split_into_pages(
        &self,
        attempts: Vec<(FolioMove, AttemptOutcome)>,
        open: &[usize],
        end: CallEnd,
    ) -> Result<Vec<(FolioMove, AttemptOutcome)>, Error> {
        let mut told = Vec::with_capacity(attempts.len());
        for (index, (folio, attempt)) in attempts.into_iter().enumerate() {
            if folio.pages == 1 || open.binary_search(&index).is_err() {
                told.push((folio, attempt));
                continue;
            }
            let pages = base_pages(folio, self.machine.page_bytes());
            let addresses: Vec<u64> = pages.iter().map(|page| page.address).collect();
            let places = self.process.locate(&addresses)?;
            match places.iter().all(|place| *place == places[0]) {
                true => told.push((folio, attempt)),
                false => told.extend(pages.into_iter().zip(places).map(|(page, place)| {
                    let stuck = AttemptOutcome::Retryable(self.failure_reason(end, folio));
                    let before = if attempt == AttemptOutcome::Moved { stuck } else { attempt };
                    (page, now_at(place, page, before))
                })),
            }
        }
        Ok(told)
    }

    fn build_call(&self, folios: &[FolioMove], run_pages: u32) -> MovePagesCall {
        let mut batch = MovePagesCall::new(self.move_shared);
        let mut rest = folios;
        for count in run_lengths(folios, run_pages) {
            let (run, after) = rest.split_at(count);
            run.iter().for_each(|folio| batch.push(folio.address, folio.to));
            if !after.is_empty() {
                batch.end_run();
            }
            rest = after;
        }
        batch
    }

    /// Reads the outcomes from the call's status. `Retryable` marks folios that must be located
    /// again.
    fn read(
        &self,
        batch: &MovePagesCall,
        outcome: &MovePagesOutcome,
        folios: &[FolioMove],
    ) -> Vec<AttemptOutcome> {
        let all = |reason| vec![AttemptOutcome::Skipped(reason); folios.len()];
        match outcome.end {
            CallEnd::Gone => return all(SkipReason::Gone),
            CallEnd::NotAllowed => return all(SkipReason::NotAllowed),
            CallEnd::Complete | CallEnd::Aborted | CallEnd::NoMemory => {}
        }
        let failed = failed_run(batch, outcome);
        // All of the folios go to one node.
        let left = folios.first().filter(|_| !failed.is_empty());
        let left =
            left.map_or(SkipReason::Pinned, |folio| self.failure_reason(outcome.end, *folio));
        let entries = (0..batch.len()).filter(|&entry| batch.addresses()[entry] != SEPARATOR);
        let attempt = |(entry, folio): (usize, &FolioMove)| match outcome.status[entry] {
            EntryStatus::On(node) if node == folio.to => AttemptOutcome::Moved,
            EntryStatus::On(_) => AttemptOutcome::Skipped(SkipReason::WrongNode),
            EntryStatus::Refused(refusal) => self.refused(refusal),
            EntryStatus::Unwritten if entry < failed.end => AttemptOutcome::Retryable(left),
            EntryStatus::Unwritten => AttemptOutcome::NotTried,
        };
        entries.zip(folios).map(attempt).collect()
    }

    fn refused(&self, refusal: EntryRefusal) -> AttemptOutcome {
        match refusal {
            EntryRefusal::Shared => AttemptOutcome::Skipped(SkipReason::Shared),
            EntryRefusal::Busy => AttemptOutcome::Retryable(SkipReason::Pinned),
            EntryRefusal::Fault => AttemptOutcome::Retryable(fault_reason(self.hugetlb)),
            EntryRefusal::Absent => AttemptOutcome::Retryable(SkipReason::NotPresent),
            EntryRefusal::NoMemory => AttemptOutcome::Retryable(self.no_memory_reason()),
            EntryRefusal::Other(errno) => {
                tracing::debug!(errno, "the kernel refused a page");
                AttemptOutcome::Skipped(SkipReason::Refused)
            }
        }
    }

    fn no_memory_reason(&self) -> SkipReason {
        if self.hugetlb { SkipReason::NoHugePage } else { SkipReason::NoMemory }
    }

    /// Returns why a folio stays that a call isolated and failed to move.
    fn failure_reason(&self, end: CallEnd, folio: FolioMove) -> SkipReason {
        match end {
            CallEnd::NoMemory => self.no_memory_reason(),
            _ if self.hugetlb && self.has_no_huge_page(folio) => SkipReason::NoHugePage,
            _ => SkipReason::Pinned,
        }
    }

    /// Returns whether the destination has no free huge page. For a hugetlb folio the call reports
    /// the same failure, whether there was none (seen on 6.1 and 6.12) or the folio is in use.
    fn has_no_huge_page(&self, folio: FolioMove) -> bool {
        let bytes = u64::from(folio.pages) * self.machine.page_bytes();
        self.machine.free_huge_pages(folio.to, bytes).is_none_or(|pages| pages == 0)
    }

    /// Locates the folios whose outcome is not certain from the call. Returns their indices.
    fn requery(
        &self,
        folios: &[FolioMove],
        attempts: &mut [AttemptOutcome],
    ) -> Result<Vec<usize>, Error> {
        let open: Vec<usize> = (0..attempts.len())
            .filter(|&i| matches!(attempts[i], AttemptOutcome::Retryable(_)))
            .collect();
        if open.is_empty() {
            return Ok(open);
        }
        let addresses: Vec<u64> = open.iter().map(|&i| folios[i].address).collect();
        for (&i, place) in open.iter().zip(self.process.locate(&addresses)?) {
            attempts[i] = now_at(place, folios[i], attempts[i]);
        }
        Ok(open)
    }
}

/// Returns the number of base pages of folios.
pub fn pages_of(folios: &[FolioMove]) -> u64 {
    folios.iter().map(|folio| u64::from(folio.pages)).sum()
}

/// Returns the pages of a folio.
fn base_pages(folio: FolioMove, page_bytes: u64) -> Vec<FolioMove> {
    let page = |page| FolioMove {
        address: folio.address + u64::from(page) * page_bytes,
        pages: 1,
        ..folio
    };
    (0..folio.pages).map(page).collect()
}

/// Returns why a page stays that the kernel refuses with EFAULT: its mapping is of a kind that
/// never moves, or there is no mapping at that moment. Hugetlb memory always moves; a program that
/// continually unmaps it and maps it again has it mapped whenever we look.
fn fault_reason(hugetlb: bool) -> SkipReason {
    if hugetlb { SkipReason::NotPresent } else { SkipReason::Unmovable }
}

/// Returns the entries that a call isolated and then failed to move: from the first one without
/// status to the end of its run.
fn failed_run(batch: &MovePagesCall, outcome: &MovePagesOutcome) -> std::ops::Range<usize> {
    let unwritten = |status: &EntryStatus| *status == EntryStatus::Unwritten;
    let start = outcome.status.iter().position(unwritten).unwrap_or(batch.len());
    let same_run = |&entry: &usize| {
        batch.addresses()[entry] != SEPARATOR && batch.nodes()[entry] == batch.nodes()[start]
    };
    let length = (start..batch.len()).take_while(same_run).count();
    // A separator without status belongs to the run before it; the call went no further.
    start..start + length.max(1)
}

/// Derives the outcome of a folio from its present place.
fn now_at(place: PageLocation, folio: FolioMove, attempt: AttemptOutcome) -> AttemptOutcome {
    match place {
        PageLocation::On(node) if node == folio.to => AttemptOutcome::Moved,
        PageLocation::On(node) if node != folio.from => {
            AttemptOutcome::Skipped(SkipReason::WrongNode)
        }
        PageLocation::On(_) => match attempt {
            // Refused as missing, and present now: it was swapped in again, or was in flight.
            AttemptOutcome::Retryable(SkipReason::NotPresent) => {
                AttemptOutcome::Retryable(SkipReason::Pinned)
            }
            _ => attempt,
        },
        PageLocation::InFlight => AttemptOutcome::Retryable(SkipReason::Pinned),
        PageLocation::Absent => AttemptOutcome::Skipped(SkipReason::NotPresent),
        PageLocation::Swapped => AttemptOutcome::Skipped(SkipReason::Swapped),
        PageLocation::Unmovable => AttemptOutcome::Skipped(SkipReason::Unmovable),
    }
}

/// Returns whether the reason is a full destination.
pub fn is_out_of_memory(reason: SkipReason) -> bool {
    matches!(reason, SkipReason::NoMemory | SkipReason::NoHugePage)
}

#[cfg(test)]
mod tests {
    use nodeward_model::NodeId;

    use super::*;

    /// Goal: memory that is unmapped during the call and mapped again afterwards is not reported as
    /// unmovable if such memory always moves (181,944 pages of a program that mapped and unmapped
    /// hugetlb memory once were); zero pages and device memory are.
    #[test]
    fn memory_that_comes_and_goes_is_not_called_unmovable() {
        let [from, to] = [0, 1].map(NodeId);
        let folio = FolioMove { address: 0x20_0000, pages: 512, from, to };
        let told = |hugetlb| {
            now_at(PageLocation::On(from), folio, AttemptOutcome::Retryable(fault_reason(hugetlb)))
        };
        assert_eq!(told(true), AttemptOutcome::Retryable(SkipReason::Pinned));
        assert_eq!(told(false), AttemptOutcome::Retryable(SkipReason::Unmovable));
        let gone =
            now_at(PageLocation::Absent, folio, AttemptOutcome::Retryable(fault_reason(true)));
        assert_eq!(gone, AttemptOutcome::Skipped(SkipReason::NotPresent));
        let fixed =
            now_at(PageLocation::Unmovable, folio, AttemptOutcome::Retryable(fault_reason(false)));
        assert_eq!(fixed, AttemptOutcome::Skipped(SkipReason::Unmovable));
    }
}
