//! Moves of cached pages, which must not push each other out of memory.
//!
//! A full destination refuses memory of a process, but for a cached page the kernel makes room by
//! dropping another cached page. So the move is planned first, and pages that do not fit stay. A
//! range that fits only in part is halved until the part that fits is found.

use std::sync::Arc;

use nodeward_machine::{Liveness, Machine, Process, Result};
use nodeward_model::{Account, Range, SkipReason};
use nodeward_policy::cache_headroom::CacheHeadroom;

use crate::report::{MoveReport, PlanReport, ProcessPlan, ProcessReport, Residue};
use crate::{MoveControl, MoveRequest, Selection, migrate, plan};

/// Ranges of this length or less are not halved, in bytes.
const PIECE_BYTES_MIN: u64 = 16 << 20;
/// Ranges are halved at multiples of this, which no folio crosses: the range of one page table.
const STEP_BYTES: u64 = 2 << 20;
/// Maximum number of further looks at pages that were out of sight, before or after a move.
const REPEATS_MAX: usize = 2;

/// A move of cached pages, and the means to see it.
pub struct CacheMove<'a> {
    /// The machine.
    pub machine: &'a dyn Machine,
    /// The processes that the pages are mapped in.
    pub processes: &'a [Arc<dyn Process>],
    /// Number of base pages that were mapped there.
    pub mapped_pages: u64,
    /// The state of the moves while they run.
    pub control: &'a MoveControl,
    /// Maps pages of ranges again that are in memory and were unmapped by the kernel meanwhile.
    pub map_again: &'a dyn Fn(&[Range]),
}

impl CacheMove<'_> {
    /// Moves those of the selected pages that fit; the others are skipped as [`NoMemory`].
    ///
    /// # Errors
    /// As [`migrate`]: only if nothing was done.
    ///
    /// [`NoMemory`]: SkipReason::NoMemory
    pub fn migrate(&self, request: &MoveRequest, rooms: &mut CacheHeadroom) -> Result<MoveReport> {
        let began_ns = self.machine.now_ns();
        let mut total = MoveReport::default();
        let result = self.for_each_part(request, rooms, |part, plan, fits| {
            let report = match fits {
                true => self.migrate_part(part)?,
                false => self.skipped_report(part, plan),
            };
            let gone = report.account().skipped_for(SkipReason::NotPresent);
            total.join(report);
            Ok(gone)
        });
        match result {
            Err(error) if total.processes.is_empty() => return Err(error),
            Err(error) => total.error = Some(error),
            Ok(()) => {}
        }
        total.moving_ns = self.machine.now_ns() - began_ns - total.verifying_ns;
        Ok(total)
    }

    /// Moves a part that fits. Where the kernel splits a folio, or tries in vain to drop it, it
    /// unmaps the pages: they are mapped and counted again, and moved again if they stayed.
    fn migrate_part(&self, part: &MoveRequest) -> Result<MoveReport> {
        let mut report = migrate(self.machine, self.processes, part, self.control, None)?;
        for _ in 0..REPEATS_MAX {
            if report.all_pages_seen() || report.error.is_some() || self.control.is_stopped() {
                break;
            }
            (self.map_again)(&part.selection.ranges);
            match migrate(self.machine, self.processes, part, self.control, None) {
                Ok(again) => report.repeat(again),
                Err(error) => report.error = Some(error),
            }
        }
        // What was not looked at is not lost; who stopped the move does not wait for another look.
        if report.is_verified() && !report.all_pages_seen() {
            (self.map_again)(&part.selection.ranges);
            let seen = plan(self.machine, self.processes, part, &MoveControl::default());
            let seen = seen.map(|plan| plan.processes).unwrap_or_default();
            for (process, (_, plan)) in report.processes.iter_mut().zip(seen) {
                process.after = plan.residency;
            }
            report.processes.iter_mut().for_each(ProcessReport::account_for_lost);
        }
        Ok(report)
    }

    /// Returns the plan of [`CacheMove::migrate`] without moving anything, assuming that no page is
    /// lost.
    ///
    /// # Errors
    /// As [`plan`].
    pub fn plan(&self, request: &MoveRequest, rooms: &mut CacheHeadroom) -> Result<PlanReport> {
        let mut total = PlanReport::default();
        self.for_each_part(request, rooms, |_, mut plan, fits| {
            if !fits {
                plan.processes.iter_mut().for_each(|(_, plan)| skip_all(plan));
            }
            total.join(plan);
            Ok(0)
        })?;
        Ok(total)
    }

    /// Plans the request and passes it to `then` with its plan, in parts each of which fits or not.
    /// `then` returns how many pages have gone.
    fn for_each_part(
        &self,
        request: &MoveRequest,
        rooms: &mut CacheHeadroom,
        mut then: impl FnMut(&MoveRequest, PlanReport, bool) -> Result<u64>,
    ) -> Result<()> {
        let mut parts = vec![request.selection.ranges.clone()];
        // Of a half it is not known how much was mapped.
        let mut mapped_pages = self.mapped_pages;
        while let Some(ranges) = parts.pop() {
            let selection = Selection { ranges, ..request.selection.clone() };
            let part = MoveRequest { selection, ..request.clone() };
            let plan = self.plan_part(&part, std::mem::take(&mut mapped_pages))?;
            let ProcessPlan { moves, residency, .. } = plan.total();
            let fits = rooms.fits(&moves, &residency);
            let cut = match fits || rooms.are_full(&moves) {
                true => None,
                false => halves(&part.selection.ranges),
            };
            if let Some((first, second)) = cut {
                parts.extend([second, first]);
                continue;
            }
            rooms.record_residency(&residency);
            let gone_pages = then(&part, plan, fits)?;
            if fits {
                rooms.record_moves(&moves, gone_pages);
            }
        }
        Ok(())
    }

    /// Plans a part. If fewer pages are seen than were mapped, the kernel has unmapped some, for
    /// example to make a huge page of them for another process. They are mapped once more.
    fn plan_part(&self, part: &MoveRequest, mapped_pages: u64) -> Result<PlanReport> {
        let see = || plan(self.machine, self.processes, part, &MoveControl::default());
        let mut seen = see()?;
        for _ in 0..REPEATS_MAX {
            if seen.total().seen() >= mapped_pages || self.control.is_stopped() {
                break;
            }
            (self.map_again)(&part.selection.ranges);
            seen = see()?;
        }
        Ok(seen)
    }

    /// Returns the report of a move that did not take place for lack of room.
    fn skipped_report(&self, part: &MoveRequest, plan: PlanReport) -> MoveReport {
        let bytes = part.selection.ranges.iter().map(|range| range.bytes()).sum();
        self.control.add_total(bytes);
        self.control.add_examined(bytes);
        let processes = plan.processes.into_iter().map(|(pid, mut plan)| {
            skip_all(&mut plan);
            let stayed =
                plan.account.skipped_total() - plan.account.skipped_for(SkipReason::Swapped);
            ProcessReport {
                pid,
                account: plan.account,
                before: plan.residency.clone(),
                before_in_flight: plan.in_flight,
                after: plan.residency,
                unexamined_bytes: 0,
                verified: true,
                residue: Residue { expected: stayed, seen: stayed },
                life: Liveness::Running,
            }
        });
        MoveReport { processes: processes.collect(), ..MoveReport::default() }
    }
}

