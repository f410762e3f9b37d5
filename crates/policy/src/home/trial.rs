//! How moves of an entity's memory went, and when the next one may be.
//!
//! A move that was planned is judged by the next measurement. As long as each takes a good part
//! of what was away, they follow at once. What comes back is moved after a wait that doubles, and
//! after several moves that brought nothing there are no more until something else changes.

use serde::{Deserialize, Serialize};

use super::reason::Reason;
use super::rules::Rules;
use crate::damping::{Backoff, Timer};

/// A move that takes away less than one in so many of the pages was for nothing.
const LEAST_PART: u64 = 16;

/// What was away when moves were given up, beside these pages that stay where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GivenUp {
    away: u64,
    fixed: u64,
}

/// When memory was measured, how many pages were away that can be moved, and how many cannot be.
pub(super) type Measured = (u64, u64, u64);

/// The moves of one entity's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Trial {
    wait: Backoff,
    planned: Option<Planned>,
    /// Moves in a row that brought nothing.
    vain: u32,
    /// The last move took a good part of what was away.
    goes_on: bool,
    /// What was away when it was given up.
    given_up: Option<GivenUp>,
    /// For how long no move has paid.
    unpaid: Timer,
    /// For how long one has paid since, if that is still doubted.
    paid: Timer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Planned {
    measured_ns: u64,
    away: u64,
    /// Pages that were taken to be where they stay.
    fixed: u64,
}

impl Trial {
    /// Time passes.
    pub(super) fn pass(&mut self, ns: u64, rules: &Rules) {
        self.wait.pass(ns, rules.memory_wait_ns);
        self.unpaid.pass(ns);
        self.paid.pass(ns);
    }

    /// Whether moving what is away pays, if anything is. Returns whether it is to be begun: what
    /// did not pay for long must pay for as long as that took to be doubted, or loads that waver
    /// decide.
    pub(super) fn weigh(&mut self, pays: Option<bool>, rules: &Rules) -> bool {
        if pays == Some(false) {
            self.unpaid.start();
            self.paid.stop();
            return false;
        }
        if pays.is_some() && self.is_doubted(rules) {
            self.paid.start();
            if !self.paid.has_run(rules.patience_ns) {
                return false;
            }
        }
        self.unpaid.stop();
        self.paid.stop();
        pays.is_some()
    }

    /// Whether moving has not paid for so long that it must pay well before it is begun.
    pub(super) fn is_doubted(&self, rules: &Rules) -> bool {
        self.unpaid.has_run(rules.patience_ns)
    }

    /// What is away, as measured at a time, and what stays where it is: judges the last move if
    /// that was before. What turned out to stay, of what was to move, was moved in vain.
    pub(super) fn judge(&mut self, (measured_ns, away, fixed): Measured, rules: &Rules) {
        let done = |planned: &mut Planned| planned.measured_ns != measured_ns;
        if let Some(planned) = self.planned.take_if(done) {
            let left = beside(away, fixed, planned.fixed);
            self.goes_on = left <= planned.away - planned.away.div_ceil(LEAST_PART);
            self.vain = if self.goes_on { 0 } else { self.vain + 1 };
            if self.vain >= rules.memory_tries_max {
                self.given_up = Some(GivenUp { away: left, fixed: planned.fixed });
            }
        }
        let changed = |at: &mut GivenUp| {
            let left = beside(away, fixed, at.fixed);
            left < at.away / 2 || left / 2 > at.away
        };
        if self.given_up.take_if(changed).is_some() {
            self.vain = 0;
        }
        self.goes_on &= away > 0;
    }

    /// Why there is no move now; `None` if there may be one.
    pub(super) fn objection(&self) -> Option<Reason> {
        if self.given_up.is_some() {
            Some(Reason::GivenUp)
        } else if self.planned.is_some() {
            Some(Reason::NotMeasured)
        } else if self.wait.waits() && !self.goes_on {
            Some(Reason::Waits)
        } else {
            None
        }
    }

    /// How long the next move waits, in nanoseconds.
    pub(super) fn wait_ns(&self) -> u64 {
        if self.goes_on { 0 } else { self.wait.left_ns() }
    }

    /// A move is planned, by what was measured.
    pub(super) fn plan(&mut self, (measured_ns, away, fixed): Measured, rules: &Rules) {
        if !self.goes_on {
            self.wait.start(rules.memory_wait_ns, rules.memory_tries_max);
        }
        self.goes_on = false;
        self.planned = Some(Planned { measured_ns, away, fixed });
    }

    /// Whoever was to carry out what was planned is no more: that says nothing about the move,
    /// which goes on.
    pub(super) fn resume(&mut self) {
        self.goes_on |= self.planned.take().is_some();
    }

