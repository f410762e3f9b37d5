//! Memory of regions that goes where its groups go: a thread of this process asks the agent where
//! they belong, and has the pager move what they have.

use std::ops::Range;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nodeward_model::Nodemask;
use nodeward_pager::spawn_without_signals;

use crate::follow_plan::FollowPlan;
use crate::follow_step::{Brought, MoveTime};
use crate::{Budget, Cancel, Error, Group, GroupAgent, GroupFailure, Migration, Region};

/// The interval and the budget of a [`HomeFollower`].
#[derive(Clone, Copy, Debug)]
pub struct FollowOptions {
    /// Time between two questions to the agent. A new home is followed after this time at most. The
    /// agent decides once in an interval of its own, a second by default.
    pub interval: Duration,
    /// Limits on the rate of migrations and on stalls.
    pub budget: Budget,
}

impl Default for FollowOptions {
    /// A question a second, and no limits.
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), budget: Budget::default() }
    }
}

/// The reasons for which a range is not followed. Nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum FollowFailure {
    /// The agent refused.
    #[error(transparent)]
    Group(#[from] GroupFailure),
    /// The region cannot do that.
    #[error(transparent)]
    Region(#[from] Error),
}

/// A range that is followed, and the result so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedRange {
    /// The number of the group that the range is in.
    pub group: u32,
    /// The addresses of the range, in bytes.
    pub addresses: Range<usize>,
    /// The time at which the pages of the range move.
    pub time: MoveTime,
    /// The nodes to which the range was brought last; `None` as long as the group has no home.
    pub home: Option<Nodemask>,
    /// Base pages that were moved so far. Pages that moved on touch are not counted here.
    pub moved_pages: u64,
    /// Base pages that were taken out of sight so far, to move on touch.
    pub lazy_pages: u64,
    /// Base pages that stayed where they were at the last attempt. The attempt is repeated after 1
    /// to 64 s.
    pub stayed_pages: u64,
    /// The error of the last question to the agent or of the last attempt to move; `None` if both
    /// succeeded. Both are repeated.
    pub failure: Option<String>,
}

/// Brings ranges of regions to where their groups are, by the pager, each time that a group gets
/// another home. The agent counts such memory, and leaves moving it to this process.
///
/// It has one thread, however many ranges there are. A range ends with its region, with its group,
/// or when another call puts it elsewhere. When this is dropped, the thread ends, and the agent
/// moves what was followed from then on. In a child of fork(2) there is no thread, and dropping it
/// does nothing.
#[derive(Debug)]
pub struct HomeFollower {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    owner: u32,
}

#[derive(Debug)]
struct Shared {
    options: FollowOptions,
    started: Instant,
    /// Ends the migration under way.
    cancel: Cancel,
    /// Held while a range is added, so that the agent and the entries have the same last word.
    adding: Mutex<()>,
    state: Mutex<FollowerState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct FollowerState {
    has_ended: bool,
    /// A range came since the agent was asked last.
    is_asked_for: bool,
    last: u64,
    entries: Vec<Entry>,
}

/// A range with its group and its plan.
#[derive(Debug)]
struct Entry {
    /// The number by which the thread finds this entry again; 0 before the entry has one.
    number: u64,
    agent: GroupAgent,
    /// The error of the agent if it did not say where the group is.
    unanswered: Option<String>,
    region: Weak<Region>,
    range: Range<usize>,
    plan: FollowPlan,
    told: FollowedRange,
}

impl HomeFollower {
    /// Starts a follower with its thread.
    ///
    /// # Errors
    /// `System` if the thread cannot be started.
    pub fn start(options: FollowOptions) -> crate::Result<Self> {
        let shared = Arc::new(Shared {
            options,
            started: Instant::now(),
            cancel: Cancel::new(),
            adding: Mutex::default(),
            state: Mutex::default(),
            wake: Condvar::new(),
        });
        let work = Arc::clone(&shared);
        let thread = spawn_without_signals("nodeward-follow".to_owned(), move || work.run())?;
        Ok(Self { shared, thread: Some(thread), owner: process::id() })
    }