/// Changes a plan so that nothing moves.
fn skip_all(plan: &mut ProcessPlan) {
    let mut account = Account::default();
    account.skip(SkipReason::NoMemory, plan.pages());
    plan.account.add(&account);
    plan.moves.clear();
    plan.folios.clear();
}

/// Splits ranges into two halves; `None` if they are too short.
fn halves(ranges: &[Range]) -> Option<(Vec<Range>, Vec<Range>)> {
    if let [range] = ranges {
        let middle = (range.start + range.bytes() / 2) / STEP_BYTES * STEP_BYTES;
        let parts = (Range::new(range.start, middle), Range::new(middle, range.end));
        return (range.bytes() > PIECE_BYTES_MIN).then_some((vec![parts.0], vec![parts.1]));
    }
    let (first, second) = ranges.split_at(ranges.len() / 2);
    (!first.is_empty()).then(|| (first.to_vec(), second.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the halves cover everything, none is empty, and halving ends.
    #[test]
    fn halves_cover_what_they_came_from() {
        let range = |start: u64, mib: u64| Range::new(start, start + (mib << 20));
        let (first, second) = halves(&[range(4096, 17)]).unwrap();
        assert_eq!(first, [Range::new(4096, 8 << 20)], "8.5 MiB, down to a page table");
        assert_eq!(second, [Range::new(8 << 20, 4096 + (17 << 20))]);
        assert_eq!(halves(&[range(4096, 16)]), None);
        let three = [range(0, 1), range(1 << 30, 1), range(2 << 30, 1)];
        let (first, second) = halves(&three).unwrap();
        assert_eq!([first, second].concat(), three);
        assert_eq!(halves(&[]), None);
    }
}
