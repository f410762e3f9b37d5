//! One move from start to end.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{Liveness, Machine, PagesByMapping, Process, Result};
use nodeward_model::{MappingKind, Nodemask, SkipReason};

use crate::deferred_retries::DeferredRetries;
use crate::exchange;
use crate::kernel_walk::{self, KernelWalk};
use crate::move_context::MoveContext;
use crate::outcomes::{ProcessOutcomes, UnitOutcome, add_counts};
use crate::pacer::MovePacer;
use crate::pinned_mappings::PinnedMappings;
use crate::report::{MoveReport, PlanReport, ProcessPlan, ProcessReport};
use crate::shared_ledger::SharedLedger;
use crate::stop_limit::{StopLimit, VERIFY_NS};
use crate::survey::{self, SurveyMethod, SurveyScope, Unit};
use crate::worker_pool::WorkerPool;
use crate::{MoveControl, MoveRequest, Selection, verify};

/// Limit on the pages that are left to a walk inside the kernel, which nothing stops: 256 MiB of
/// base pages, about 0.2 s.
const WALKED_PAGES_MAX: u64 = 1 << 16;
/// Limit on the memory that the kernel counts where it could list it: about 8 ms, in which the
/// process cannot change its mappings.
const COUNTED_BYTES_MAX: u64 = 1 << 30;

/// Moves the selected memory of processes, and keeps a ledger if there is one.
///
/// # Errors
/// Only if nothing was done. A process that ended, a destination that filled up or a privilege that
/// was missing half-way are in the report.
pub fn migrate(
    machine: &dyn Machine,
    processes: &[Arc<dyn Process>],
    request: &MoveRequest,
    live: &MoveControl,
    journal: Option<&SharedLedger>,
) -> Result<MoveReport> {
    let began_ns = machine.now_ns();
    let memory = survey(machine, processes, request, live)?;
    let units = &memory.units;
    let pace = MovePacer::new(request);
    let limit = StopLimit::new(machine, live);
    let pinned = pinned_mappings(machine, processes, request);
    let work = MoveContext {
        machine,
        processes,
        request,
        control: live,
        pacer: &pace,
        ledger: journal,
        stop_limit: &limit,
        pinned: pinned.as_ref(),
    };
    let is_exchange = exchange::is_exchange(request);
    let worker_pool =
        WorkerPool::new(machine, live, request, if is_exchange { usize::MAX } else { units.len() });
    let (mut tallies, workers) = match is_exchange {
        true => exchange::carry_out(&work, &worker_pool, units),
        false => carry_out(&work, &worker_pool, units),
    };
    walk(&work, &memory.walked, &mut tallies);
    account_unseen(&mut tallies, processes, request, &memory);
    let moved_ns = machine.now_ns();
    if tallies.moved() == 0
        && let Some(error) = tallies.error.take()
    {
        return Err(error);
    }
    let walked_pages = tallies.by_process.iter().map(|tally| tally.walked_pages).sum();
    let flows = tallies.flows();
    let is_over = || limit.is_over(VERIFY_NS);
    let process = |(index, tally)| {
        let scope = verify_scope(machine, processes, request, live, (index, &is_over));
        process_report(&worker_pool, &scope, tally, &limit)
    };
    let mut report = MoveReport {
        processes: tallies.by_process.into_iter().enumerate().map(process).collect(),
        moving_ns: moved_ns - began_ns,
        verifying_ns: machine.now_ns() - moved_ns,
        workers,
        walked_pages,
        flows,
        holds: pace.holds(),
        stall_ns: request.stall_ns,
        longest_hold_ns: pace.longest_hold_ns(),
        stall_needed_ns: pace.stall_needed_ns(),
        over_stall_pages: pace.over_stall_pages(),
        split_folios: pace.split_folios(),
        stopped: None,
        error: tallies.error,
    };
    if report.account().skipped_for(SkipReason::StallBudget) == 0 {
        report.stall_needed_ns = None; // they were split in the end
    }
    report.note_stop(live);
    Ok(report)
}

