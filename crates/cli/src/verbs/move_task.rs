//! A move with all its parameters: which pages of which processes go where. It is planned or
//! carried out, written into the ledger, and reported.

use std::sync::Arc;

use anyhow::Result;
use nodeward_linux::file_cache::CacheScan;
use nodeward_machine::{Error, Liveness, Machine, Process};
use nodeward_model::{Name, ProcessIdentity, Topology};
use nodeward_mover::address_list::ListCounts;
use nodeward_mover::{
    CollapseReport, LedgerReport, MoveControl, MoveOrder, MoveReport, MoveRequest, PlanReport,
    ProcessPlan, Selection, SharedLedger, StopReason, check_collapse, check_split, collapse,
    migrate, plan,
};
use nodeward_records::ledger::{Header, LedgerStore, OperationId};

use crate::args::MoveRunArgs;
use crate::machines::SelectedMachine;
use crate::machines::page_cache_move::PageCacheMove;
use crate::machines::segment_rest::SegmentRestMove;
use crate::machines::shared_memory::SharedMemory;
use crate::message::exit::Exit;
use crate::output::hot::HotReport;
use crate::output::moves::{self, MoveOutput, SelectionReport};
use crate::output::placement::RestoreReport;
use crate::output::shared_memory::{SegmentsReport, SharedMemoryReport};
use crate::output::spread::SpreadReport;
use crate::progress::{self, ProgressMode};
use crate::results::NodePageCounts;
use crate::settings::MoveSettings;
use crate::settings::state_dir::{self, now_unix_ms};

/// The task.
pub struct MoveTask {
    /// The processes, held.
    pub processes: Vec<Arc<dyn Process>>,
    /// The orders for the pages of each process.
    pub orders: Vec<Arc<[MoveOrder]>>,
    /// The selected memory.
    pub selection: Selection,
    /// The list that named the pages, if there was one.
    pub list: Option<ListCounts>,
    /// The decision about hot pages, if they were requested.
    pub hot: Option<HotReport>,
    /// The operation that is undone, if any.
    pub undoes: Option<OperationId>,
    /// Memory that the processes share, if all of it is selected.
    pub shared_memory: Option<SharedMemory>,
    /// What is spread, if anything.
    pub spread: Option<SpreadReport>,
    /// The placement that is restored, if any.
    pub placement: Option<RestoreReport>,
    /// Named pages of segments that no process maps.
    pub segment_rest: Option<SegmentRestMove>,
    /// Whether huge pages that would be held for too long are split.
    pub split_huge: bool,
    /// Whether what arrived is then collapsed into huge pages.
    pub collapse: bool,
    /// The command that the ledger names, if it is not this program's command line.
    pub command: Option<Vec<Name>>,
}

/// What a task did.
pub struct CarriedOut {
    /// Of the pages of processes.
    pub report: MoveReport,
    /// Of memory that they share.
    pub shared: Option<SharedMemoryReport>,
    /// Its ledger, if there is one.
    pub ledger: Option<LedgerReport>,
    /// What was collapsed into huge pages, if that was requested.
    pub collapse: Option<CollapseReport>,
}

/// Options of a task.
pub struct MoveTaskOptions {
    /// Workers, rate and stall budget.
    pub settings: MoveSettings,
    /// Only report what would be done.
    pub dry_run: bool,
    /// When to show progress.
    pub progress: ProgressMode,
    /// Print JSON.
    pub json: bool,
    /// Write a ledger, so that the move can be undone.
    pub writes_ledger: bool,
}

impl MoveTaskOptions {
    /// Returns the options that these arguments give on a machine. A move on a simulated machine
    /// cannot be undone, because the machine does not outlive this command.
    pub fn new(args: &MoveRunArgs, settings: &MoveSettings, chosen: &SelectedMachine) -> Self {
        Self {
            settings: settings.clone(),
            dry_run: args.dry_run,
            progress: args.progress.mode(),
            json: args.output.json,
            writes_ledger: !args.no_ledger && matches!(chosen, SelectedMachine::Local(_)),
        }
    }
}

impl MoveTask {
    /// Creates a task for all memory of processes, without a list.
    pub fn new(processes: Vec<Arc<dyn Process>>, orders: Vec<Arc<[MoveOrder]>>) -> Self {
        let selection = Selection::default();
        Self {
            processes,
            orders,
            selection,
            list: None,
            hot: None,
            undoes: None,
            shared_memory: None,
            spread: None,
            placement: None,
            segment_rest: None,
            split_huge: false,
            collapse: false,
            command: None,
        }
    }

