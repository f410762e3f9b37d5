//! One move from beginning to end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodeward_machine::{Error, Machine, Process, Result};
use nodeward_model::{Account, Mapping, NodeId, Page, Range, SkipReason};
use nodeward_policy::plan::{Plan, Rules};

use crate::crew::Crew;
use crate::drive::Driver;
use crate::pace::Pace;
use crate::report::{MoveReport, PlanReport, ProcessPlan, ProcessReport, add_counts};
use crate::survey::{Unit, units};
use crate::{Live, MoveRequest, verify};

/// Waits before pages that somebody else is moving are looked at again.
const LANDING_PAUSES_NS: [u64; 3] = [1_000_000, 10_000_000, 50_000_000];

/// Moves the selected memory of processes that are held.
///
/// # Errors
/// Only if nothing was done. A process that ended, a destination that filled up or a privilege that
/// was missing half-way are told in the report.
pub fn migrate(
    machine: &dyn Machine,
    processes: &[Arc<dyn Process>],
    request: &MoveRequest,
    live: &Live,
) -> Result<MoveReport> {
    let began_ns = machine.now_ns();
    let units = survey(machine, processes, request, live)?;
    let pace = Pace::new(request);
    let crew = Crew::new(machine, live, request, units.len());
    let work = Work { machine, processes, request, live, pace: &pace };
    let (results, workers) = crew.each(&units, |unit| work.unit(unit));
    let moved_ns = machine.now_ns();
    let (tallies, error) = collect(&units, results, processes.len());
    let moved: u64 = tallies.iter().map(|tally| tally.account.moved).sum();
    let error = match error {
        Some(error) if moved == 0 => return Err(error),
        error => error,
    };
    let mut report = work.report(tallies, &crew, error);
    report.moving_ns = moved_ns - began_ns;
    report.verifying_ns = machine.now_ns() - moved_ns;
    report.workers = workers;
    report.longest_hold_ns = pace.longest_hold_ns();
    Ok(report)
}

/// Tells what [`migrate`] would do, and does nothing.
///
/// # Errors
/// If a process cannot be looked into.
pub fn plan(
    machine: &dyn Machine,
    processes: &[Arc<dyn Process>],
    request: &MoveRequest,
    live: &Live,
) -> Result<PlanReport> {
    let units = survey(machine, processes, request, live)?;
    let pace = Pace::new(request);
    let work = Work { machine, processes, request, live, pace: &pace };
    let crew = Crew::new(machine, live, request, units.len());
    let (plans, _) = crew.each(&units, |unit| (work.look(unit), 0));
    let mut report = PlanReport::default();
    report.processes.extend(processes.iter().map(|p| (p.pid(), ProcessPlan::default())));
    for (unit, plan) in units.iter().zip(plans) {
        let plan = plan?;
        let total = &mut report.processes[unit.process].1;
        plan.moves.iter().for_each(|&folio| total.add(folio));
        total.account.add(&plan.account);
        add_counts(&mut total.residency, &plan.residency);
    }
    Ok(report)
}

fn survey(
    machine: &dyn Machine,
    processes: &[Arc<dyn Process>],
    request: &MoveRequest,
    live: &Live,
) -> Result<Vec<Unit>> {
    let mut all = Vec::new();
    for (index, process) in processes.iter().enumerate() {
        let page_bytes = machine.page_bytes();
        match units(&**process, index, &request.selection, page_bytes, request.workers_max()) {
            Ok(units) => all.extend(units),
            // One of several that ended meanwhile is told in the report.
            Err(error) if error.is_gone() && processes.len() > 1 => {}
            Err(error) => return Err(error),
        }
    }
    live.expect(all.iter().map(|unit| unit.bytes).sum());
    Ok(all)
}

/// What one unit, or all units of a process, came to.
#[derive(Debug, Default)]
struct Tally {
    account: Account,
    before: BTreeMap<NodeId, u64>,
}

type UnitResult = (Tally, Option<Error>);

struct Work<'a> {
    machine: &'a dyn Machine,
    processes: &'a [Arc<dyn Process>],
    request: &'a MoveRequest,
    live: &'a Live,
    pace: &'a Pace,
}