    /// Puts a range of a region, in bytes from the region's start, into a group, and brings the
    /// range to the group's home from now on. The addresses leave the group in which they were. An
    /// empty range is left out.
    ///
    /// # Errors
    /// Those of [`Group::add_memory`]; `OutOfRegion` for a range that leaves the region,
    /// `NeedsUserfaultfd` or `BadOption` where pages cannot move on touch, and `Forked` in a child
    /// of fork(2).
    pub fn add(
        &self,
        group: &Group,
        region: &Arc<Region>,
        range: Range<usize>,
        time: MoveTime,
    ) -> Result<(), FollowFailure> {
        time.check(region, &range)?;
        if range.is_empty() {
            return Ok(());
        }
        let start = region.as_ptr().addr();
        let addresses = start + range.start..start + range.end;
        let _adding = self.shared.adding.lock().unwrap_or_else(PoisonError::into_inner);
        group.add_self_moved(addresses.start, range.len())?;
        let told = FollowedRange {
            group: group.id(),
            addresses,
            time,
            home: None,
            moved_pages: 0,
            lazy_pages: 0,
            stayed_pages: 0,
            failure: None,
        };
        let (agent, region) = (group.agent().clone(), Arc::downgrade(region));
        let plan = FollowPlan::default();
        self.shared.lock().insert(Entry {
            number: 0,
            agent,
            unanswered: None,
            region,
            range,
            plan,
            told,
        });
        self.shared.wake.notify_all();
        Ok(())
    }

    /// Returns the ranges that are followed now, in the order of their addresses.
    pub fn ranges(&self) -> Vec<FollowedRange> {
        let state = self.shared.lock();
        let told = |entry: &Entry| FollowedRange {
            failure: entry.unanswered.clone().or_else(|| entry.told.failure.clone()),
            ..entry.told.clone()
        };
        let mut ranges: Vec<_> = state.entries.iter().map(told).collect();
        ranges.sort_by_key(|told| told.addresses.start);
        ranges
    }
}

impl Drop for HomeFollower {
    fn drop(&mut self) {
        // A child of fork(2) has a copy, but the thread and the groups are its parent's.
        if self.owner != process::id() {
            return;
        }
        self.shared.lock().has_ended = true;
        self.shared.cancel.cancel();
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let entries = std::mem::take(&mut self.shared.lock().entries);
        // An agent that does not answer is not asked again.
        let _ = entries.iter().try_for_each(Entry::hand_over);
    }
}

impl FollowerState {
    /// Adds a range, and takes its addresses out of all other ranges.
    fn insert(&mut self, new: Entry) {
        let others = std::mem::take(&mut self.entries);
        self.entries = others.into_iter().flat_map(|entry| entry.without(&new)).collect();
        self.entries.push(new);
        for entry in self.entries.iter_mut().filter(|entry| entry.number == 0) {
            self.last += 1;
            entry.number = self.last;
        }
        self.is_asked_for = true;
    }
}

impl Entry {
    /// Returns the parts of the entry that `other` leaves: all of it, or the pieces before and
    /// behind.
    fn without(self, other: &Self) -> Vec<Self> {
        let (own, cut) = (self.range.clone(), &other.range);
        let is_apart = own.end <= cut.start || cut.end <= own.start;
        if is_apart || !Weak::ptr_eq(&self.region, &other.region) {
            return vec![self];
        }
        let rest = [own.start..cut.start.min(own.end), cut.end.max(own.start)..own.end];
        let piece = |range: Range<usize>| {
            let base = self.told.addresses.start - own.start;
            let addresses = base + range.start..base + range.end;
            let told = FollowedRange { addresses, ..self.told.clone() };
            let (agent, region) = (self.agent.clone(), Weak::clone(&self.region));
            Self {
                number: 0,
                agent,
                unanswered: None,
                region,
                range,
                plan: self.plan.clone(),
                told,
            }
        };
        rest.into_iter().filter(|range| !range.is_empty()).map(piece).collect()
    }