    /// The entity gets another home: what was learned at the old one is void, but not the wait.
    pub(super) fn elsewhere(&mut self) {
        *self = Self { wait: self.wait, ..Self::default() };
    }
}

/// What is away if no more pages stay where they are than before.
fn beside(away: u64, fixed: u64, fixed_before: u64) -> u64 {
    away.saturating_add(fixed.saturating_sub(fixed_before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules { memory_wait_ns: 10, memory_tries_max: 3, ..Rules::default() }
    }

    /// Goal: a move is repeated only after another measurement, and at once if it got on.
    #[test]
    fn moves_that_get_on_follow_each_other() {
        let (mut trial, rules) = (Trial::default(), rules());
        trial.judge((1, 1600, 0), &rules);
        assert_eq!(trial.objection(), None);
        trial.plan((1, 1600, 0), &rules);
        trial.judge((1, 1600, 0), &rules);
        assert_eq!(trial.objection(), Some(Reason::NotMeasured));
        trial.judge((2, 1500, 0), &rules); // a sixteenth
        assert_eq!(trial.objection(), None);
        trial.plan((2, 1500, 0), &rules);
        trial.judge((3, 1407, 0), &rules); // 93 of 1500, a sixteenth is 93.75
        assert_eq!(trial.objection(), Some(Reason::Waits));
        trial.pass(10, &rules);
        assert_eq!(trial.objection(), None);
    }

    /// Goal: a move whose mover was killed is not one that brought nothing, however often.
    #[test]
    fn moves_that_were_cut_off_go_on() {
        let (mut trial, rules) = (Trial::default(), rules());
        for measured_ns in 1..20 {
            trial.judge((measured_ns, 1000, 0), &rules);
            assert_eq!(trial.objection(), None);
            trial.plan((measured_ns, 1000, 0), &rules);
            trial.resume();
        }
    }

    /// Goal: moves that bring nothing end, and begin again when there is something else to move.
    #[test]
    fn moves_for_nothing_end() {
        let (mut trial, rules) = (Trial::default(), rules());
        for (measured_ns, wait) in [(1, 10), (2, 20), (3, 40)] {
            trial.judge((measured_ns, 1000, 0), &rules);
            assert_eq!(trial.objection(), None);
            trial.plan((measured_ns, 1000, 0), &rules);
            assert_eq!(trial.wait_ns(), wait);
            trial.pass(wait, &rules);
        }
        trial.judge((4, 1000, 0), &rules);
        assert_eq!(trial.objection(), Some(Reason::GivenUp));
        trial.judge((5, 2000, 0), &rules);
        assert_eq!(trial.objection(), Some(Reason::GivenUp), "twice as much is not more than that");
        trial.judge((6, 2002, 0), &rules);
        assert_eq!(trial.objection(), None);
    }

    /// Goal: what comes back again and again is moved ever more rarely.
    #[test]
    fn what_comes_back_waits_longer() {
        let (mut trial, rules) = (Trial::default(), rules());
        let mut waits = Vec::new();
        for round in 0..6 {
            trial.judge((2 * round, 1000, 0), &rules);
            assert_eq!(trial.objection(), None);
            trial.plan((2 * round, 1000, 0), &rules);
            trial.judge((2 * round + 1, 0, 0), &rules); // all moved
            waits.push(trial.wait_ns());
            trial.pass(trial.wait_ns(), &rules);
        }
        assert_eq!(waits, [10, 20, 40, 80, 80, 80], "doubled as often as it may be in vain");
    }

    /// Goal: pages that turn out to stay where they are did not come home, though they are no
    /// longer taken for pages that are away: moves that find only such end, and what grows and
    /// stays is tried again only when it is more than twice as much.
    #[test]
    fn what_stays_was_moved_in_vain() {
        let (mut trial, rules) = (Trial::default(), rules());
        for measured_ns in 1..=3 {
            // 1000 pages are away; a move finds that they stay; a look takes them for movable.
            trial.judge((2 * measured_ns, 1000, 0), &rules);
            assert_eq!(trial.objection(), None, "{measured_ns}");
            trial.plan((2 * measured_ns, 1000, 0), &rules);
            trial.judge((2 * measured_ns + 1, 0, 1000), &rules);
            assert_ne!(trial.wait_ns(), 0, "it did not get on");
            trial.pass(trial.wait_ns(), &rules);
        }
        for away in [1000, 2000] {
            trial.judge((9, away, 0), &rules);
            assert_eq!(trial.objection(), Some(Reason::GivenUp), "{away}");
        }
        trial.judge((10, 2002, 0), &rules);
        assert_eq!(trial.objection(), None);
    }
}