impl Work<'_> {
    /// Looks at a unit and moves what is to be moved.
    fn unit(&self, unit: &Unit) -> (UnitResult, u64) {
        let result = match self.look(unit) {
            Ok(plan) => self.carry_out(unit, plan),
            Err(error) if error.is_gone() => (Tally::default(), None),
            Err(error) => (Tally::default(), Some(error)),
        };
        if result.1.is_some() {
            self.live.stop();
        }
        self.live.examined(unit.bytes);
        let bytes = result.0.account.moved * self.machine.page_bytes();
        (result, bytes)
    }

    fn look(&self, unit: &Unit) -> Result<Plan> {
        let rules = Rules {
            pairs: self.request.pairs.clone(),
            everyones: self.machine.capabilities().move_everyones,
            folio_pages_max: self.pace.folio_pages_max(),
        };
        let mut plan = Plan::default();
        for piece in &unit.pieces {
            self.consider(unit, piece, |_| true, &rules, &mut plan)?;
        }
        for pause_ns in LANDING_PAUSES_NS {
            self.look_again(unit, pause_ns, &rules, &mut plan)?;
        }
        // Whoever is moving them has still not let go.
        plan.account.skip(SkipReason::Pinned, plan.in_flight.len() as u64);
        plan.sort();
        Ok(plan)
    }

    /// Waits for the pages that were in flight, and considers them where they landed.
    fn look_again(&self, unit: &Unit, pause_ns: u64, rules: &Rules, plan: &mut Plan) -> Result<()> {
        if plan.in_flight.is_empty() {
            return Ok(());
        }
        self.machine.sleep_ns(pause_ns);
        let flown: BTreeSet<u64> = std::mem::take(&mut plan.in_flight).into_iter().collect();
        let holds_some = |range: Range| flown.range(range.start..range.end).next().is_some();
        for piece in unit.pieces.iter().filter(|(_, range)| holds_some(*range)) {
            self.consider(unit, piece, |address| flown.contains(&address), rules, plan)?;
        }
        Ok(())
    }

    /// Looks at a piece and decides about those of its pages that are wanted.
    fn consider(
        &self,
        unit: &Unit,
        (mapping, range): &(Arc<Mapping>, Range),
        is_wanted: impl Fn(u64) -> bool,
        rules: &Rules,
        plan: &mut Plan,
    ) -> Result<()> {
        let page_bytes = self.machine.page_bytes();
        let mut pages = Vec::new();
        self.processes[unit.process].pages(mapping, *range, &mut pages)?;
        for (address, page) in (range.start..).step_by(page_bytes as usize).zip(&mut pages) {
            if !is_wanted(address) {
                *page = Page::ABSENT;
            }
        }
        plan.consider(&pages, range.start, page_bytes, rules);
        Ok(())
    }

    fn carry_out(&self, unit: &Unit, mut plan: Plan) -> UnitResult {
        let driver = Driver {
            machine: self.machine,
            process: &*self.processes[unit.process],
            live: self.live,
            pace: self.pace,
            everyones: self.machine.capabilities().move_everyones,
            hugetlb: unit.hugetlb,
        };
        let (account, error) = driver.drive(&plan.moves);
        plan.account.add(&account);
        (Tally { account: plan.account, before: plan.residency }, error)
    }

    fn report(&self, tallies: Vec<Tally>, crew: &Crew<'_>, error: Option<Error>) -> MoveReport {
        let reports = self.processes.iter().zip(tallies);
        MoveReport {
            processes: reports.map(|(p, tally)| self.process(&**p, tally, crew)).collect(),
            moving_ns: 0,
            verifying_ns: 0,
            workers: 0,
            longest_hold_ns: None,
            interrupted: self.live.is_stopped() && error.is_none(),
            error,
        }
    }

    fn process(&self, process: &dyn Process, tally: Tally, crew: &Crew<'_>) -> ProcessReport {
        let after = verify::residency(crew, process, &self.request.selection);
        ProcessReport {
            pid: process.pid(),
            residue: verify::residue(&tally.account, &after, &self.request.pairs),
            account: tally.account,
            before: tally.before,
            after,
            life: process.life(),
        }
    }
}

/// Adds up the units of each process; also returns the first error.
fn collect(
    units: &[Unit],
    results: Vec<UnitResult>,
    processes: usize,
) -> (Vec<Tally>, Option<Error>) {
    let mut tallies: Vec<Tally> = (0..processes).map(|_| Tally::default()).collect();
    let mut first_error = None;
    for (unit, (tally, error)) in units.iter().zip(results) {
        let total = &mut tallies[unit.process];
        total.account.add(&tally.account);
        add_counts(&mut total.before, &tally.before);
        first_error = first_error.or(error);
    }
    (tallies, first_error)
}