/// Returns what [`migrate`] would do, and does nothing. A stop ends it soon, with less.
///
/// # Errors
/// If a process cannot be read.
pub fn plan(
    machine: &dyn Machine,
    processes: &[Arc<dyn Process>],
    request: &MoveRequest,
    live: &MoveControl,
) -> Result<PlanReport> {
    let memory = survey(machine, processes, request, live)?;
    let units = &memory.units;
    let (pace, limit) = (MovePacer::new(request), StopLimit::new(machine, live));
    let work = MoveContext {
        machine,
        processes,
        request,
        control: live,
        pacer: &pace,
        ledger: None,
        stop_limit: &limit,
        pinned: None,
    };
    let worker_pool = WorkerPool::new(machine, live, request, units.len());
    let (plans, _) = worker_pool.run_all(units, |unit| (work.look(unit), 0));
    let mut report = PlanReport::default();
    report.processes.extend(processes.iter().map(|p| (p.pid(), ProcessPlan::default())));
    for (unit, plan) in units.iter().zip(plans) {
        let plan = plan?;
        let total = &mut report.processes[unit.process].1;
        plan.moves.iter().for_each(|&folio| total.add(folio));
        total.account.add(&plan.account);
        add_counts(&mut total.residency, &plan.residency);
        total.in_flight += plan.unlocated_pages;
    }
    for (index, mappings) in &memory.walked {
        let plan = &mut report.processes[*index].1;
        kernel_walk::add_to_plan(plan, mappings, &request.orders[*index][0]);
    }
    let unseen = unmapped_named_pages(processes, request, &memory);
    for ((_, plan), (reason, pages)) in report.processes.iter_mut().zip(unseen) {
        plan.account.skip(reason, pages);
    }
    Ok(report)
}

fn scope<'a>(
    machine: &dyn Machine,
    processes: &'a [Arc<dyn Process>],
    request: &'a MoveRequest,
    (index, is_over): (usize, &'a (dyn Fn() -> bool + Sync)),
) -> SurveyScope<'a> {
    SurveyScope {
        process: &*processes[index],
        index,
        selection: &request.selection,
        orders: &request.orders[index],
        page_bytes: machine.page_bytes(),
        workers: request.workers_max(),
        method: method(machine, request, index),
        is_over,
    }
}

/// Returns what the last look is at. Where the kernel can count all pages in one walk, nobody looks
/// for them; nothing ends a long walk, so after a stop none begins.
fn verify_scope<'a>(
    machine: &dyn Machine,
    processes: &'a [Arc<dyn Process>],
    request: &'a MoveRequest,
    live: &MoveControl,
    which: (usize, &'a (dyn Fn() -> bool + Sync)),
) -> SurveyScope<'a> {
    let mut scope = scope(machine, processes, request, which);
    let is_small = || scope.process.resident_bytes().is_ok_and(|it| it <= COUNTED_BYTES_MAX);
    let may_count = !scope.method.lists && !live.is_stopped() || is_small();
    if !may_count {
        scope.method.walked_pages_max = None;
    } else if is_whole(request, which.0) {
        scope.method.walked_pages_max = Some(u64::MAX);
    }
    scope
}

/// Chooses how the memory of a process is found. A walk inside the kernel moves all of its pages
/// from one node to another at once: it knows no selection, no named pages and no pace.
fn method(machine: &dyn Machine, request: &MoveRequest, index: usize) -> SurveyMethod {
    let has_pace = request.rate_bytes_per_s.is_some() || request.stall_ns.is_some();
    let Selection { move_shared, shared_bytes_max, skip_pinned, .. } = request.selection;
    let moves_all = shared_bytes_max.is_none() && !skip_pinned;
    let moves_alike = moves_all && (move_shared || !machine.capabilities().move_shared);
    let mut method = SurveyMethod::of(machine);
    if !method.lists
        && is_whole(request, index)
        && moves_alike
        && !has_pace
        && !exchange::is_exchange(request)
    {
        method.walked_pages_max = Some(WALKED_PAGES_MAX);
    }
    method
}

/// Returns whether all memory of a process is to move by one order.
fn is_whole(request: &MoveRequest, index: usize) -> bool {
    let Selection { kinds, ranges, .. } = &request.selection;
    let is_one_order = matches!(&*request.orders[index], [order] if order.pages.is_none());
    is_one_order && ranges.is_empty() && MappingKind::ALL.iter().all(|kind| kinds.contains(kind))
}

fn pinned_mappings(
    machine: &dyn Machine,
    processes: &[Arc<dyn Process>],
    request: &MoveRequest,
) -> Option<PinnedMappings> {
    let each = processes.iter().map(|process| &**process);
    request.selection.skip_pinned.then(|| PinnedMappings::new(each, machine.page_bytes()))
}

/// Mappings of processes, by their index, that are left to a walk inside the kernel.
type WalkedMappings = Vec<(usize, PagesByMapping)>;

/// The memory of all processes.
#[derive(Default)]
struct Surveyed {
    units: Vec<Unit>,
    walked: WalkedMappings,
    /// Bytes in memory of processes, by their index, whose turn had not come at a stop.
    unsearched: BTreeMap<usize, u64>,
}

