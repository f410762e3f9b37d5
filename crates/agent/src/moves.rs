//! io.nodeward.Moves: moves that users ordered, under way and ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use nodeward_machine::{Error, Machine, Process};
use nodeward_model::units::format_ns;
use nodeward_model::{NodeId, Nodemask, Pid, Range};
use nodeward_mover::placement::FoundPlacement;
use nodeward_mover::{
    Jobs, MoveControl, MoveDeadline, MoveReport, MoveRequest, MoveSums, Selection, SharedLedger,
    migrate, plan,
};
use nodeward_policy::workers;
use nodeward_records::ledger::{OperationId, OperationState};

use crate::caller::Caller;
use crate::errors::CallError;
use crate::gate::{self, Admitted};
use crate::hooks::{Journal, JournalRequest};
use crate::limits::{
    ACCOUNT_KEPT, ACCOUNTS_OF_USER_MAX, MOVES_MAX, MoveLimits, WORKERS_OF_USER_MAX,
};
use crate::move_work::{MoveWork, WorkOrders};
use crate::request::named_kinds;
use crate::wire::{AddressRange, Order, WirePair, WirePlan, WireProgress, WireReport};

/// The moves of all users.
pub struct Moves {
    machine: Arc<dyn Machine>,
    limits: MoveLimits,
    journal: Journal,
    table: Mutex<Table>,
    totals: Mutex<MoveSums>,
}

#[derive(Default)]
struct Table {
    last: u64,
    records: BTreeMap<u64, Arc<OrderedMove>>,
    threads: BTreeMap<u64, JoinHandle<()>>,
    is_closed: bool,
}

/// A move that a user ordered, under way or ended.
pub struct OrderedMove {
    user: u32,
    control: MoveControl,
    end: OnceLock<(Instant, Result<WireReport, CallError>)>,
}

/// An order whose processes are held, and that can be carried out.
struct Prepared {
    processes: Vec<Arc<dyn Process>>,
    shown: Vec<Pid>,
    work: MoveWork,
    selection: Selection,
    jobs: Jobs,
    rate_bytes_per_s: Option<u64>,
    stall_ns: Option<u64>,
    /// The number of CPUs that its workers may use.
    cpus_max: usize,
    /// The command of the move, for the ledger.
    command: Vec<String>,
    /// The operation that it takes back.
    undoes: Option<OperationId>,
    /// Whether more had moved than the ledger of that operation holds.
    lacks_moves: bool,
}

/// A move that was carried out.
struct Migrated {
    report: MoveReport,
    ledger: Option<SharedLedger>,
    /// What of a placement was here, if one was restored.
    found: Option<FoundPlacement>,
}

impl OrderedMove {
    /// Returns the progress of the move.
    pub fn progress(&self) -> WireProgress {
        WireProgress {
            running: self.end.get().is_none(),
            examined_bytes: self.control.examined_bytes(),
            total_bytes: self.control.total_bytes(),
            moved_bytes: self.control.moved_bytes(),
            workers: self.control.workers(),
        }
    }

    /// Asks the move to end.
    pub fn cancel(&self) {
        self.control.stop();
    }

    fn is_running(&self) -> bool {
        self.end.get().is_none()
    }

    fn is_outdated(&self, now: Instant) -> bool {
        self.end.get().is_some_and(|(at, _)| now.duration_since(*at) >= ACCOUNT_KEPT)
    }
}

impl Moves {
    /// Creates the table, without moves.
    pub fn new(machine: Arc<dyn Machine>, limits: MoveLimits, journal: Journal) -> Self {
        Self { machine, limits, journal, table: Mutex::default(), totals: Mutex::default() }
    }