    /// Plans or moves, and prints the result.
    pub fn execute(
        &self,
        machine: &dyn Machine,
        topology: &Topology,
        how: &MoveTaskOptions,
        live: &MoveControl,
    ) -> Result<Exit> {
        if how.dry_run {
            let (report, segments) = self.plan(machine, topology, &how.settings, live)?;
            let named = self.selection();
            moves::print_plan(&report, named, segments.as_ref(), machine.page_bytes(), how.json)?;
            return Ok(Exit::Done);
        }
        let work = || self.carry_out(machine, topology, (&how.settings, how.writes_ledger), live);
        let done = progress::run_with_progress(live, how.progress, work)??;
        let told = MoveOutput {
            report: &done.report,
            page_bytes: machine.page_bytes(),
            selection: self.selection(),
            ledger: done.ledger.as_ref(),
            by_agent: false,
            shared_memory: done.shared.as_ref(),
            collapse: done.collapse.as_ref(),
        };
        moves::print_report(&told, how.json)?;
        Ok(exit(&done.report, done.shared.as_ref(), &self.unmoved()))
    }

    /// Returns what it would do, and what with the rest of shared segments.
    ///
    /// # Errors
    /// If a process cannot be read.
    pub fn plan(
        &self,
        machine: &dyn Machine,
        topology: &Topology,
        settings: &MoveSettings,
        live: &MoveControl,
    ) -> Result<(PlanReport, Option<ProcessPlan>)> {
        let (orders, selection) = (self.orders.clone(), self.selection.clone());
        let request = settings.request(machine, topology, orders, selection)?;
        self.check_advice()?;
        let request = MoveRequest { split_huge: self.split_huge, ..request };
        let report = plan(machine, &self.processes, &request, live)?;
        Ok((report, self.plan_segments(settings, live)?))
    }

    /// Moves. The settings come with whether there is to be a ledger.
    ///
    /// # Errors
    /// If nothing could be attempted.
    pub fn carry_out(
        &self,
        machine: &dyn Machine,
        topology: &Topology,
        (settings, writes_ledger): (&MoveSettings, bool),
        live: &MoveControl,
    ) -> Result<CarriedOut, Error> {
        let (orders, selection) = (self.orders.clone(), self.selection.clone());
        let request = settings.request(machine, topology, orders, selection)?;
        self.check_advice()?;
        let request = MoveRequest { split_huge: self.split_huge, ..request };
        let journal = writes_ledger.then(|| self.begin_journal(machine)).flatten();
        let before = self.count(live);
        let mut report = migrate(machine, &self.processes, &request, live, journal.as_ref())?;
        let is_shared = self.shared_memory.is_some() || self.segment_rest.is_some();
        let shared = is_shared.then(|| {
            let segments = self.move_segments(settings, live, &mut report);
            let nodes = before.zip(self.count(live));
            SharedMemoryReport { segments, pages_before_and_after: nodes }
        });
        let end = |journal: SharedLedger| {
            journal.end(report.account(), report.stopped.is_some(), now_unix_ms())
        };
        let ledger = journal.and_then(end);
        let collapse = self.collapse.then(|| collapse(machine, &self.processes, &request, live));
        if collapse.as_ref().is_some_and(|collapse| collapse.interrupted) {
            report.stopped = live.stop_reason();
        }
        Ok(CarriedOut { report, shared, ledger, collapse })
    }

    /// Checks before anything moves that huge pages can be split and what arrives collapsed, as far
    /// as that was requested.
    fn check_advice(&self) -> Result<(), Error> {
        if self.split_huge {
            check_split(&self.processes)?;
        }
        if self.collapse { check_collapse(&self.processes) } else { Ok(()) }
    }

    fn count(&self, live: &MoveControl) -> Option<NodePageCounts> {
        self.shared_memory.as_ref()?.count(&self.processes, &self.selection, live)
    }

    fn selection(&self) -> SelectionReport<'_> {
        SelectionReport {
            list: self.list,
            hot: self.hot.as_ref(),
            spread: self.spread.as_ref(),
            placement: self.placement.as_ref(),
        }
    }

    /// Returns an account of what was requested and is in no order.
    fn unmoved(&self) -> Unmoved {
        Unmoved::by(self.placement.as_ref(), self.list.map_or(0, |list| list.outside))
    }

    fn plan_segments(
        &self,
        settings: &MoveSettings,
        live: &MoveControl,
    ) -> Result<Option<ProcessPlan>> {
        if let Some(rest) = &self.segment_rest {
            return Ok(Some(rest.plan(settings, live)?));
        }
        let segments = self.shared_memory.as_ref().filter(|together| together.segments() > 0);
        let planned = segments.map(|found| found.segments_move(settings).plan(live)).transpose()?;
        Ok(planned.map(|(_, plan)| plan))
    }

    /// Moves the rest of the segments after the pages that processes map. Adds the time that takes,
    /// and what ended it early, to the report.
    fn move_segments(
        &self,
        settings: &MoveSettings,
        live: &MoveControl,
        report: &mut MoveReport,
    ) -> Option<SegmentsReport> {
        match (&self.segment_rest, &self.shared_memory) {
            (Some(rest), _) => {
                add_segments(rest.segments(), live, report, || rest.migrate(settings, live))
            }
            (None, Some(together)) => {
                move_segments(together, settings, live, report, |job| job.migrate(live, false))
            }
            (None, None) => None,
        }
    }

    fn begin_journal(&self, machine: &dyn Machine) -> Option<SharedLedger> {
        let identities = self.processes.iter().map(|process| process.identity());
        // If a process is gone, the move itself will report that.
        let identities = identities.collect::<Result<Vec<_>, _>>();
        match identities {
            Err(error) if error.is_gone() => None,
            identities => match self.command.clone() {
                Some(command) => begin_journal_of(machine, identities, self.undoes, command),
                None => begin_journal(machine, identities, self.undoes),
            },
        }
    }
}

