//! Feedback: a rebalance that made no node less busy, and memory moves that brought nothing, are
//! not repeated soon.

use std::collections::BTreeMap;

use nodeward_model::NodeId;
use serde::{Deserialize, Serialize};

use super::reason::Reason;
use super::rules::{AWAY_NS, Rules, SMALL_PART, VAIN_HOLDS, WHOLE_PPM};
use crate::damping::{Backoff, DOUBLINGS_MAX, Timer};

/// Measures whether homes that left busy nodes made the busiest node less busy.
///
/// The load of a process depends on its neighbours: two that wait for the same memory, or share a
/// core, have more load together than apart. So a home may move to a node that seems less busy and
/// make it as busy as the old one. That shows before the next home would move; then homes wait
/// longer and longer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RebalanceFeedback {
    last: Option<LastRebalance>,
    pause: Backoff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LastRebalance {
    /// The load of the busiest node before the rebalance, in millionths of its share.
    before_ppm: u64,
    since: Timer,
}

impl RebalanceFeedback {
    /// Lets time pass.
    pub(super) fn pass(&mut self, ns: u64, rules: &Rules) {
        self.pause.pass(ns, pause_ns(rules));
        if let Some(last) = &mut self.last {
            last.since.pass(ns);
        }
    }

    /// Forgets the last rebalance, because the loads have changed.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// Returns whether homes may leave busy nodes, given the load of the busiest one relative to
    /// its share. The effect of the last rebalance is judged when loads have had time to follow.
    pub(super) fn may_start(&mut self, busiest_ppm: u64, rules: &Rules) -> bool {
        if let Some(last) = self.last.take_if(|last| last.since.has_run(rules.debounce_ns)) {
            let least = u128::from(last.before_ppm) * u128::from(rules.hysteresis_ppm) / WHOLE_PPM;
            if u128::from(busiest_ppm) + least > u128::from(last.before_ppm) {
                self.pause.start(pause_ns(rules), DOUBLINGS_MAX);
            }
        }
        !self.pause.waits()
    }

    /// Enters that homes left the busiest node, with its load relative to its share.
    pub(super) fn done(&mut self, busiest_ppm: u64) {
        let since = Timer::started();
        self.last.get_or_insert(LastRebalance { before_ppm: busiest_ppm, since });
    }
}

/// The results of moves of an entity's memory, and the wait before the next one.
///
/// A planned move is judged by the next residency sample. As long as each move takes a good part of
/// what was away, they follow at once. What comes back is moved after a wait that doubles, and
/// after several moves that brought nothing there are no more until something else changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MoveFeedback {
    wait: Backoff,
    /// By which sample the last move was planned, until another one judges it.
    planned: Option<Sampled>,
    /// Moves in a row that brought nothing.
    in_vain: u32,
    /// The last move took a good part of what was away.
    goes_on: bool,
    given_up: Option<GivenUp>,
    doubt: Doubt,
    /// The nodes that memory left, and how long ago.
    left: BTreeMap<NodeId, Timer>,
}

/// A residency sample, as the home of an entity sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sampled {
    /// The time of the sample.
    pub(super) at_ns: u64,
    /// Pages that are away and can be moved.
    pub(super) away: u64,
    /// Pages that cannot be moved.
    pub(super) fixed: u64,
}

/// The pages that were away when moves were given up, beside these pages that are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GivenUp {
    away: u64,
    fixed: u64,
}

/// The doubt whether moves pay. A load that varies makes a move pay now and then, so a move that
/// has not paid for long must pay for as long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Doubt {
    /// No move has paid.
    unpaid: Timer,
    /// A move has paid since, which is still doubted.
    paid: Timer,
}

impl MoveFeedback {
    /// Lets time pass.
    pub(super) fn pass(&mut self, ns: u64, rules: &Rules) {
        self.wait.pass(ns, rules.memory_wait_ns);
        self.doubt.unpaid.pass(ns);
        self.doubt.paid.pass(ns);
        self.left.retain(|_, since| {
            since.pass(ns);
            !since.has_run(AWAY_NS)
        });
    }

