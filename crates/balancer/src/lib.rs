//! A balancer: rounds that keep processes at home, on any machine.
//!
//! ```text
//!     observe                    decide                   act               verify, report
//!     ----------------------------------------------------------------------------------------
//!     snapshot of all        ->  policy::placement    ->  nudge threads ->  sample what was moved
//!       process_table, nodes       snapshot                 act               sampling
//!     sample of some             pages of spread          move memory       journal, saved state
//!       sampling,                  processes                pending           journals,
//!       residency_sample             page_placement,        memory_mover      saved_state
//!     within a CPU budget            access_counts,         token_bucket    report
//!       cpu_budget                   written_pages          page_cost         round_state, report,
//!                                                                             round_report, timing
//! ```
//!
//! A segment that several processes map is looked at, decided about and moved as one
//! (`mapped_segments`, `segment_table`, `segment_sampling`, `segment_moves`, `pending_segment`):
//! `segment_process` shows it to mover and sampler as a process of its own. If its users are apart,
//! its ranges are placed as those of spread processes are (`segment_pages`).
//!
//! `round` has these steps in their order. Between two rounds there may be fast rounds, which only
//! bring threads home (`fast_rounds`). `events` is the loop around both. While another balancer is
//! active (`rivals`), this one stands back. `launch` applies the same rule to a program that is
//! about to start.
//!
//! The methods of [`Balancer`] are in layers, and each layer calls only those below it. This file
//! is the lowest: the state of a balancer, and queries of that state. Above it are the stages
//! (`act`, `page_placement`, `round_report`), then `fast_rounds`, `round`, and on top `events`.
//!
//! What this crate knows of a process from round to round is one record,
//! `process_table::ProcessState`. The policy's [`Entity`](nodeward_policy::placement::Entity) is
//! made of it for each decision. The row of a report holds the policy's
//! [`Decision`](nodeward_policy::placement::Decision) as it is.

mod access_counts;
mod access_observer;
mod act;
mod beside_kernel;
mod called_groups;
mod cpu_budget;
mod events;
mod fast_rounds;
mod group_change;
mod group_key;
mod group_membership;
mod group_part;
mod group_plan;
mod group_rows;
mod group_table;
mod home_schedule;
mod idle_machine;
mod journals;
mod kernel_look;
mod launch;
mod mapped_segments;
mod memory_mover;
mod niceness;
mod nodes;
mod page_cost;
mod page_placement;
mod pending;
mod pending_segment;
mod pins;
mod process_key;
mod process_table;
mod range_order;
mod report;
mod reported_decision;
mod residency_sample;
mod rivals;
mod round;
mod round_report;
mod round_state;
mod sampled_time;
mod sampling;
mod saved_state;
mod segment_moves;
mod segment_pages;
mod segment_process;
mod segment_sampling;
mod segment_table;
mod settings;
mod shared_groups;
mod snapshot;
mod stuck_pages;
mod takeover;
mod thread_homes;
mod thread_load;
mod thread_starts;
mod timing;
mod token_bucket;
mod totals;
mod user_buckets;
mod write_rounds;
mod written_pages;

use std::collections::BTreeSet;
use std::sync::Arc;

use nodeward_machine::{HomeScheduler, Machine, ProcessWatch, Result};
use nodeward_model::{Pid, ProcessFilter};
use nodeward_policy::placement::{Homes, Rules};

pub use called_groups::{
    CalledGroup, CalledGroups, CalledPart, GroupCallError, GroupNumber, ThreadSet,
};
pub use events::{Event, Host};
pub use group_change::GroupChange;
pub use group_key::GroupKey;
pub use launch::{Launch, home_of_launch};
pub use mapped_segments::{MappedSegment, mapped_segments};
pub use pins::Pin;
pub use process_key::ProcessKey;
pub use report::{
    Cost, Done, GroupRow, Notice, Outcome, ProcessRow, RoundReport, SegmentRow, Short, Undecided,
};
pub use saved_state::{STATE_VERSION, SavedProcess, SavedState, Storage, read_state, state_file};
pub use settings::{AccessChoice, BalanceSettings, RivalMode};
pub use shared_groups::{LockedGroups, SharedGroups};
pub use takeover::{Begun, Ended, Takeover, TakeoverError, takeover_file};
pub use totals::{MoveSubject, Totals};

use access_counts::AccessCounts;
use access_observer::AccessObserver;
use cpu_budget::{CpuBudget, CpuMeter};
use group_table::GroupTable;
use home_schedule::HomeSchedule;
use idle_machine::IdleMachine;
use journals::Journals;
use niceness::Niceness;
use nodes::Nodes;
use page_cost::PageCost;
use pending::PendingMove;
use pending_segment::PendingSegment;
use process_table::{ProcessState, ProcessTable};
use rivals::Rivals;
use segment_table::SegmentTable;
use snapshot::{Excluded, Tables};
use timing::Timing;
use token_bucket::TokenBucket;
use user_buckets::UserBuckets;
use write_rounds::WriteRounds;