/// Begins a ledger of this command. If that fails, the move is made all the same, and the failure
/// reported.
pub fn begin_journal(
    machine: &dyn Machine,
    processes: Result<Vec<ProcessIdentity>, Error>,
    undoes: Option<OperationId>,
) -> Option<SharedLedger> {
    let command = std::env::args_os().map(Name::from).collect();
    begin_journal_of(machine, processes, undoes, command)
}

/// Begins a ledger of a command, likewise.
pub fn begin_journal_of(
    machine: &dyn Machine,
    processes: Result<Vec<ProcessIdentity>, Error>,
    undoes: Option<OperationId>,
    command: Vec<Name>,
) -> Option<SharedLedger> {
    let begin = || -> Result<SharedLedger> {
        let page_bytes = machine.page_bytes();
        let (processes, began_unix_ms) = (processes?, now_unix_ms());
        let header = Header { page_bytes, began_unix_ms, command, processes, undoes };
        let store: LedgerStore = state_dir::ledgers()?;
        Ok(SharedLedger::new(store.begin(&header)?))
    };
    let say_why = |error| say!("nodeward: this move cannot be undone later: {error:#}");
    begin().map_err(say_why).ok()
}

/// Moves the rest of the segments, by `migrate`, after the pages that processes map. Adds the time
/// that takes, and what ended it early, to the report.
pub fn move_segments<'a>(
    together: &'a SharedMemory,
    settings: &'a MoveSettings,
    live: &MoveControl,
    report: &mut MoveReport,
    migrate: impl FnOnce(PageCacheMove<'a>) -> Result<(CacheScan, MoveReport), Error>,
) -> Option<SegmentsReport> {
    let migrate = || migrate(together.segments_move(settings));
    add_segments(together.segments(), live, report, migrate)
}

/// Does the same with so many segments.
fn add_segments(
    found: usize,
    live: &MoveControl,
    report: &mut MoveReport,
    migrate: impl FnOnce() -> Result<(CacheScan, MoveReport), Error>,
) -> Option<SegmentsReport> {
    if found == 0 || report.error.is_some() {
        return None;
    }
    if live.is_stopped() {
        report.stopped = live.stop_reason();
        return None;
    }
    let (looked, mut moved) = migrate().unwrap_or_else(|error| {
        (CacheScan::default(), MoveReport { error: Some(error), ..MoveReport::default() })
    });
    let process = moved.processes.pop();
    report.add_costs(moved);
    Some(SegmentsReport { found, scan: looked, process })
}

/// Says that a stop came while the command looked, before anything was moved.
pub fn stopped_before(live: &MoveControl) -> Exit {
    match live.stop_reason() {
        Some(StopReason::Deadline) => {
            say!("nodeward: the deadline came before anything was moved; give it more time");
            Exit::NothingDone
        }
        Some(StopReason::Requested) | None => Exit::Interrupted,
    }
}

/// What was requested, and is not among the pages that a move selected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmoved {
    /// Of this nothing is left to move, though it was named: addresses of a list that the process
    /// does not have, saved memory and threads without a counterpart.
    pub left: u64,
    /// Pages that were found where they belong.
    pub in_place: u64,
}

impl Unmoved {
    /// Counts what a placement and a list named without success.
    pub fn by(placement: Option<&RestoreReport>, outside_list: u64) -> Self {
        Self {
            left: outside_list + placement.map_or(0, RestoreReport::left),
            in_place: placement.map_or(0, RestoreReport::in_place),
        }
    }
}

/// Returns the exit code of a move.
pub fn exit(report: &MoveReport, shared: Option<&SharedMemoryReport>, unmoved: &Unmoved) -> Exit {
    let mut account = report.account();
    if let Some(segments) = shared.and_then(SharedMemoryReport::account) {
        account.add(segments);
    }
    if report.stopped == Some(StopReason::Requested) {
        Exit::Interrupted
    } else if report.processes.iter().all(|process| process.life != Liveness::Running) {
        Exit::Gone
    } else if account.skipped_total() + unmoved.left == 0 && report.stopped.is_none() {
        Exit::Done
    } else if account.moved + account.already_there + unmoved.in_place == 0 {
        Exit::NothingDone
    } else {
        Exit::SomeSkipped
    }
}
