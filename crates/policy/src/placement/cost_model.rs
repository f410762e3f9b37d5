//! The cost of memory that is away from home, and the cost of bringing it home.
//!
//! Of each second that a thread runs it waits for memory for some part, as long as that memory is
//! local ([`Rules::memory_bound_ppm`]). Memory at distance 16 makes it wait 1.6 times as long: at a
//! part of 30 % that is 0.18 s for each second of run time. Accesses are taken to go evenly to all
//! its pages.
//!
//! How long that goes on nobody knows. Of processes that ran for a time `t` about `t / (t + s)` run
//! for `s` more, however long `t` is (Harchol-Balter and Downey 1997). So what they run yet, of the
//! next `S` at most, is `t * ln(1 + S / t)` in the mean.

use super::entity::EntityRound;
use super::node_table::{NodeIndex, NodeTable};
use super::rules::{DISTANCE_LOCAL, LIFE_NS_MAX, Rules, WHOLE_PPM};

/// The costs on a machine, in nanoseconds within the horizon of an entity.
#[derive(Clone, Copy)]
pub(super) struct CostModel<'a> {
    pub(super) nodes: &'a NodeTable<'a>,
}

/// A way between two nodes.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    pub(super) from: NodeIndex,
    pub(super) to: NodeIndex,
}

impl CostModel<'_> {
    /// Returns the cost of a home: what the entity loses there, or the cost of moving its memory
    /// there, whichever is less; and what it loses by segments, which do not move for it alone.
    pub(super) fn home_ns(self, entity: &EntityRound, home: NodeIndex) -> u64 {
        let own_ns = match self.pages_away(entity, home) {
            0 => 0,
            pages => self.loss_ns(entity, home).min(self.move_ns(pages)),
        };
        own_ns.saturating_add(self.lost_ns(entity, &entity.segment_pages, home))
    }

    /// Returns what an entity loses if all its threads run on `home` and its memory stays.
    pub(super) fn loss_ns(self, entity: &EntityRound, home: NodeIndex) -> u64 {
        self.lost_ns(entity, &entity.pages, home)
    }

    /// Returns what an entity loses by these pages if all its threads run on `home`.
    fn lost_ns(self, entity: &EntityRound, pages: &[u64], home: NodeIndex) -> u64 {
        let Some(memory) = self.nodes.memory_node(home) else { return u64::MAX };
        let near = self.nodes.distance(home, memory);
        let farther = |node| u128::from(self.nodes.distance(home, node).saturating_sub(near));
        let misplaced = self.misplaced(home, pages);
        let lost = misplaced.map(|(node, pages)| u128::from(pages) * farther(node));
        self.wait_ns(entity, lost.sum())
    }

    /// Returns what a move of `pages` between two nodes saves, for an entity with this load on each
    /// node; 0 if it saves nothing.
    pub(super) fn saved_ns(
        self,
        entity: &EntityRound,
        load_on: &[u64],
        transfer: Transfer,
        pages: u64,
    ) -> u64 {
        let nearer = |(node, &load): (NodeIndex, &u64)| {
            let distance = |to| i128::from(self.nodes.distance(node, to));
            i128::from(load) * (distance(transfer.from) - distance(transfer.to))
        };
        let nearer: i128 = load_on.iter().enumerate().map(nearer).sum();
        let nearer = u128::try_from(nearer).unwrap_or(0);
        let all = u128::from(load_on.iter().sum::<u64>()).max(1);
        self.wait_ns(entity, u128::from(pages) * nearer / all)
    }

    /// Returns what it costs to move pages.
    pub(super) fn move_ns(self, pages: u64) -> u64 {
        self.rules().move_ns(pages)
    }

    /// Returns whether the memory of an entity is worth bringing to another home.
    pub(super) fn move_pays(self, entity: &EntityRound, home: NodeIndex) -> bool {
        let pages = self.pages_away(entity, home);
        pages == 0 || self.loss_ns(entity, home) > self.move_ns(pages)
    }

    /// Pages that would have to move if `home` was the home.
    pub(super) fn pages_away(self, entity: &EntityRound, home: NodeIndex) -> u64 {
        self.misplaced(home, &entity.movable).map(|(_, pages)| pages).sum()
    }

    /// Returns the horizon: how long an entity is expected to run on.
    pub(super) fn horizon_ns(self, entity: &EntityRound) -> u64 {
        let Rules { horizon_ns, horizon_ns_max, .. } = *self.rules();
        let age_ns = u128::from(entity.seen.run_ns) * WHOLE_PPM / ran_ppm(entity).max(1);
        narrow(life_ns(age_ns)).clamp(horizon_ns, horizon_ns_max.max(horizon_ns))
    }

    /// Returns the CPU time that the threads of an entity use within the horizon.
    pub(super) fn run_ns(self, entity: &EntityRound) -> u64 {
        narrow(u128::from(self.horizon_ns(entity)) * ran_ppm(entity) / WHOLE_PPM)
    }

    /// Returns how much longer an entity waits for memory, given the sum of pages times their
    /// additional distance.
    fn wait_ns(self, entity: &EntityRound, pages_farther: u128) -> u64 {
        let all = u128::from(entity.pages_everywhere.max(1));
        let longer_ppm = pages_farther * WHOLE_PPM / (u128::from(DISTANCE_LOCAL) * all);
        let run_ns = u128::from(self.run_ns(entity));
        let waits_ns = run_ns * u128::from(self.rules().memory_bound_ppm) / WHOLE_PPM;
        narrow(waits_ns.saturating_mul(longer_ppm) / WHOLE_PPM)
    }

    /// Returns the pages that are neither where memory of `home` belongs nor on a memory-only node.
    /// Memory is put on such a node because it is seldom used.
    fn misplaced(self, home: NodeIndex, pages: &[u64]) -> impl Iterator<Item = (NodeIndex, u64)> {
        debug_assert_eq!(pages.len(), self.nodes.len());
        let memory = self.nodes.memory_node(home);
        let is_misplaced = move |&(node, pages): &(NodeIndex, u64)| {
            pages > 0 && Some(node) != memory && !self.nodes.holds_seldom_used(node)
        };
        pages.iter().copied().enumerate().filter(is_misplaced)
    }

    fn rules(&self) -> &Rules {
        self.nodes.rules
    }
}

/// Returns the CPU time that an entity uses, in millionths of a CPU.
fn ran_ppm(entity: &EntityRound) -> u128 {
    u128::from(entity.load_ppm) * u128::from(entity.ran_part_ppm) / WHOLE_PPM
}

/// Returns how much longer a process of this age runs in the mean. The logarithm is linear between
/// powers of two, so it is too small by at most 6 % of its base.
fn life_ns(age_ns: u128) -> u128 {
    /// ln 2 in 2^-16.
    const LN_2: u128 = 45_426;
    const ONE: u128 = 1 << 16;
    let age_ns = age_ns.max(1);
    let ratio = LIFE_NS_MAX * ONE / age_ns + ONE;
    let whole = u128::from(ratio.ilog2());
    let log_2 = (whole - 16) * ONE + ((ratio * ONE) >> whole) - ONE;
    age_ns.saturating_mul(log_2 * LN_2 / ONE) / ONE
}

fn narrow(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
