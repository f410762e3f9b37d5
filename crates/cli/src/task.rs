//! A move with all its parameters: which pages of which processes go where. It is planned or
//! carried out, written into the ledger, and reported.

use std::sync::Arc;

use anyhow::Result;
use nodeward_engine::list::ListCounts;
use nodeward_engine::{Journal, Live, MoveReport, Order, Selection, migrate, plan};
use nodeward_linux::file_cache::Looked;
use nodeward_machine::{Error, Life, Machine, Process};
use nodeward_model::{Name, Topology};
use nodeward_wire::ledger::{Header, Id, Store};

use crate::args::When;
use crate::exit::Exit;
use crate::output::hot::HotTold;
use crate::output::moves::{self, Named, Told};
use crate::output::shared::{Segments, Shared};
use crate::progress;
use crate::settings::MoveSettings;
use crate::state::{self, now_unix_ms};
use crate::verbs::migrate::together::{Nodes, Together};

/// The task.
pub struct Task {
    /// The processes, held.
    pub processes: Vec<Arc<dyn Process>>,
    /// The orders for the pages of each process.
    pub orders: Vec<Arc<[Order]>>,
    /// The selected memory.
    pub selection: Selection,
    /// The list that named the pages, if there was one.
    pub list: Option<ListCounts>,
    /// The decision about hot pages, if they were requested.
    pub hot: Option<HotTold>,
    /// The operation that is undone, if any.
    pub undoes: Option<Id>,
    /// Memory that the processes share, if all of it is selected.
    pub together: Option<Together>,
}

/// Options of a task.
pub struct How {
    /// Workers, rate and stall budget.
    pub settings: MoveSettings,
    /// Only report what would be done.
    pub dry_run: bool,
    /// When to show progress.
    pub progress: When,
    /// Print JSON.
    pub json: bool,
    /// Write a ledger, so that the move can be undone.
    pub ledger: bool,
}

impl Task {
    /// Creates a task for all memory of processes, without a list.
    pub fn new(processes: Vec<Arc<dyn Process>>, orders: Vec<Arc<[Order]>>) -> Self {
        let selection = Selection::default();
        let (list, hot, undoes, together) = (None, None, None, None);
        Self { processes, orders, selection, list, hot, undoes, together }
    }

    /// Plans or moves, and prints the result.
    pub fn carry_out(&self, machine: &dyn Machine, topology: &Topology, how: &How) -> Result<Exit> {
        let (orders, selection) = (self.orders.clone(), self.selection.clone());
        let request = how.settings.request(machine, topology, orders, selection)?;
        let live = Live::default();
        if how.dry_run {
            let report = plan(machine, &self.processes, &request, &live)?;
            let segments = self.together.as_ref().filter(|together| together.segments() > 0);
            let segments =
                segments.map(|found| found.job(&how.settings).plan(&live)).transpose()?;
            let segments = segments.map(|(_, plan)| plan);
            let named = self.named();
            moves::print_plan(&report, named, segments.as_ref(), machine.page_bytes(), how.json)?;
            return Ok(Exit::Done);
        }
        let journal = how.ledger.then(|| self.begin(machine)).flatten();
        let work = || {
            let before = self.count(&live);
            let mut report = migrate(machine, &self.processes, &request, &live, journal.as_ref())?;
            let shared = self.together.as_ref().map(|together| {
                let segments = segments(together, how, &live, &mut report);
                let nodes = before.zip(self.count(&live));
                Shared { segments, nodes }
            });
            Ok::<_, Error>((report, shared))
        };
        let (report, shared) = progress::watch(&live, how.progress, work)??;
        let end =
            |journal: Journal| journal.end(report.account(), report.interrupted, now_unix_ms());
        let ledger = journal.map(end);
        let told = Told {
            report: &report,
            page_bytes: machine.page_bytes(),
            named: self.named(),
            ledger: ledger.as_ref(),
            shared: shared.as_ref(),
        };
        moves::print_report(&told, how.json)?;
        Ok(exit(&report, shared.as_ref(), self.list.map_or(0, |list| list.outside)))
    }

    fn count(&self, live: &Live) -> Option<Nodes> {
        self.together.as_ref()?.count(&self.processes, &self.selection, live)
    }

    fn named(&self) -> Named<'_> {
        Named { list: self.list, hot: self.hot.as_ref() }
    }

    /// Begins a ledger. If that fails, the move is made all the same, and the failure reported.
    fn begin(&self, machine: &dyn Machine) -> Option<Journal> {
        match self.try_to_begin(machine) {
            Ok(journal) => Some(journal),
            // The move itself will report that.
            Err(error) if Exit::of(&error) == Exit::Gone => None,
            Err(error) => {
                say!("nodeward: this move cannot be undone later: {error:#}");
                None
            }
        }
    }

    fn try_to_begin(&self, machine: &dyn Machine) -> Result<Journal> {
        let identities = self.processes.iter().map(|process| process.identity());
        let header = Header {
            page_bytes: machine.page_bytes(),
            began_unix_ms: now_unix_ms(),
            command: std::env::args_os().map(Name::from).collect(),
            processes: identities.collect::<Result<_, _>>()?,
            undoes: self.undoes,
        };
        let store: Store = state::ledgers()?;
        Ok(Journal::new(store.begin(&header)?))
    }
}

/// Moves the rest of the segments after the pages that processes map. Adds the time that takes, and
/// what ended it early, to the report.
fn segments(
    together: &Together,
    how: &How,
    live: &Live,
    report: &mut MoveReport,
) -> Option<Segments> {
    if together.segments() == 0 || live.is_stopped() || report.error.is_some() {
        return None;
    }
    let (looked, mut moved) =
        together.job(&how.settings).migrate(live, false).unwrap_or_else(|error| {
            (Looked::default(), MoveReport { error: Some(error), ..MoveReport::default() })
        });
    let (found, process) = (together.segments(), moved.processes.pop());
    report.go_on(moved);
    Some(Segments { found, looked, process })
}

/// Returns the exit code of a move; `outside` entries of its list named nothing.
fn exit(report: &MoveReport, shared: Option<&Shared>, outside: u64) -> Exit {
    let mut account = report.account();
    if let Some(segments) = shared.and_then(Shared::account) {
        account.add(segments);
    }
    if report.interrupted {
        Exit::Interrupted
    } else if report.processes.iter().all(|process| process.life != Life::Running) {
        Exit::Gone
    } else if account.skipped_total() + outside == 0 {
        Exit::Done
    } else if account.moved == 0 && account.already_there == 0 {
        Exit::NothingDone
    } else {
        Exit::SomeSkipped
    }
}
