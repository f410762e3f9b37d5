//! Damping: what keeps decisions from flapping. Waits that double, states that must last, and a
//! margin.
//!
//! - [`Backoff`] delays the repetition of an action. Its wait doubles with each action.
//! - [`Debounce`] delays the reaction to a state until the state has lasted. The required time
//!   doubles with each state that ended early. [`Debounces`] has one for each of several things.
//! - Both halve after long calm.
//! - [`Retry`] delays a look that tends to bring nothing, until a time of the clock. Its wait
//!   doubles with each look in vain, and starts again with the first look that was not.
//! - [`Timer`] measures how long a condition has held.
//! - [`with_hysteresis`] adds a margin to a level.
//!
//! All but [`Retry`] count durations and know no clock, so they can be saved and continued after a
//! restart. With a wait that doubles, an action that is wanted all the time happens about log2(time
//! / base) times.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Limit on the doublings of a wait: 2^20 times a base of 2 s is longer than any machine runs.
pub const DOUBLINGS_MAX: u32 = 20;
/// Limit on the doublings of the time for which a state must last: 2^4 times the base are 80 s by
/// default. With more, the reaction to a real change would be minutes late.
const FLAPS_MAX: u32 = 4;
/// A wait halves after a calm of so many times its length. A calm of one length would occur between
/// any two actions.
const CALM_FACTOR: u64 = 4;

const WHOLE_PPM: u128 = 1_000_000;

/// Returns a level plus the margin that must be exceeded too.
pub fn with_hysteresis(level: u64, margin_ppm: u32) -> u64 {
    let margin = u128::from(level) * u128::from(margin_ppm) / WHOLE_PPM;
    level.saturating_add(u64::try_from(margin).unwrap_or(u64::MAX))
}

/// The wait after an action. It doubles with each action and halves after a long calm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    left_ns: u64,
    calm_ns: u64,
    times: u32,
}

impl Backoff {
    /// Returns whether the action must still wait.
    pub fn waits(&self) -> bool {
        self.left_ns > 0
    }

    /// Returns whether the action was done once at most, or not again for long.
    pub fn is_first(&self) -> bool {
        self.times <= 1
    }

    /// Returns how long the action must still wait, in nanoseconds.
    pub fn left_ns(&self) -> u64 {
        self.left_ns
    }

    /// Enters that the action was done. The next one waits for `base_ns`, doubled for each action
    /// before, at most `doublings_max` times.
    pub fn start(&mut self, base_ns: u64, doublings_max: u32) {
        self.left_ns = wait_ns(base_ns, self.times);
        self.times = (self.times + 1).min(doublings_max).min(DOUBLINGS_MAX);
        self.calm_ns = 0;
    }

    /// Lets time pass.
    pub fn pass(&mut self, ns: u64, base_ns: u64) {
        let calm_ns = ns.saturating_sub(self.left_ns);
        self.left_ns = self.left_ns.saturating_sub(ns);
        self.calm_ns = self.calm_ns.saturating_add(calm_ns);
        if self.times > 0 {
            calm_down(wait_ns(base_ns, self.times), &mut self.times, &mut self.calm_ns);
        }
    }
}

/// A state that counts only once it has lasted. After a state that ended early, the next one must
/// last twice as long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debounce {
    lasts: Timer,
    flaps: u32,
    calm_ns: u64,
}

impl Debounce {
    /// Lets time pass, and enters whether the state holds at its end. A state begins with the first
    /// look that sees it, because its true beginning is unknown.
    pub fn observe(&mut self, ns: u64, base_ns: u64, is_so: bool) {
        if is_so {
            self.lasts.pass(ns);
            self.lasts.start();
            self.calm_ns = 0;
        } else if self.lasts.is_running() {
            let was_early = !self.has_lasted(base_ns);
            self.flaps = if was_early { (self.flaps + 1).min(FLAPS_MAX) } else { 0 };
            self.lasts.stop();
        } else if self.flaps > 0 {
            self.calm_ns = self.calm_ns.saturating_add(ns);
            calm_down(self.required_ns(base_ns), &mut self.flaps, &mut self.calm_ns);
        }
    }

    /// Returns whether the state holds.
    pub fn is_on(&self) -> bool {
        self.lasts.is_running()
    }

    /// Returns whether the state holds and has lasted.
    pub fn has_lasted(&self, base_ns: u64) -> bool {
        self.lasts.has_run(self.required_ns(base_ns))
    }

    fn required_ns(&self, base_ns: u64) -> u64 {
        base_ns.saturating_mul(1 << self.flaps)
    }
}

