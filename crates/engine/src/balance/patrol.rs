//! Patrols: looks between two rounds that only bring back threads which strayed from home. There
//! are the more of them the more threads stray, and none where the kernel leaves threads alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::Result;
use nodeward_model::CpuId;

use super::meter::For;
use super::observe::snapshot;
use super::report::RoundReport;
use super::round::Coming;
use super::{Balancer, RoundTime};
use crate::Live;

/// Patrols are made while more threads than this were away at the last look, in thousandths of
/// those that have a home, and ended when fewer were.
const STRAYED_MILLI: [u64; 2] = [10, 40];
/// Looks in an interval at most.
const PACE_MAX: u64 = 8;

/// How often there are looks.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Looks in an interval: a round and the rest patrols.
    looks: u64,
    /// The most that strayed before a look since the last round, in thousandths.
    most_milli: u64,
    /// Many did before the last look.
    strayed: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { looks: 1, most_milli: 0, strayed: false }
    }
}

impl Pace {
    /// Learns from a look that so many of so many threads had to be brought back.
    pub fn learn(&mut self, strayed: u64, homed: u64, may_look: bool) {
        let milli = strayed * 1000 / homed.max(1);
        self.most_milli = self.most_milli.max(milli);
        self.strayed = milli > STRAYED_MILLI[1];
        if !may_look {
            self.looks = (self.looks / 2).max(1);
        } else if self.strayed {
            self.looks = (self.looks * 2).min(PACE_MAX);
        }
    }

    /// A round begins. It was a calm one if hardly anybody strayed in all of it: looks may keep
    /// step with the kernel and see the same thing each second time.
    pub fn begin_round(&mut self) {
        if std::mem::take(&mut self.most_milli) < STRAYED_MILLI[0] {
            self.looks = (self.looks / 2).max(1);
        }
    }

    /// Whether there are patrols.
    pub fn is_hurried(self) -> bool {
        self.looks > 1
    }

    /// Whether threads stay where they are, as far as looks tell.
    pub fn is_calm(self) -> bool {
        !self.is_hurried() && !self.strayed
    }

    /// From one look to the next.
    pub fn part(self, interval_ns: u64) -> u64 {
        interval_ns / self.looks
    }
}

impl Balancer {
    /// Whether the next look is a patrol: a round is due only in a while.
    pub(super) fn is_patrol_due(&self, now_ns: u64) -> bool {
        let RoundTime { due_ns, interval_ns } = self.next_round;
        let left_ns = due_ns.saturating_sub(now_ns);
        // A clock that went back makes no patrols of rounds.
        self.pace.is_hurried() && left_ns > interval_ns / 16 && left_ns <= interval_ns
    }

    /// Brings back who strayed. Loads are those of the last round: too little time passed for
    /// better ones, and nothing is decided anew.
    pub(super) fn patrol(&mut self, live: &Live) -> Result<RoundReport> {
        let machine = Arc::clone(&self.machine);
        let began_ns = machine.now_ns();
        self.meter.begin(&*machine);
        let glance = self.eyes.wanted.glance()?;
        let cpus: BTreeMap<_, BTreeMap<u32, CpuId>> = glance
            .processes
            .iter()
            .map(|one| {
                let cpus = one.threads.iter().map(|thread| (thread.tid, thread.cpu)).collect();
                ((one.pid, one.started_ticks), cpus)
            })
            .collect();
        for (key, member) in self.roster.members_mut() {
            if let Some(cpus) = cpus.get(&key) {
                member.follow(cpus);
            }
        }
        let bars = self.bars();
        let is_too_early = |member: &_| self.is_undecided(member).is_some();
        let when = (self.decided_at_ns, machine.page_bytes());
        let snapshot = snapshot(when, &self.ground, &self.roster, &bars, &is_too_early);
        let took_ns = self.meter.lap(&*machine, For::Looking);
        self.allowance.spend(took_ns);
        let plan = self.homes.thread_moves(&snapshot, &self.settings.rules);
        let took_ns = self.meter.lap(&*machine, For::Deciding);
        self.allowance.spend(took_ns);
        let mut coming = Coming::default();
        self.nudge_only(&*machine, &plan, live, &mut coming);
        Ok(self.patrol_report(&*machine, began_ns, &plan, coming))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: as long as more than 4 % stray there are more looks, up to eight in an interval; after
    /// a whole round in which less than 1 % did, or without leave to look, there are fewer again.
    #[test]
    fn the_pace_follows_the_strays() {
        let mut pace = Pace::default();
        let mut looks = |strayed, may_look| {
            pace.learn(strayed, 1000, may_look);
            pace.looks
        };
        assert_eq!(
            [41, 41, 40, 10, 41, 41].map(|strayed| looks(strayed, true)),
            [2, 4, 4, 4, 8, 8]
        );
        assert_eq!([looks(0, true), looks(500, false)], [8, 4]);
        assert_eq!(pace.part(1_000), 250);
        assert!(!pace.is_calm());
        pace.begin_round(); // in which half of all strayed
        assert_eq!(pace.looks, 4);
        pace.learn(0, 0, true); // nobody has a home
        pace.learn(9, 1000, true);
        pace.begin_round();
        assert_eq!(pace.looks, 2);
        pace.begin_round();
        assert!(!pace.is_hurried() && pace.is_calm());
        pace.learn(41, 1000, false); // looks cost too much for patrols
        assert!(!pace.is_hurried() && !pace.is_calm());
    }
}
