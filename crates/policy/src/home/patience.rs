//! For how long nodes have been in a state that homes are moved for. What changes sides every few
//! seconds never lasts long enough; and what comes and goes, as traffic that is about as much as is
//! too much, must last twice as long each time, so that by chance it does not one day.

use std::collections::BTreeMap;

use nodeward_model::NodeId;
use serde::{Deserialize, Serialize};

use super::ground::{Ground, Place};

/// Nobody must last more than 2^4 times as long: 80 s by default.
const TIMES_MAX: u32 = 4;
/// So many times as long without it, and it must last half as long.
const CALM_FACTOR: u64 = 4;

/// How long each node has been so. A node that has long not been so is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Patience {
    nodes: BTreeMap<NodeId, Spell>,
}

/// How long a node has been so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Spell {
    /// In nanoseconds; `None` while it is not so.
    so_ns: Option<u64>,
    /// How often it ended too early, in short succession.
    early: u32,
    /// For how long it has not been so, in nanoseconds.
    calm_ns: u64,
}

impl Patience {
    /// Time passes in which nodes are so or not. Returns those that were so for long enough.
    pub(super) fn pass(
        &mut self,
        ns: u64,
        ground: &Ground,
        enough_ns: u64,
        is_so: impl Fn(Place) -> bool,
    ) -> Vec<Place> {
        let spell = |place: Place| {
            let mut spell = self.nodes.get(&ground.id(place)).copied().unwrap_or_default();
            spell.pass(ns, enough_ns, is_so(place));
            (ground.id(place), spell)
        };
        let spells = ground.places().map(spell).filter(|(_, spell)| *spell != Spell::default());
        self.nodes = spells.collect();
        let long = |place: &Place| {
            self.nodes.get(&ground.id(*place)).is_some_and(|spell| spell.is_long(enough_ns))
        };
        ground.places().filter(long).collect()
    }

    /// Whether any node is so.
    pub(super) fn is_running(&self) -> bool {
        self.nodes.values().any(|spell| spell.so_ns.is_some())
    }

    /// Whether any node is so, and not for long enough yet.
    pub(super) fn is_waiting(&self, enough_ns: u64) -> bool {
        self.nodes.values().any(|spell| spell.so_ns.is_some() && !spell.is_long(enough_ns))
    }
}

impl Spell {
    fn pass(&mut self, ns: u64, enough_ns: u64, is_so: bool) {
        if is_so {
            self.so_ns = Some(self.so_ns.map_or(0, |so_ns| so_ns.saturating_add(ns)));
            self.calm_ns = 0;
        } else if self.so_ns.is_some() {
            let is_long = self.is_long(enough_ns);
            self.early = if is_long { 0 } else { (self.early + 1).min(TIMES_MAX) };
            self.so_ns = None;
        } else if self.early > 0 {
            self.rest(ns, enough_ns);
        }
    }

    /// It has not been so for a while.
    fn rest(&mut self, ns: u64, enough_ns: u64) {
        self.calm_ns = self.calm_ns.saturating_add(ns);
        if self.calm_ns >= self.needs_ns(enough_ns).saturating_mul(CALM_FACTOR) {
            self.early -= 1;
            self.calm_ns = 0;
        }
    }

    fn is_long(&self, enough_ns: u64) -> bool {
        self.so_ns.is_some_and(|so_ns| so_ns >= self.needs_ns(enough_ns))
    }

    fn needs_ns(&self, enough_ns: u64) -> u64 {
        enough_ns.saturating_mul(1 << self.early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: u64 = 5;

    fn live(spell: &mut Spell, so: bool, times: u64) {
        (0..times).for_each(|_| spell.pass(1, ENOUGH, so));
    }

    /// Goal: what lasts is long enough after 5; what ended too early once must last 10, then 20, 40
    /// and 80, and never more.
    #[test]
    fn what_comes_and_goes_must_last_longer() {
        let mut spell = Spell::default();
        for needs in [5, 10, 20, 40, 80, 80] {
            live(&mut spell, true, needs);
            assert!(!spell.is_long(ENOUGH), "{needs}: the first tells that it begins");
            let mut other = spell;
            live(&mut other, true, 1);
            assert!(other.is_long(ENOUGH), "{needs}");
            live(&mut spell, false, 1);
        }
    }

    /// Goal: what lasted long enough once is believed at once the next time, and so is what has not
    /// come back for long: 4 x 20 + 4 x 10 after two that ended too early.
    #[test]
    fn what_is_over_is_forgotten() {
        let mut spell = Spell::default();
        for _ in 0..2 {
            live(&mut spell, true, 1);
            live(&mut spell, false, 1);
        }
        assert_eq!(spell.early, 2);
        live(&mut spell, false, 4 * 20 + 4 * 10 - 1);
        assert_eq!(spell.early, 1);
        live(&mut spell, false, 1);
        assert_eq!(spell, Spell::default());
        live(&mut spell, true, 1);
        live(&mut spell, false, 1);
        live(&mut spell, true, 11);
        live(&mut spell, false, 1);
        assert_eq!(spell, Spell::default());
    }
}