    /// Asks the agent to move the range from now on.
    fn hand_over(&self) -> Result<(), GroupFailure> {
        let Range { start, end } = self.told.addresses;
        let group = self.agent.open(self.told.group);
        match group.add_memory(std::ptr::without_provenance(start), end - start) {
            Err(GroupFailure::NoSuchGroup { .. }) => Ok(()),
            result => result,
        }
    }

    /// Records the result of bringing the range to a home.
    fn note(&mut self, home: &Nodemask, brought: Result<Brought, Error>, now: Duration) {
        let is_whole = brought.as_ref().is_ok_and(|brought| brought.stayed == 0);
        self.plan.brought(home, is_whole, now);
        self.told.home = Some(home.clone());
        match brought {
            Ok(Brought { moved, lazy, stayed }) => {
                self.told.moved_pages += moved;
                self.told.lazy_pages += lazy;
                (self.told.stayed_pages, self.told.failure) = (stayed, None);
            }
            Err(error) => self.told.failure = Some(error.to_string()),
        }
    }
}

/// A range that is to be brought somewhere now.
struct Due {
    number: u64,
    region: Arc<Region>,
    range: Range<usize>,
    time: MoveTime,
    home: Nodemask,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, FollowerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while self.wait() {
            for agent in self.agents() {
                self.ask(&agent);
            }
        }
    }

    /// Waits until the agent is to be asked; `false` at the end.
    fn wait(&self) -> bool {
        let state = self.lock();
        let is_idle = |state: &mut FollowerState| !state.has_ended && !state.is_asked_for;
        let waited = self.wake.wait_timeout_while(state, self.options.interval, is_idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_asked_for = false;
        state.entries.retain(|entry| entry.region.strong_count() > 0);
        !state.has_ended
    }

    /// The agents to ask, each once. There is one, unless the program speaks to several.
    fn agents(&self) -> Vec<GroupAgent> {
        let mut agents: Vec<GroupAgent> = Vec::new();
        for entry in &self.lock().entries {
            if !agents.contains(&entry.agent) {
                agents.push(entry.agent.clone());
            }
        }
        agents
    }

    /// Asks an agent for the homes of its groups, and brings ranges that are elsewhere there.
    fn ask(&self, agent: &GroupAgent) {
        let of_agent = |entry: &&Entry| entry.agent == *agent;
        let mut groups: Vec<u32> =
            self.lock().entries.iter().filter(of_agent).map(|entry| entry.told.group).collect();
        groups.sort_unstable();
        groups.dedup();
        let answer = agent.nodes_of(&groups);
        let failure = answer.as_ref().err().map(ToString::to_string);
        let homes = answer.unwrap_or_default();
        let mut due = Vec::new();
        self.lock().entries.retain_mut(|entry| {
            if entry.agent != *agent || groups.binary_search(&entry.told.group).is_err() {
                return true; // it came meanwhile
            }
            entry.unanswered.clone_from(&failure);
            let home = homes.get(&entry.told.group);
            due.extend(home.and_then(|home| self.due(entry, home.memory.as_ref()?)));
            home.is_some() || failure.is_some()
        });
        due.into_iter().for_each(|due| self.bring(&due));
    }

    fn due(&self, entry: &Entry, home: &Nodemask) -> Option<Due> {
        let region = entry.region.upgrade()?;
        let is_due = entry.plan.is_due(home, self.started.elapsed());
        let (range, time) = (entry.range.clone(), entry.told.time);
        is_due.then(|| Due { number: entry.number, region, range, time, home: home.clone() })
    }

    /// Brings a range to a home, unless another entry has taken its place meanwhile.
    fn bring(&self, due: &Due) {
        let is_there = self.lock().entries.iter().any(|entry| entry.number == due.number);
        if !is_there || self.cancel.is_cancelled() {
            return;
        }
        let Due { region, range, time, home, .. } = due;
        let how = Migration {
            budget: self.options.budget,
            cancel: Some(&self.cancel),
            ..Migration::default()
        };
        let brought = time.bring(region, range, home, &how);
        let mut state = self.lock();
        if let Some(entry) = state.entries.iter_mut().find(|entry| entry.number == due.number) {
            entry.note(home, brought, self.started.elapsed());
        }
    }
}