/// One state of several things, each with its own [`Debounce`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debounces<K: Ord> {
    /// Things that have been without the state for long have no entry.
    by_key: BTreeMap<K, Debounce>,
}

impl<K: Ord> Default for Debounces<K> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Debounces<K> {
    /// Lets time pass, and enters for each thing whether it is in the state at its end. Things that
    /// are not listed are forgotten.
    pub fn observe(&mut self, ns: u64, base_ns: u64, things: impl Iterator<Item = (K, bool)>) {
        let debounce = |(key, is_so): (K, bool)| {
            let mut debounce = self.by_key.get(&key).copied().unwrap_or_default();
            debounce.observe(ns, base_ns, is_so);
            (key, debounce)
        };
        let is_news = |(_, debounce): &(K, Debounce)| *debounce != Debounce::default();
        self.by_key = things.map(debounce).filter(is_news).collect();
    }

    /// Returns whether the state of a thing has lasted.
    pub fn has_lasted(&self, key: K, base_ns: u64) -> bool {
        self.by_key.get(&key).is_some_and(|debounce| debounce.has_lasted(base_ns))
    }

    /// Returns whether anything is in the state.
    pub fn is_any_on(&self) -> bool {
        self.by_key.values().any(Debounce::is_on)
    }

    /// Returns whether anything is in the state for less than the required time.
    pub fn is_any_early(&self, base_ns: u64) -> bool {
        self.by_key.values().any(|debounce| debounce.is_on() && !debounce.has_lasted(base_ns))
    }
}

/// The time for which a condition has held; `None` if it does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer(Option<u64>);

impl Timer {
    /// Creates the timer of a condition that holds from now on.
    pub fn started() -> Self {
        Self(Some(0))
    }

    /// Enters that the condition holds.
    pub fn start(&mut self) {
        self.0.get_or_insert(0);
    }

    /// Enters that the condition does not hold.
    pub fn stop(&mut self) {
        self.0 = None;
    }

    /// Lets time pass.
    pub fn pass(&mut self, ns: u64) {
        self.0 = self.0.map(|so_ns| so_ns.saturating_add(ns));
    }

    /// Returns whether the condition holds.
    pub fn is_running(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether the condition has held for this long.
    pub fn has_run(&self, ns: u64) -> bool {
        self.0.is_some_and(|so_ns| so_ns >= ns)
    }
}

/// A wait between looks at the same thing, by the machine's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    until_ns: u64,
    length_ns: u64,
}

impl Retry {
    /// Starts a wait: twice the last one if the last look was in vain, within these two limits;
    /// else the shorter limit.
    pub fn start(&mut self, now_ns: u64, was_in_vain: bool, [least_ns, most_ns]: [u64; 2]) {
        let longer_ns = self.length_ns.saturating_mul(2).clamp(least_ns, most_ns);
        self.length_ns = if was_in_vain { longer_ns } else { least_ns };
        self.restart(now_ns);
    }

    /// Starts a wait as long as the last one.
    pub fn restart(&mut self, now_ns: u64) {
        self.until_ns = now_ns.saturating_add(self.length_ns);
    }

    /// Returns when the wait ends.
    pub fn ends_at_ns(self) -> u64 {
        self.until_ns
    }

    /// Returns how long the wait is, in nanoseconds.
    pub fn length_ns(self) -> u64 {
        self.length_ns
    }

    /// Returns whether the wait is over. A clock that went back does not make a wait longer.
    pub fn is_over(self, now_ns: u64) -> bool {
        now_ns >= self.until_ns || self.until_ns - now_ns > self.length_ns
    }
}

fn wait_ns(base_ns: u64, times: u32) -> u64 {
    base_ns.max(1).saturating_mul(1 << times)
}