/// A balancer, with its state between rounds.
pub struct Balancer {
    machine: Arc<dyn Machine>,
    watches: Watches,
    settings: BalanceSettings,
    rivals: Rivals,
    idle_machine: IdleMachine,
    niceness: Niceness,

    processes: ProcessTable,
    segments: SegmentTable,
    groups: GroupTable,
    /// The groups that programs make by calls.
    called: Arc<SharedGroups>,
    nodes: Nodes,
    excluded: Excluded,
    /// Processes that we may not read, and about which a notice was given.
    denied: BTreeSet<Pid>,
    /// The process to sample before all others.
    first: Option<Pid>,

    homes: Homes,
    schedule: HomeSchedule,
    observer: AccessObserver,
    counts: AccessCounts,
    write_rounds: WriteRounds,
    pending: Vec<PendingMove>,
    segment_moves: Vec<PendingSegment>,
    bucket: TokenBucket,
    user_buckets: UserBuckets,
    page_cost: PageCost,

    meter: CpuMeter,
    budget: CpuBudget,
    timing: Timing,
    rounds: u64,
    totals: Totals,
    last: Option<RoundReport>,

    journals: Journals,
    /// The boot id of the machine, known as soon as a process is held.
    boot: String,
    /// The state that an earlier balancer saved, until the boot id shows that it is of this boot.
    recalled: Option<SavedState>,
}

/// The watches that take snapshots: one of the wanted processes, one of those among them that are
/// left out.
struct Watches {
    wanted: Box<dyn ProcessWatch>,
    except: Option<Box<dyn ProcessWatch>>,
}

impl Watches {
    fn open(machine: &dyn Machine, wanted: &ProcessFilter, except: &ProcessFilter) -> Result<Self> {
        let except = match except.matches_all() {
            true => None,
            false => Some(machine.watch(except)?),
        };
        Ok(Self { wanted: machine.watch(wanted)?, except })
    }
}

impl Balancer {
    /// Creates a balancer of these processes, which continues from the state that an earlier one
    /// saved.
    ///
    /// # Errors
    /// If the processes cannot be watched.
    pub fn new(
        machine: Arc<dyn Machine>,
        wanted: &ProcessFilter,
        settings: BalanceSettings,
        saved: Option<SavedState>,
    ) -> Result<Self> {
        let watches = Watches::open(&*machine, wanted, &settings.except)?;
        let segments = SegmentTable::new(machine.capabilities().move_shared);
        // Those of an earlier boot are forgotten as soon as the boot is known.
        let called = saved.as_ref().map(|saved| saved.called.clone()).unwrap_or_default();
        Ok(Self {
            called: Arc::new(SharedGroups::new(Arc::clone(&machine), called)),
            machine,
            watches,
            settings,
            rivals: Rivals::default(),
            idle_machine: IdleMachine::default(),
            niceness: Niceness::default(),
            processes: ProcessTable::starting_at(saved.as_ref().map_or(0, |saved| saved.next)),
            segments,
            groups: GroupTable::default(),
            nodes: Nodes::default(),
            excluded: Excluded::default(),
            denied: BTreeSet::new(),
            first: None,
            homes: Homes::default(),
            schedule: HomeSchedule::default(),
            observer: AccessObserver::default(),
            counts: AccessCounts::default(),
            write_rounds: WriteRounds::default(),
            pending: Vec::new(),
            segment_moves: Vec::new(),
            bucket: TokenBucket::default(),
            user_buckets: UserBuckets::default(),
            page_cost: PageCost::default(),
            meter: CpuMeter::default(),
            budget: CpuBudget::default(),
            timing: Timing::default(),
            rounds: 0,
            totals: Totals::default(),
            last: None,
            journals: Journals::default(),
            boot: String::new(),
            recalled: saved,
        })
    }

    /// Sets where state and moves are written from now on.
    pub fn write_to(&mut self, storage: Storage) {
        self.journals.write_to(storage);
        let machine = Arc::clone(&self.machine);
        self.recall(&*machine, machine.own_pid());
        self.save();
    }

    /// Saves the state. No call changes groups meanwhile: later changes go behind this state.
    fn save(&mut self) {
        let called = Arc::clone(&self.called);
        let mut groups = called.lock();
        let state = self.state_with(&groups);
        self.journals.save(&state, groups.log_mut());
    }

    /// Changes the wanted processes and the settings. What is known of processes that stay wanted
    /// is kept.
    ///
    /// # Errors
    /// If the processes cannot be watched; nothing changes then.
    pub fn reload(&mut self, wanted: &ProcessFilter, settings: BalanceSettings) -> Result<()> {
        self.watches = Watches::open(&*self.machine, wanted, &settings.except)?;
        self.settings = settings;
        self.rivals.look_soon();
        self.denied.clear();
        self.processes.iter_mut().for_each(|(_, process)| process.denied = None);
        Ok(())
    }