    /// Returns what an order would do.
    ///
    /// # Errors
    /// If a process is not admitted, the look at its memory takes too long, or the machine fails.
    pub fn plan(&self, caller: &Caller, order: &Order) -> Result<WirePlan, CallError> {
        let prepared = self.prepare(caller, order)?;
        let deadline = MoveDeadline::in_real_time(self.limits.look_ns);
        let control = MoveControl::until(Some(deadline));
        let shown = &prepared.shown;
        let failed = |error| CallError::failed(&error, shown[0]);
        let (request, found) = self.request(&prepared, &control).map_err(failed)?;
        let planned = plan(&*self.machine, &prepared.processes, &request, &control);
        let planned = planned.map_err(failed)?;
        if control.is_stopped() {
            return Err(CallError::invalid(format!(
                "pids: a look at their memory takes longer than {}; name fewer processes or kinds, \
                 or some ranges, or start the move without a plan",
                format_ns(self.limits.look_ns)
            )));
        }
        let told = WirePlan::new(&planned, shown, self.machine.page_bytes());
        Ok(WirePlan { lacks_moves: prepared.lacks_moves, found, ..told })
    }

    /// Begins a move, and returns its number.
    ///
    /// # Errors
    /// If a process is not admitted, or too many moves are under way.
    pub fn start(self: &Arc<Self>, caller: &Caller, order: &Order) -> Result<u64, CallError> {
        self.check_room(&self.lock(), caller)?;
        let prepared = self.prepare(caller, order)?;
        let mut table = self.lock();
        self.check_room(&table, caller)?;
        table.drop_outdated(caller.user());
        table.last += 1;
        let number = table.last;
        let record = Arc::new(OrderedMove {
            user: caller.user(),
            control: MoveControl::default(),
            end: OnceLock::new(),
        });
        let (moves, kept) = (Arc::clone(self), Arc::clone(&record));
        let work = move || moves.carry_out(number, &kept, &prepared);
        let thread = thread::Builder::new().name("nodeward-move".to_owned()).spawn(work);
        let thread =
            thread.map_err(|_| CallError::busy("no thread can be started for the move"))?;
        table.records.insert(number, record);
        table.threads.insert(number, thread);
        Ok(number)
    }