fn survey(
    machine: &dyn Machine,
    processes: &[Arc<dyn Process>],
    request: &MoveRequest,
    live: &MoveControl,
) -> Result<Surveyed> {
    let mut all = Surveyed::default();
    let is_over = || live.is_stopped();
    for (index, process) in processes.iter().enumerate() {
        // The first ends its search by itself.
        if index > 0 && live.is_stopped() {
            all.unsearched.insert(index, process.resident_bytes().unwrap_or(0));
            continue;
        }
        match survey::survey(&scope(machine, processes, request, (index, &is_over))) {
            Ok((units, left)) => {
                all.units.extend(units);
                all.walked.extend((!left.is_empty()).then_some((index, left)));
            }
            // If one of several processes has ended meanwhile, the report says so.
            Err(error) if error.is_gone() && processes.len() > 1 => {}
            Err(error) => return Err(error),
        }
    }
    live.add_total(all.units.iter().map(|unit| unit.bytes).sum());
    Ok(all)
}

/// Moves the pages of mappings that are in no unit.
fn walk(work: &MoveContext<'_>, walked: &WalkedMappings, tallies: &mut ProcessOutcomes) {
    for (process, mappings) in walked {
        let order = &work.request.orders[*process][0];
        let walk = KernelWalk { work, process: *process, mappings, order };
        tallies.add(*process, &walk.carry_out(), None);
    }
}

/// Moves unit by unit. Also returns the number of workers in use at the end.
fn carry_out(
    work: &MoveContext<'_>,
    worker_pool: &WorkerPool<'_>,
    units: &[Unit],
) -> (ProcessOutcomes, u32) {
    let leftovers = DeferredRetries::new(work);
    let carry_out = |unit: &&Unit| {
        let (mut tally, outcome) = work.move_unit(unit);
        leftovers.defer(unit, outcome.refused, &mut tally.account);
        work.control.add_examined(unit.bytes);
        let bytes = tally.account.moved * work.machine.page_bytes();
        ((unit.process, tally, outcome.error), bytes)
    };
    let (alone, together): (Vec<&Unit>, Vec<&Unit>) =
        units.iter().partition(|u| u.must_run_alone());
    let (mut results, workers) = worker_pool.run_all(&together, carry_out);
    results.extend(worker_pool.run_one_by_one(&alone, carry_out));
    let mut tallies = ProcessOutcomes::new(work.processes.len());
    for (process, tally, error) in results {
        tallies.add(process, &tally, error);
    }
    leftovers.retry_all(&mut tallies);
    (tallies, workers)
}

/// Accounts for memory that no unit holds: pages that were named, and processes whose turn had not
/// come.
fn account_unseen(
    tallies: &mut ProcessOutcomes,
    processes: &[Arc<dyn Process>],
    request: &MoveRequest,
    memory: &Surveyed,
) {
    let unseen = unmapped_named_pages(processes, request, memory);
    for (tally, (reason, pages)) in tallies.by_process.iter_mut().zip(unseen) {
        tally.account.skip(reason, pages);
    }
    for (&index, &bytes) in &memory.unsearched {
        tallies.by_process[index].unexamined_bytes += bytes;
    }
}

/// Returns for each process the pages that were named and are in no mapping that could be read.
fn unmapped_named_pages(
    processes: &[Arc<dyn Process>],
    request: &MoveRequest,
    memory: &Surveyed,
) -> Vec<(SkipReason, u64)> {
    let of_process = |(index, process): (usize, &Arc<dyn Process>)| {
        let sets = || request.orders[index].iter().filter_map(|order| order.pages.as_ref());
        let units = memory.units.iter();
        let pieces = units.filter(|unit| unit.process == index).flat_map(|u| &u.pieces);
        let seen: u64 =
            pieces.map(|(_, range)| sets().map(|set| set.count_in(*range)).sum::<u64>()).sum();
        let reason = match process.liveness() {
            _ if memory.unsearched.contains_key(&index) => SkipReason::Interrupted,
            Liveness::Running => SkipReason::NotPresent,
            _ => SkipReason::Gone,
        };
        (reason, sets().map(|set| set.len()).sum::<u64>().saturating_sub(seen))
    };
    processes.iter().enumerate().map(of_process).collect()
}

fn process_report(
    worker_pool: &WorkerPool<'_>,
    scope: &SurveyScope<'_>,
    tally: UnitOutcome,
    limit: &StopLimit<'_>,
) -> ProcessReport {
    let after = verify::residency(worker_pool, scope, limit);
    let sources: Nodemask =
        scope.orders.iter().flat_map(|order| order.pairs.iter()).map(|(from, _)| from).collect();
    ProcessReport {
        pid: scope.process.pid(),
        residue: after
            .as_ref()
            .map(|after| verify::residue(&tally.account, &tally.on_destination, after, &sources))
            .unwrap_or_default(),
        account: tally.account,
        before: tally.before,
        before_in_flight: tally.before_in_flight,
        unexamined_bytes: tally.unexamined_bytes,
        verified: after.is_some(),
        after: after.unwrap_or_default(),
        life: scope.process.liveness(),
    }
}