/// Undoes one doubling if the calm was long enough.
fn calm_down(wait_ns: u64, times: &mut u32, calm_ns: &mut u64) {
    if *calm_ns >= wait_ns.saturating_mul(CALM_FACTOR) {
        *times -= 1;
        *calm_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 5;

    /// Goal: each wait is twice the one before, and ends on time.
    #[test]
    fn waits_double() {
        let mut backoff = Backoff::default();
        for wait in [10, 20, 40, 80] {
            assert!(!backoff.waits());
            backoff.start(10, DOUBLINGS_MAX);
            backoff.pass(wait - 1, 10);
            assert!(backoff.waits(), "{wait}");
            backoff.pass(1, 10);
        }
        assert_eq!(backoff.times, 4);
    }

    /// Goal: calm undoes doublings one by one, but only after several times the wait.
    #[test]
    fn calm_takes_a_step_back() {
        let mut backoff = Backoff::default();
        backoff.start(10, DOUBLINGS_MAX);
        backoff.start(10, DOUBLINGS_MAX);
        backoff.pass(20, 10); // the wait itself is no calm
        backoff.pass(159, 10); // 4 times the next wait of 40
        assert_eq!(backoff.times, 2);
        backoff.pass(1, 10);
        assert_eq!(backoff.times, 1);
        backoff.pass(80, 10);
        assert_eq!(backoff.times, 0);
        backoff.pass(u64::MAX, 10);
        backoff.pass(u64::MAX, 10);
        assert_eq!(backoff, Backoff { left_ns: 0, calm_ns: u64::MAX, times: 0 });
    }

    /// Goal: an action that is wanted all the time is done about log2(time / base) times.
    #[test]
    fn what_never_rests_is_done_ever_more_rarely() {
        let mut backoff = Backoff::default();
        let mut done = 0;
        for _ in 0..100_000 {
            if !backoff.waits() {
                backoff.start(10, DOUBLINGS_MAX);
                done += 1;
            }
            backoff.pass(1, 10);
        }
        assert_eq!(done, 14, "10 * (2^13 - 1) = 81,910 < 100,000 < 163,830");
    }

    fn observe(debounce: &mut Debounce, is_so: bool, times: u64) {
        (0..times).for_each(|_| debounce.observe(1, BASE, is_so));
    }

    /// Goal: a state counts after 5; after one that ended early the next must last 10, then 20, 40
    /// and 80, and never more.
    #[test]
    fn a_state_that_flaps_must_last_longer() {
        let mut debounce = Debounce::default();
        for required in [5, 10, 20, 40, 80, 80] {
            observe(&mut debounce, true, required);
            assert!(!debounce.has_lasted(BASE), "{required}: the first look begins it");
            let mut other = debounce;
            observe(&mut other, true, 1);
            assert!(other.has_lasted(BASE), "{required}");
            observe(&mut debounce, false, 1);
        }
    }

    /// Goal: a state that has lasted once needs no longer the next time; one that has not come back
    /// for long needs less: 4 x 20 + 4 x 10 after two that ended early.
    #[test]
    fn flaps_are_forgotten() {
        let mut debounce = Debounce::default();
        for _ in 0..2 {
            observe(&mut debounce, true, 1);
            observe(&mut debounce, false, 1);
        }
        assert_eq!(debounce.flaps, 2);
        observe(&mut debounce, false, 4 * 20 + 4 * 10 - 1);
        assert_eq!(debounce.flaps, 1);
        observe(&mut debounce, false, 1);
        assert_eq!(debounce, Debounce::default());
        observe(&mut debounce, true, 1);
        observe(&mut debounce, false, 1);
        observe(&mut debounce, true, 11);
        observe(&mut debounce, false, 1);
        assert_eq!(debounce, Debounce::default());
    }

    /// Goal: each of several things has its own time, and one that is not listed is forgotten.
    #[test]
    fn each_thing_has_its_own_time() {
        let mut debounces = Debounces::default();
        debounces.observe(0, BASE, [(1, true), (2, false)].into_iter());
        debounces.observe(BASE, BASE, [(1, true), (2, true)].into_iter());
        assert_eq!([1, 2].map(|key| debounces.has_lasted(key, BASE)), [true, false]);
        assert!(debounces.is_any_on() && debounces.is_any_early(BASE));
        debounces.observe(BASE, BASE, [(1, true)].into_iter());
        assert!(!debounces.is_any_early(BASE));
        debounces.observe(BASE, BASE, std::iter::empty());
        assert_eq!(debounces, Debounces::default());
    }

    /// Goal: a look in vain is followed by twice the wait, up to the limit, and another look by the
    /// shortest; a clock that goes back by hours does not lengthen a wait.
    #[test]
    fn looks_in_vain_become_rare() {
        let mut retry = Retry::default();
        let lengths = [true, true, true, true, false, true].map(|was_in_vain| {
            retry.start(1000, was_in_vain, [10, 40]);
            assert!(!retry.is_over(1000) && retry.is_over(1000 + retry.length_ns));
            retry.length_ns
        });
        assert_eq!(lengths, [10, 20, 40, 40, 10, 20]);
        assert!(retry.is_over(0), "1000 back");
        retry.restart(2000);
        assert!(!retry.is_over(2019) && retry.is_over(2020));
    }

    /// Goal: a margin of a tenth is added, and nothing overflows.
    #[test]
    fn a_margin_is_added() {
        assert_eq!(with_hysteresis(1000, 100_000), 1100);
        assert_eq!(with_hysteresis(u64::MAX, 100_000), u64::MAX);
    }
}