    /// Returns whether memory left a node a moment ago.
    pub(super) fn has_left(&self, node: NodeId) -> bool {
        self.left.contains_key(&node)
    }

    /// Enters whether moving the misplaced memory pays; `None` if it may not be moved at all.
    /// Returns whether the move may begin.
    pub(super) fn weigh(&mut self, pays: Option<bool>, rules: &Rules) -> bool {
        if pays == Some(false) {
            self.doubt.unpaid.start();
            self.doubt.paid.stop();
            return false;
        }
        if pays.is_some() && self.is_doubted(rules) {
            self.doubt.paid.start();
            if !self.doubt.paid.has_run(rules.debounce_ns) {
                return false;
            }
        }
        self.doubt = Doubt::default();
        pays.is_some()
    }

    /// Returns whether moving has not paid for so long that it must pay well before it begins.
    pub(super) fn is_doubted(&self, rules: &Rules) -> bool {
        self.doubt.unpaid.has_run(rules.debounce_ns)
    }

    /// Judges the last move, if the sample was taken after it. Pages that turned out to be fixed
    /// were to move, and were moved in vain.
    pub(super) fn judge(&mut self, now: Sampled, rules: &Rules) {
        if let Some(planned) = self.planned.take_if(|planned| planned.at_ns != now.at_ns) {
            let left = now.away_beside(planned.fixed);
            self.goes_on = left <= planned.away - planned.away.div_ceil(SMALL_PART);
            self.in_vain = if self.goes_on { 0 } else { self.in_vain + 1 };
            if self.in_vain >= rules.memory_tries_max {
                self.given_up = Some(GivenUp { away: left, fixed: planned.fixed });
            }
        }
        let has_changed = |before: &mut GivenUp| {
            let left = now.away_beside(before.fixed);
            left < before.away / 2 || left / 2 > before.away
        };
        if self.given_up.take_if(has_changed).is_some() {
            self.in_vain = 0;
        }
        self.goes_on &= now.away > 0;
    }

    /// Returns why there may be no move now; `None` if there may be one.
    pub(super) fn objection(&self) -> Option<Reason> {
        if self.given_up.is_some() {
            Some(Reason::GivenUp)
        } else if self.planned.is_some() {
            Some(Reason::NotMeasured)
        } else if self.wait_ns() > 0 {
            Some(Reason::Waits)
        } else {
            None
        }
    }

    /// Returns whether a move was planned and is not judged yet.
    pub(super) fn is_planned(&self) -> bool {
        self.planned.is_some()
    }

    /// Returns how long the next move waits, in nanoseconds.
    pub(super) fn wait_ns(&self) -> u64 {
        if self.goes_on { 0 } else { self.wait.left_ns() }
    }

    /// A move away from these nodes is planned, by this sample.
    pub(super) fn plan(
        &mut self,
        now: Sampled,
        left: impl IntoIterator<Item = NodeId>,
        rules: &Rules,
    ) {
        self.left.extend(left.into_iter().map(|node| (node, Timer::started())));
        if !self.goes_on {
            self.wait.start(rules.memory_wait_ns, rules.memory_tries_max);
        }
        self.goes_on = false;
        self.planned = Some(now);
    }

    /// Continues after the end of the balancer that planned the move. Its end says nothing about
    /// the move.
    pub(super) fn resume(&mut self) {
        self.goes_on |= self.planned.take().is_some();
    }

    /// Enters that the entity got another home: results of moves to the old one are forgotten; the
    /// wait is not, and neither are the nodes that memory left.
    pub(super) fn home_changed(&mut self) {
        let left = std::mem::take(&mut self.left);
        *self = Self { wait: self.wait, left, ..Self::default() };
    }