    /// Returns a move of a user; root may have the moves of all users.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&self, caller: &Caller, number: u64) -> Result<Arc<OrderedMove>, CallError> {
        let table = self.lock();
        let is_theirs =
            |record: &&Arc<OrderedMove>| caller.rights.everything || record.user == caller.user();
        let found = table.records.get(&number).filter(is_theirs).cloned();
        found.ok_or(CallError::NoSuchMove { move_id: number })
    }

    /// Returns the account of a move that has ended.
    ///
    /// # Errors
    /// If there is no such move, it runs, or it did nothing.
    pub fn account(&self, caller: &Caller, number: u64) -> Result<WireReport, CallError> {
        match self.find(caller, number)?.end.get() {
            None => Err(CallError::StillRunning { move_id: number }),
            Some((_, report)) => report.clone(),
        }
    }

    /// Stops all moves between two batches, waits for their ends, and begins no other.
    pub fn end_all(&self) {
        let threads = {
            let mut table = self.lock();
            table.is_closed = true;
            table.records.values().for_each(|record| record.cancel());
            std::mem::take(&mut table.threads)
        };
        for thread in threads.into_values() {
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_room(&self, table: &Table, caller: &Caller) -> Result<(), CallError> {
        let running = || table.records.values().filter(|record| record.is_running());
        let of_user = running().filter(|record| record.user == caller.user()).count();
        let most = self.limits.moves_of_user;
        if table.is_closed {
            Err(CallError::busy("the agent is about to end"))
        } else if running().count() >= MOVES_MAX {
            Err(CallError::busy(format!("{MOVES_MAX} moves are under way; try again later")))
        } else if !caller.rights.everything && of_user >= most {
            let words = format!("{most} moves of yours are under way; wait for one, or cancel it");
            Err(CallError::busy(words))
        } else {
            Ok(())
        }
    }

    fn prepare(&self, caller: &Caller, order: &Order) -> Result<Prepared, CallError> {
        let (admitted, work, lacks_moves) = match order.undo {
            Some(number) => self.admit_undone(caller, number)?,
            None => {
                let pids = order.pids.as_deref().unwrap_or_default();
                let admitted = gate::admit_all(&*self.machine, caller, pids)?;
                let failed = |error| CallError::failed(&error, caller.own_pid());
                let topology = self.machine.topology().map_err(failed)?;
                let page_bytes = self.machine.page_bytes();
                let work = MoveWork::of_order(order, admitted.len(), &topology, page_bytes)?;
                (admitted, work, false)
            }
        };
        let everything = caller.rights.everything;
        let limit = self.limits.rate_of_move().filter(|_| !everything);
        let (processes, shown): (Vec<_>, Vec<_>) =
            admitted.into_iter().map(|Admitted { process, shown }| (process, shown)).unzip();
        let selection = selection(order, everything);
        if selection.names_no_memory(&processes, self.machine.page_bytes()) {
            return Err(CallError::invalid("ranges: no memory that is selected is in them"));
        }
        let command = command(caller, order, &shown);
        Ok(Prepared {
            processes,
            shown,
            work,
            selection,
            jobs: jobs(order, everything),
            rate_bytes_per_s: [order.rate, limit].into_iter().flatten().min(),
            stall_ns: order.stall,
            cpus_max: if everything { usize::MAX } else { WORKERS_OF_USER_MAX },
            command,
            undoes: order.undo.and_then(OperationId::of_number),
            lacks_moves,
        })
    }

    /// Returns the request to the mover, and what of a placement is here if one is restored. Looks
    /// where pages are, if that is needed.
    fn request(
        &self,
        prepared: &Prepared,
        control: &MoveControl,
    ) -> Result<(MoveRequest, Option<FoundPlacement>), Error> {
        let (machine, selection) = (&*self.machine, &prepared.selection);
        let WorkOrders { orders, found } =
            prepared.work.orders(machine, &prepared.processes, selection, control)?;
        let pairs = orders.iter().flat_map(|orders| orders.iter()).flat_map(|it| it.pairs.iter());
        let to: Nodemask = pairs.map(|(_, to)| to).collect();
        let mut cpus = workers::worker_cpus(&machine.topology()?, &to, &machine.usable_cpus()?);
        cpus.truncate(prepared.cpus_max);
        let request = MoveRequest {
            orders,
            selection: selection.clone(),
            jobs: prepared.jobs,
            cpus,
            rate_bytes_per_s: prepared.rate_bytes_per_s,
            stall_ns: prepared.stall_ns,
            split_huge: false,
        };
        Ok((request, found))
    }

    /// Admits the processes of an operation that the caller may touch, with what moved of them, and
    /// returns whether more had moved than its ledger holds. Whoever may touch none learns nothing.
    fn admit_undone(
        &self,
        caller: &Caller,
        number: u64,
    ) -> Result<(Vec<Admitted>, MoveWork, bool), CallError> {
        let unknown = || CallError::NoSuchOperation { undo: number };
        let id = OperationId::of_number(number).ok_or_else(unknown)?;
        let operation = (self.journal.read)(id).ok_or_else(unknown)?;
        let own = |(identity, moved)| {
            gate::admit_same(&*self.machine, caller, identity).map(|admitted| (admitted, moved))
        };
        let processes = operation.header.processes.iter().zip(operation.processes);
        let (admitted, moved): (Vec<_>, Vec<_>) = processes.filter_map(own).unzip();
        if admitted.is_empty() || operation.state == OperationState::Running {
            return Err(unknown());
        }
        let lacks_moves = !operation.is_complete || operation.damage.is_some();
        Ok((admitted, MoveWork::Undo(moved), lacks_moves))
    }

    fn carry_out(&self, number: u64, record: &OrderedMove, prepared: &Prepared) {
        let (machine, shown) = (&*self.machine, &prepared.shown);
        let end = match self.migrate(prepared, &record.control) {
            Ok(Migrated { report, ledger, found }) => {
                self.count(&report);
                let ledger = ledger.and_then(|ledger| (self.journal.end)(ledger, &report));
                let ledger = ledger.map(|ended| ended.id.number());
                let told = WireReport::new(&report, shown, machine.page_bytes());
                Ok(WireReport { ledger, lacks_moves: prepared.lacks_moves, found, ..told })
            }
            Err(error) => Err(CallError::nothing_moved(&error, shown[0])),
        };
        let _ = record.end.set((Instant::now(), end));
        self.lock().threads.remove(&number);
    }

    fn migrate(&self, prepared: &Prepared, control: &MoveControl) -> Result<Migrated, Error> {
        let (machine, processes) = (&*self.machine, &prepared.processes);
        let (request, found) = self.request(prepared, control)?;
        let ledger = self.begin_ledger(prepared);
        match migrate(machine, processes, &request, control, ledger.as_ref()) {
            Ok(report) => Ok(Migrated { report, ledger, found }),
            Err(error) => {
                if let Some(ledger) = ledger {
                    ledger.discard();
                }
                Err(error)
            }
        }
    }

    /// Returns what all moves that have ended did.
    pub fn totals(&self) -> MoveSums {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, report: &MoveReport) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.add(report);
        totals.ended += 1;
    }

    /// If a process is gone, the move itself will report that.
    fn begin_ledger(&self, prepared: &Prepared) -> Option<SharedLedger> {
        let identities = prepared.processes.iter().map(|process| process.identity());
        let processes = identities.collect::<Result<Vec<_>, _>>().ok()?;
        let (command, undoes) = (prepared.command.clone(), prepared.undoes);
        (self.journal.begin)(JournalRequest { machine: &*self.machine, processes, command, undoes })
    }
}

