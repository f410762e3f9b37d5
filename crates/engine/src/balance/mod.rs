//! A balancer: rounds of looking, deciding and acting that keep processes at home, on any machine.
//!
//! Each round looks at all processes cheaply (`roster`, `ground`, `observe`) and at some of them
//! dearly (`looks`, within what `meter` allows), lets `policy::placement` decide, brings threads home
//! (`act`) and then memory (`haul`, within `purse`; page by page where `census` knows who uses
//! which), looks where the memory is now, and writes down what it did and learnt (`diary`,
//! `memory`). `events` is the loop around it.

mod act;
mod census;
mod diary;
mod events;
mod ground;
mod haul;
mod looks;
mod memory;
mod meter;
mod newcomer;
mod observe;
mod patrol;
mod pins;
mod purse;
mod report;
mod rivals;
mod roster;
mod round;
mod seats;
mod settings;
mod speed;
mod wide;

use std::collections::BTreeSet;
use std::sync::Arc;

use nodeward_machine::{Machine, Result, Watch};
use nodeward_model::{Pid, Wanted};
use nodeward_policy::placement::Homes;

pub use events::{Event, Host};
pub use memory::{Keep, Known, MEMORY_VERSION, Memory, state_file};
pub use newcomer::{Newcomer, home_of_newcomer};
pub use pins::Pin;
pub use report::{Cost, Done, News, Outcome, ProcessRow, RoundReport, Short, Undecided};
pub use settings::{BalanceSettings, OnRivals};

use crate::Live;
use act::Pending;
use census::Census;
use diary::Diary;
use ground::Ground;
use meter::{Allowance, Meter};
use patrol::Pace;
use purse::Purse;
use rivals::Rivals;
use roster::Roster;
use speed::Speed;

/// A balancer and all that it remembers between rounds.
pub struct Balancer {
    machine: Arc<dyn Machine>,
    eyes: Eyes,
    settings: BalanceSettings,
    roster: Roster,
    homes: Homes,
    ground: Ground,
    rivals: Rivals,
    purse: Purse,
    pending: Vec<Pending>,
    census: Census,
    meter: Meter,
    speed: Speed,
    allowance: Allowance,
    diary: Diary,
    /// The boot of the machine, as soon as a process told it.
    boot: String,
    /// What an earlier balancer remembered, until its boot is known to be this one.
    recalled: Option<Memory>,
    first: Option<Pid>,
    /// Those of whom it was said that we may not look at them.
    denied: BTreeSet<Pid>,
    rounds: u64,
    settled: bool,
    factor: u64,
    pace: Pace,
    next_round: RoundTime,
    /// When the last decision was made, by the machine's clock.
    decided_at_ns: u64,
    /// Those that the settings left out at the last round.
    excluded: Vec<Pid>,
    /// Which process is the balancer.
    own: Option<Pid>,
    last: Option<RoundReport>,
}

/// When the next round is due, and how long it was to wait for.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTime {
    due_ns: u64,
    interval_ns: u64,
}

/// What looks at processes: those that are wanted, and those of them that are left out.
struct Eyes {
    wanted: Box<dyn Watch>,
    except: Option<Box<dyn Watch>>,
}

impl Eyes {
    fn open(machine: &dyn Machine, wanted: &Wanted, except: &Wanted) -> Result<Self> {
        let except = match except.is_everything() {
            true => None,
            false => Some(machine.watch(except)?),
        };
        Ok(Self { wanted: machine.watch(wanted)?, except })
    }
}

impl Balancer {
    /// A balancer of these processes, which goes on with what an earlier one remembered.
    ///
    /// # Errors
    /// If the processes cannot be watched.
    pub fn new(
        machine: Arc<dyn Machine>,
        wanted: &Wanted,
        settings: BalanceSettings,
        memory: Option<Memory>,
    ) -> Result<Self> {
        let eyes = Eyes::open(&*machine, wanted, &settings.except)?;
        let roster = Roster::starting_at(memory.as_ref().map_or(0, |memory| memory.next));
        Ok(Self {
            machine,
            eyes,
            settings,
            roster,
            homes: Homes::default(),
            ground: Ground::default(),
            rivals: Rivals::default(),
            purse: Purse::default(),
            pending: Vec::new(),
            census: Census::default(),
            meter: Meter::default(),
            speed: Speed::default(),
            allowance: Allowance::default(),
            diary: Diary::default(),
            boot: String::new(),
            recalled: memory,
            first: None,
            denied: BTreeSet::new(),
            rounds: 0,
            settled: false,
            factor: 1,
            pace: Pace::default(),
            next_round: RoundTime::default(),
            decided_at_ns: 0,
            excluded: Vec::new(),
            own: None,
            last: None,
        })
    }

    /// Writes down from now on what is learnt and moved.
    pub fn keep(&mut self, keep: Keep) {
        self.diary.keep(keep);
    }

    /// Goes on with other processes or settings. What is known of processes that stay is kept.
    ///
    /// # Errors
    /// If the processes cannot be watched; everything then stays as it was.
    pub fn reload(&mut self, wanted: &Wanted, settings: BalanceSettings) -> Result<()> {
        self.eyes = Eyes::open(&*self.machine, wanted, &settings.except)?;
        self.settings = settings;
        self.denied.clear();
        self.roster.members_mut().for_each(|(_, member)| member.denied = None);
        Ok(())
    }

    /// What the last round saw of a process, would do or did with it, and why. `None` if it saw
    /// none, or nothing is decided yet.
    pub fn explain(&self, pid: Pid) -> Option<&ProcessRow> {
        let rows = &self.last.as_ref()?.processes;
        rows.binary_search_by_key(&pid, |row| row.pid).ok().map(|at| &rows[at])
    }

    /// What all rounds cost so far.
    pub fn total_cost(&self) -> Cost {
        self.meter.costs().1
    }

    /// Why [`Balancer::explain`] knows nothing of a process.
    pub fn why_undecided(&self, pid: Pid) -> Undecided {
        let member = self.roster.members().find(|(key, _)| key.0 == pid);
        match member {
            None => Undecided::NotThere,
            Some(_) if self.rounds < 2 => Undecided::NoLoad,
            Some((_, member)) => self.is_undecided(member).unwrap_or(Undecided::NoLoad),
        }
    }

    /// Looks into this process before all others, and in each round until it was.
    pub fn look_first(&mut self, pid: Pid) {
        self.first = Some(pid);
    }

    /// What it would go on with.
    pub fn memory(&self) -> Memory {
        if let Some(recalled) = &self.recalled {
            return recalled.clone();
        }
        let known = self.roster.members().filter(|(_, member)| {
            self.homes.home(member.entity).is_some() || !member.pins.saved().is_empty()
        });
        let known = known.map(|((pid, started_ticks), member)| Known {
            entity: member.entity,
            pid,
            started_ticks,
            pins: member.pins.saved(),
        });
        Memory {
            boot: self.boot.clone(),
            next: self.roster.next(),
            known: known.collect(),
            homes: self.homes.clone(),
        }
    }

    /// Makes rounds that only look until a decision can be made: loads are what happens between
    /// two looks. Sleeps for an interval.
    ///
    /// # Errors
    /// As [`Balancer::round`].
    pub fn warm_up(&mut self, live: &Live) -> Result<()> {
        self.round(live)?;
        self.sleep_ns(self.settings.interval_ns);
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.machine.now_ns()
    }

    fn sleep_ns(&self, ns: u64) {
        self.machine.sleep_ns(ns);
    }
}
