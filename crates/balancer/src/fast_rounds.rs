//! Fast rounds: looks between two rounds that only bring back threads which strayed from home.
//! There are the more of them the more threads stray, and none where the kernel leaves threads
//! alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::Result;
use nodeward_model::{CpuId, MachineSnapshot};
use nodeward_mover::MoveControl;
use nodeward_policy::placement::Plan;

use super::Balancer;
use super::cpu_budget::Activity;
use super::process_table::ProcessState;
use super::report::RoundReport;
use super::round::RoundState;

/// There are fast rounds while more threads than this were away at the last look, in thousandths of
/// those that have a home, and fewer of them when fewer were.
const STRAYED_MILLI: [u64; 2] = [10, 40];
/// Looks in an interval at most.
const PER_INTERVAL_MAX: u64 = 8;

/// How many fast rounds there are.
#[derive(Clone, Copy, Debug)]
pub struct FastRounds {
    /// Looks in an interval: a round, and the rest fast rounds.
    per_interval: u64,
    /// The most that strayed before a look since the last round, in thousandths.
    most_milli: u64,
    /// Many did before the last look.
    strayed: bool,
}

impl Default for FastRounds {
    fn default() -> Self {
        Self { per_interval: 1, most_milli: 0, strayed: false }
    }
}

impl FastRounds {
    /// Learns from a look that so many of so many threads had to be brought back.
    pub fn learn(&mut self, strayed: u64, homed: u64, may_look: bool) {
        let milli = strayed * 1000 / homed.max(1);
        self.most_milli = self.most_milli.max(milli);
        self.strayed = milli > STRAYED_MILLI[1];
        if !may_look {
            self.per_interval = (self.per_interval / 2).max(1);
        } else if self.strayed {
            self.per_interval = (self.per_interval * 2).min(PER_INTERVAL_MAX);
        }
    }

    /// A round begins. It was a calm one if hardly any thread strayed in all of it: looks may keep
    /// step with the kernel and see the same thing each second time.
    pub fn begin_round(&mut self) {
        if std::mem::take(&mut self.most_milli) < STRAYED_MILLI[0] {
            self.per_interval = (self.per_interval / 2).max(1);
        }
    }

    /// Whether there are any.
    pub fn are_on(self) -> bool {
        self.per_interval > 1
    }

    /// Whether threads stay where they are, as far as looks tell.
    pub fn is_calm(self) -> bool {
        !self.are_on() && !self.strayed
    }

    /// From one look to the next.
    pub fn part(self, interval_ns: u64) -> u64 {
        interval_ns / self.per_interval
    }
}

impl Balancer {
    /// Whether the next look is a fast round: a round is due only in a while.
    pub(super) fn is_fast_round_due(&self, now_ns: u64) -> bool {
        let interval_ns = self.timing.interval_ns;
        let left_ns = self.timing.due_ns.saturating_sub(now_ns);
        // A clock that went back makes no fast rounds of rounds.
        self.timing.fast.are_on() && left_ns > interval_ns / 16 && left_ns <= interval_ns
    }

    /// Brings back threads that strayed. Loads are those of the last round: too little time passed
    /// for better ones, and nothing is decided anew.
    pub(super) fn fast_round(&mut self, live: &MoveControl) -> Result<RoundReport> {
        let machine = Arc::clone(&self.machine);
        let began_ns = machine.now_ns();
        self.meter.begin(&*machine);
        let machine_snapshot = self.watches.wanted.snapshot()?;
        self.follow(&machine_snapshot);
        let is_too_early = |process: &ProcessState| self.is_undecided(process).is_some();
        let when = (self.timing.decided_at_ns, machine.page_bytes());
        let snapshot = self.tables().snapshot(when, &is_too_early);
        let took_ns = self.meter.lap(&*machine, Activity::Looking);
        self.budget.spend(took_ns);
        let plan = self.homes.thread_moves(&snapshot, &self.settings.rules);
        let took_ns = self.meter.lap(&*machine, Activity::Deciding);
        self.budget.spend(took_ns);
        let mut state = RoundState::default();
        self.nudge(&plan, live, &mut state);
        Ok(self.fast_report(&*machine, began_ns, &plan, state))
    }

    /// Takes in where threads are now.
    fn follow(&mut self, machine_snapshot: &MachineSnapshot) {
        let cpus: BTreeMap<_, BTreeMap<u32, CpuId>> = machine_snapshot
            .processes
            .iter()
            .map(|one| {
                let cpus = one.threads.iter().map(|thread| (thread.tid, thread.cpu)).collect();
                ((one.pid, one.started_ticks), cpus)
            })
            .collect();
        for (key, process) in self.processes.iter_mut() {
            if let Some(cpus) = cpus.get(&key) {
                process.follow(cpus);
            }
        }
    }

    /// Nudges threads; memory that is on its way waits for the next round.
    fn nudge(&mut self, plan: &Plan, live: &MoveControl, state: &mut RoundState) {
        let machine = Arc::clone(&self.machine);
        let pending = std::mem::take(&mut self.pending);
        self.act(&*machine, plan, live, 0, state);
        self.pending = pending;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: as long as more than 4 % stray there are more looks, up to eight in an interval; after
    /// a whole round in which less than 1 % did, or without leave to look, there are fewer again.
    #[test]
    fn the_number_follows_the_strays() {
        let mut fast = FastRounds::default();
        let mut looks = |strayed, may_look| {
            fast.learn(strayed, 1000, may_look);
            fast.per_interval
        };
        assert_eq!(
            [41, 41, 40, 10, 41, 41].map(|strayed| looks(strayed, true)),
            [2, 4, 4, 4, 8, 8]
        );
        assert_eq!([looks(0, true), looks(500, false)], [8, 4]);
        assert_eq!(fast.part(1_000), 250);
        assert!(!fast.is_calm());
        fast.begin_round(); // in which half of all strayed
        assert_eq!(fast.per_interval, 4);
        fast.learn(0, 0, true); // nobody has a home
        fast.learn(9, 1000, true);
        fast.begin_round();
        assert_eq!(fast.per_interval, 2);
        fast.begin_round();
        assert!(!fast.are_on() && fast.is_calm());
        fast.learn(41, 1000, false); // looks cost too much for fast rounds
        assert!(!fast.are_on() && !fast.is_calm());
    }
}