impl Table {
    /// Drops accounts that are kept no longer: old ones, and all but the latest of this user.
    fn drop_outdated(&mut self, user: u32) {
        let now = Instant::now();
        self.records.retain(|_, record| !record.is_outdated(now));
        let ended = self.records.iter().filter(|(_, it)| it.user == user && !it.is_running());
        let mut ended: Vec<u64> = ended.map(|(&number, _)| number).collect();
        ended.truncate(ended.len().saturating_sub(ACCOUNTS_OF_USER_MAX - 1));
        for number in ended {
            self.records.remove(&number);
        }
    }
}

/// Selects the memory of an order. Pages that other processes map are moved for root alone: nobody
/// moves memory of others.
fn selection(order: &Order, everything: bool) -> Selection {
    let kinds = named_kinds(order.kinds.as_deref());
    let range = |range: &AddressRange| Range::new(range.start, range.end);
    let ranges = order.ranges.iter().flatten().map(range).collect();
    Selection {
        kinds,
        ranges,
        move_shared: everything,
        shared_bytes_max: order.skip_shared_above,
        skip_pinned: order.skip_pinned.unwrap_or(false),
    }
}

fn jobs(order: &Order, everything: bool) -> Jobs {
    let most = if everything { u32::MAX } else { WORKERS_OF_USER_MAX as u32 };
    order.jobs.map_or(Jobs::Auto, |jobs| Jobs::Fixed(jobs.min(most)))
}

/// Returns what the ledger shows as the command: who ordered what.
fn command(caller: &Caller, order: &Order, shown: &[Pid]) -> Vec<String> {
    let by = ["agent", "--user", &caller.user().to_string()].map(str::to_owned);
    let pids = || shown.iter().map(ToString::to_string);
    let list = |nodes: Vec<String>| nodes.join(",");
    let words: Vec<String> = match (&order.spread, order.undo) {
        (_, Some(number)) => vec!["undo".to_owned(), number.to_string()],
        (None, None) if order.placement.is_some() => {
            ["placement", "restore"].map(str::to_owned).into_iter().chain(pids()).collect()
        }
        (Some(spread), None) => {
            let nodes = spread.nodes.iter().map(|share| share.node.to_string()).collect();
            let weights = spread.nodes.iter().map(|share| share.weight.to_string()).collect();
            let options = [list(nodes), "--weights".to_owned(), list(weights)];
            ["spread".to_owned()].into_iter().chain(pids()).chain(options).collect()
        }
        (None, None) => {
            let nodes = |node: fn(&WirePair) -> NodeId| {
                list(order.pairs.iter().map(|pair| node(pair).to_string()).collect())
            };
            let nodes = [nodes(|pair| pair.from), nodes(|pair| pair.to)];
            ["move".to_owned()].into_iter().chain(pids()).chain(nodes).collect()
        }
    };
    by.into_iter().chain(words).collect()
}
