//! The state of segments between rounds: the target of each, and the results of its moves.

use std::collections::BTreeMap;

use nodeward_model::{Nodemask, SegmentId};
use serde::{Deserialize, Serialize};

use super::feedback::{MoveFeedback, Sampled};
use super::reason::Reason;
use super::rules::{Rules, SEGMENT_HOLD_NS};
use crate::damping::{Backoff, DOUBLINGS_MAX, Timer};

/// Segments by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SegmentHistories(BTreeMap<SegmentId, SegmentHistory>);

impl SegmentHistories {
    /// Returns the state of a segment.
    pub(super) fn of(&mut self, segment: SegmentId) -> &mut SegmentHistory {
        self.0.entry(segment).or_default()
    }

    /// Time passes. Segments that are not seen are forgotten when their hold is over: after a
    /// restart it takes some rounds until they are seen again.
    pub(super) fn pass(&mut self, ns: u64, seen: impl Fn(SegmentId) -> bool, rules: &Rules) {
        self.0.retain(|&segment, state| {
            state.pass(ns, rules);
            state.hold.waits() || seen(segment)
        });
    }

    /// Goes on in place of another balancer, which ended with moves that it had planned: what of
    /// them moved nobody knows.
    pub(super) fn resume(&mut self) {
        for state in self.0.values_mut().filter(|state| state.is_planned()) {
            state.memory.resume();
            state.hold.start(SEGMENT_HOLD_NS, DOUBLINGS_MAX);
        }
    }
}

/// A segment between rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SegmentHistory {
    /// The nodes where the segment belongs, and since when.
    target: Nodemask,
    since: Timer,
    hold: Backoff,
    memory: MoveFeedback,
}

impl SegmentHistory {
    /// Enters that the segment belongs on these nodes now.
    pub(super) fn aim_at(&mut self, target: &Nodemask) {
        if self.target != *target {
            self.target = target.clone();
            self.since.stop();
        }
        self.since.start();
    }

    /// Judges the last move by a sample. Returns why there is no move now; `None` if there may be
    /// one.
    pub(super) fn judge(&mut self, now: Sampled, rules: &Rules) -> Option<Reason> {
        let was_planned = self.is_planned();
        self.memory.judge(now, rules);
        if was_planned && !self.is_planned() {
            self.hold.start(SEGMENT_HOLD_NS, DOUBLINGS_MAX);
        }
        let waits = self.hold.waits() || !self.since.has_run(rules.debounce_ns);
        self.memory.objection().or(waits.then_some(Reason::Waits))
    }

    /// As [`MoveFeedback::is_doubted`].
    pub(super) fn is_doubted(&self, rules: &Rules) -> bool {
        self.memory.is_doubted(rules)
    }

    /// As [`MoveFeedback::weigh`].
    pub(super) fn weigh(&mut self, pays: Option<bool>, rules: &Rules) -> bool {
        self.memory.weigh(pays, rules)
    }

    /// A move is planned, by this sample.
    pub(super) fn plan(&mut self, now: Sampled, rules: &Rules) {
        self.memory.plan(now, [], rules); // the hold keeps it from going back
    }

    /// Returns how long the next move waits, in nanoseconds.
    pub(super) fn wait_ns(&self) -> u64 {
        self.hold.left_ns().max(self.memory.wait_ns())
    }

    /// Returns whether a move was planned and is not judged yet.
    fn is_planned(&self) -> bool {
        self.memory.is_planned()
    }

    fn pass(&mut self, ns: u64, rules: &Rules) {
        self.hold.pass(ns, SEGMENT_HOLD_NS);
        self.since.pass(ns);
        self.memory.pass(ns, rules);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn sampled(at_ns: u64) -> Sampled {
        Sampled { at_ns, away: 1000, fixed: 0 }
    }

    /// Goal: a move may begin when the target has stood for 5 s. From the sample after it on the
    /// next one waits for a minute, also if the balancer was restarted and did not see that sample.
    #[test]
    fn a_segment_rests_for_a_minute() {
        for is_restarted in [false, true] {
            let (mut states, rules) = (SegmentHistories::default(), Rules::default());
            let id = SegmentId::default();
            let pass = |states: &mut SegmentHistories, ns| states.pass(ns, |_| false, &rules);
            states.of(id).aim_at(&[nodeward_model::NodeId(1)].into_iter().collect());
            assert_eq!(states.of(id).judge(sampled(1), &rules), Some(Reason::Waits));
            states.of(id).pass(5 * SECOND, &rules);
            assert_eq!(states.of(id).judge(sampled(1), &rules), None);
            states.of(id).plan(sampled(1), &rules);
            assert_eq!(states.of(id).judge(sampled(1), &rules), Some(Reason::NotMeasured));
            if is_restarted {
                states.resume();
            }
            assert_eq!(states.of(id).judge(sampled(2), &rules), Some(Reason::Waits));
            pass(&mut states, 60 * SECOND - 1);
            assert_eq!(states.of(id).judge(sampled(3), &rules), Some(Reason::Waits));
            pass(&mut states, 1);
            assert!(states.0.is_empty(), "nobody saw it, and nothing holds it any more");
        }
    }
}