    /// Has a scheduler place threads from the next round on; none is nudged as long as it runs.
    pub fn use_scheduler(&mut self, scheduler: Box<dyn HomeScheduler>) {
        self.schedule = HomeSchedule::by(scheduler);
    }

    /// Returns the row of a process in the last round: what was seen, decided and done, and why.
    /// `None` if the process was not seen, or there is no decision yet.
    pub fn explain(&self, pid: Pid) -> Option<&ProcessRow> {
        let rows = &self.last.as_ref()?.processes;
        rows.binary_search_by_key(&pid, |row| row.pid).ok().map(|at| &rows[at])
    }

    /// Returns why [`Balancer::explain`] has no row for a process.
    pub fn why_undecided(&self, pid: Pid) -> Undecided {
        let process = self.processes.iter().find(|(key, _)| key.0 == pid);
        match process {
            None => Undecided::NotThere,
            Some(_) if self.rounds < 2 => Undecided::NoLoad,
            Some((_, process)) => self.is_undecided(process).unwrap_or(Undecided::NoLoad),
        }
    }

    /// Makes rounds sample this process before all others, until it has been sampled.
    pub fn sample_first(&mut self, pid: Pid) {
        self.first = Some(pid);
    }

    /// Returns the groups that programs make by calls. What others change in them takes effect in
    /// the next round.
    pub fn called_groups(&self) -> Arc<SharedGroups> {
        Arc::clone(&self.called)
    }

    /// Returns the CPU time of all rounds so far.
    pub fn total_cost(&self) -> Cost {
        self.meter.costs().1
    }

    /// Returns the state from which a later balancer can continue.
    pub fn saved_state(&self) -> SavedState {
        self.state_with(&self.called.lock())
    }

    fn state_with(&self, called: &CalledGroups) -> SavedState {
        if let Some(recalled) = &self.recalled {
            return SavedState { called: called.clone(), ..recalled.clone() };
        }
        let is_saved = |process: &ProcessState| {
            self.homes.home(process.entity).is_some()
                || !process.pins.saved().is_empty()
                || !process.parts.is_empty()
        };
        let processes = self.processes.iter().filter(|(_, process)| is_saved(process));
        let processes = processes.map(|((pid, started_ticks), process)| SavedProcess {
            entity: process.entity,
            pid,
            started_ticks,
            pins: process.pins.saved(),
            parts: process.parts.iter().map(|part| (part.group, part.entity)).collect(),
        });
        SavedState {
            boot: self.boot.clone(),
            next: self.processes.next(),
            processes: processes.collect(),
            homes: self.homes.clone(),
            groups: self.groups.numbers().clone(),
            called: called.clone(),
        }
    }

    /// Returns the tables from which snapshots are made.
    fn tables(&self) -> Tables<'_> {
        Tables {
            nodes: &self.nodes,
            processes: &self.processes,
            excluded: &self.excluded,
            segments: &self.segments,
            groups: &self.groups,
            kernel_balances: self.cooperates(),
            keep_empty: &self.settings.keep_empty,
            groups_only: self.settings.groups_only,
        }
    }

    /// Returns the rules of the settings, with the measured cost of moves.
    fn rules(&self) -> Rules {
        let rules = &self.settings.rules;
        Rules { page_ns: self.page_cost.page_ns(rules.page_ns), ..rules.clone() }
    }

    /// Returns why it is too early to decide about a process, if so. One decision with its memory
    /// and its load known is better than two.
    fn is_undecided(&self, process: &ProcessState) -> Option<Undecided> {
        let seen = process.seen.as_ref()?;
        let rules = &self.settings.rules;
        if seen.cpu_time_ns < rules.run_ns_min || self.homes.home(process.entity).is_some() {
            None
        } else if process.sample.is_none() {
            Some(Undecided::NotLookedInto)
        } else if process.load_ppm() < u64::from(rules.nudge_ppm_min) {
            Some(Undecided::Idle)
        } else {
            None
        }
    }

    /// Returns whether no move is planned or pending, and threads stay at home.
    fn is_calm(&self) -> bool {
        self.timing.is_settled && self.timing.fast.is_calm()
    }

    /// Returns whether rounds act; otherwise they only report what they would do.
    fn acts(&self) -> bool {
        self.settings.act && !self.stands_back()
    }

    /// Returns whether the balancer does nothing because others balance.
    fn stands_back(&self) -> bool {
        match self.settings.rivals {
            RivalMode::StandBack | RivalMode::TakeOver => !self.rivals.seen().is_empty(),
            RivalMode::Cooperate => self.rivals.are_others_than_kernel(),
            RivalMode::Ignore => false,
        }
    }

    /// Returns whether the balancer works beside the kernel's balancing.
    fn cooperates(&self) -> bool {
        self.settings.rivals == RivalMode::Cooperate && self.rivals.is_kernel()
    }

    fn now_ns(&self) -> u64 {
        self.machine.now_ns()
    }

    fn sleep_ns(&self, ns: u64) {
        self.machine.sleep_ns(ns);
    }
}