    /// Lets memory wait for as long as a home is held, at least: threads that were bound apart may
    /// end one after the other, and what the others leave behind is used by nobody.
    pub(super) fn hold(&mut self, rules: &Rules) {
        self.wait.start(rules.home_hold_ns, 0);
    }
}

impl Sampled {
    /// Returns the misplaced pages plus those that have become fixed since there were so many fixed
    /// ones.
    fn away_beside(self, fixed_before: u64) -> u64 {
        self.away.saturating_add(self.fixed.saturating_sub(fixed_before))
    }
}

fn pause_ns(rules: &Rules) -> u64 {
    rules.home_hold_ns.saturating_mul(VAIN_HOLDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(at_ns: u64, away: u64, fixed: u64) -> Sampled {
        Sampled { at_ns, away, fixed }
    }

    const SECOND: u64 = 1_000_000_000;

    /// Goal: as long as rebalancing makes the busiest node less busy by a tenth it goes on;
    /// when it did not, which shows after 5 s, it pauses for 40 s, then for 80 s.
    #[test]
    fn rebalancing_in_vain_pauses() {
        let (mut feedback, rules) = (RebalanceFeedback::default(), Rules::default());
        assert!(feedback.may_start(2_000_000, &rules));
        feedback.done(2_000_000);
        feedback.pass(5 * SECOND - 1, &rules);
        assert!(feedback.may_start(2_000_000, &rules), "too early to say");
        feedback.pass(1, &rules);
        assert!(feedback.may_start(1_800_000, &rules), "a tenth less");
        feedback.done(1_800_000);
        for seconds in [40, 80] {
            feedback.pass(5 * SECOND, &rules);
            assert!(!feedback.may_start(1_700_000, &rules), "1,620,000 is a tenth less");
            feedback.pass(seconds * SECOND - 1, &rules);
            assert!(!feedback.may_start(1_700_000, &rules));
            feedback.pass(1, &rules);
            assert!(feedback.may_start(1_700_000, &rules));
            feedback.done(1_700_000);
        }
        feedback.pass(5 * SECOND, &rules);
        feedback.forget();
        assert!(feedback.may_start(3_000_000, &rules), "others may have come");
    }

    fn rules() -> Rules {
        Rules { memory_wait_ns: 10, memory_tries_max: 3, ..Rules::default() }
    }

    /// Goal: a move is repeated only after another measurement, and at once if it got on.
    #[test]
    fn moves_that_get_on_follow_each_other() {
        let (mut feedback, rules) = (MoveFeedback::default(), rules());
        feedback.judge(sampled(1, 1600, 0), &rules);
        assert_eq!(feedback.objection(), None);
        feedback.plan(sampled(1, 1600, 0), [], &rules);
        feedback.judge(sampled(1, 1600, 0), &rules);
        assert_eq!(feedback.objection(), Some(Reason::NotMeasured));
        feedback.judge(sampled(2, 1500, 0), &rules); // a sixteenth
        assert_eq!(feedback.objection(), None);
        feedback.plan(sampled(2, 1500, 0), [], &rules);
        feedback.judge(sampled(3, 1407, 0), &rules); // 93 of 1500, a sixteenth is 93.75
        assert_eq!(feedback.objection(), Some(Reason::Waits));
        feedback.pass(10, &rules);
        assert_eq!(feedback.objection(), None);
    }

    /// Goal: a move whose mover was killed is not one that brought nothing, however often.
    #[test]
    fn moves_that_were_cut_off_go_on() {
        let (mut feedback, rules) = (MoveFeedback::default(), rules());
        for measured_ns in 1..20 {
            feedback.judge(sampled(measured_ns, 1000, 0), &rules);
            assert_eq!(feedback.objection(), None);
            feedback.plan(sampled(measured_ns, 1000, 0), [], &rules);
            feedback.resume();
        }
    }

    /// Goal: moves that bring nothing end, and begin again when there is something else to move.
    #[test]
    fn moves_for_nothing_end() {
        let (mut feedback, rules) = (MoveFeedback::default(), rules());
        for (measured_ns, wait) in [(1, 10), (2, 20), (3, 40)] {
            feedback.judge(sampled(measured_ns, 1000, 0), &rules);
            assert_eq!(feedback.objection(), None);
            feedback.plan(sampled(measured_ns, 1000, 0), [], &rules);
            assert_eq!(feedback.wait_ns(), wait);
            feedback.pass(wait, &rules);
        }
        feedback.judge(sampled(4, 1000, 0), &rules);
        assert_eq!(feedback.objection(), Some(Reason::GivenUp));
        feedback.judge(sampled(5, 2000, 0), &rules);
        assert_eq!(
            feedback.objection(),
            Some(Reason::GivenUp),
            "twice as much is not more than that"
        );
        feedback.judge(sampled(6, 2002, 0), &rules);
        assert_eq!(feedback.objection(), None);
    }

    /// Goal: by default memory is given up after five moves that brought nothing, with waits of a
    /// minute in all: 2 + 4 + 8 + 16 + 32 s.
    #[test]
    fn moves_for_nothing_end_after_a_minute() {
        let (mut feedback, rules) = (MoveFeedback::default(), Rules::default());
        let mut waits_s = Vec::new();
        for measured_ns in 1.. {
            feedback.judge(sampled(measured_ns, 1000, 0), &rules);
            if feedback.objection() == Some(Reason::GivenUp) {
                break;
            }
            feedback.plan(sampled(measured_ns, 1000, 0), [], &rules);
            waits_s.push(feedback.wait_ns() / SECOND);
            feedback.pass(feedback.wait_ns(), &rules);
        }
        assert_eq!(waits_s, [2, 4, 8, 16, 32]);
    }

    /// Goal: what comes back again and again is moved ever more rarely.
    #[test]
    fn what_comes_back_waits_longer() {
        let (mut feedback, rules) = (MoveFeedback::default(), rules());
        let mut waits = Vec::new();
        for round in 0..6 {
            feedback.judge(sampled(2 * round, 1000, 0), &rules);
            assert_eq!(feedback.objection(), None);
            feedback.plan(sampled(2 * round, 1000, 0), [], &rules);
            feedback.judge(sampled(2 * round + 1, 0, 0), &rules); // all moved
            waits.push(feedback.wait_ns());
            feedback.pass(feedback.wait_ns(), &rules);
        }
        assert_eq!(waits, [10, 20, 40, 80, 80, 80], "doubled as often as it may be in vain");
    }

    /// Goal: pages that turn out to stay where they are did not come home, though they are no
    /// longer taken for pages that are away: moves that find only such end, and what grows and
    /// stays is tried again only when it is more than twice as much.
    #[test]
    fn what_stays_was_moved_in_vain() {
        let (mut feedback, rules) = (MoveFeedback::default(), rules());
        for measured_ns in 1..=3 {
            // 1000 pages are away; a move finds that they stay; a look takes them for movable.
            feedback.judge(sampled(2 * measured_ns, 1000, 0), &rules);
            assert_eq!(feedback.objection(), None, "{measured_ns}");
            feedback.plan(sampled(2 * measured_ns, 1000, 0), [], &rules);
            feedback.judge(sampled(2 * measured_ns + 1, 0, 1000), &rules);
            assert_ne!(feedback.wait_ns(), 0, "it did not get on");
            feedback.pass(feedback.wait_ns(), &rules);
        }
        for away in [1000, 2000] {
            feedback.judge(sampled(9, away, 0), &rules);
            assert_eq!(feedback.objection(), Some(Reason::GivenUp), "{away}");
        }
        feedback.judge(sampled(10, 2002, 0), &rules);
        assert_eq!(feedback.objection(), None);
    }
}
