//! Stage 8: segments. A segment of shared memory is placed once for all its users, when their homes
//! are settled. If all users are at home on one node, the segment belongs there. If not, the
//! segment stays where it is on their nodes, and is spread over them if a memory controller of
//! theirs is saturated, or where it lies on a node without users. Where users are apart, accesses
//! tell which range of the segment belongs where (`policy::hot`).
//!
//! A user counts with its load. A segment never moves for one user while others use it elsewhere.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nodeward_model::{NodeId, Nodemask};

use super::controllers;
use super::cost_model::Transfer;
use super::entity::{EntityRound, by_node, movable_on};
use super::even;
use super::feedback::Sampled;
use super::home::HomePlacement;
use super::memory_moves;
use super::node_table::{NodeIndex, NodeTable};
use super::plan::{SegmentDecision, SegmentMove};
use super::reason::Reason;
use super::round::Round;
use super::rules::{DOUBT_PART, SMALL_GAIN_PART, SMALL_PART};
use super::segment_history::SegmentHistory;
use super::snapshot::{Segment, SegmentExclusion, SegmentUser};
use super::state::Homes;

/// The moves of this round, and what is said about each segment, in the order of their ids.
pub(super) fn plan(
    round: &Round,
    homes: &mut Homes,
    segments: &[Segment],
    (saturated, rooms): (&[NodeIndex], &mut [u64]),
) -> (Vec<SegmentDecision>, Vec<SegmentMove>) {
    let mut seen: Vec<&Segment> = segments.iter().collect();
    seen.sort_by_key(|segment| segment.id);
    seen.dedup_by_key(|segment| segment.id);
    let is_seen = |id| seen.binary_search_by_key(&id, |segment| segment.id).is_ok();
    homes.segments.pass(round.elapsed_ns, is_seen, round.rules);
    let (mut decisions, mut moves) = (Vec::new(), Vec::new());
    for segment in seen {
        let one = SegmentRound::new(segment, round);
        let history = homes.segments.of(segment.id);
        let (decision, begun) = one.decide(history, saturated, rooms);
        decisions.push(decision);
        moves.extend(begun);
    }
    (decisions, moves)
}

/// Gives entities their parts of the segments that they use: a segment counts once over all users,
/// for each by its part of their load.
pub(super) fn share_out(segments: &[Segment], nodes: &NodeTable, entities: &mut [EntityRound]) {
    for segment in segments {
        let users = loaded_users(segment, nodes, entities);
        let all = users.iter().map(|&(_, load)| load).sum();
        for (at, load) in users {
            let Some(entity) = at.map(|at| &mut entities[at]) else { continue };
            for (sum, pages) in entity.segment_pages.iter_mut().zip(by_node(&segment.pages, nodes))
            {
                let part = part_of(pages, load, all);
                *sum = sum.saturating_add(part);
                entity.pages_everywhere = entity.pages_everywhere.saturating_add(part);
            }
        }
    }
}

/// The users of a segment with their loads: those that a round knows by their positions in it. A
/// process with less load than a thread needs to be nudged is none.
fn loaded_users(
    segment: &Segment,
    nodes: &NodeTable,
    entities: &[EntityRound],
) -> Vec<(Option<usize>, u64)> {
    let least = u64::from(nodes.rules.nudge_ppm_min).max(1);
    let user = |user: &SegmentUser| {
        let at = entities.binary_search_by_key(&user.entity, EntityRound::id).ok();
        (at, at.map_or(user.load_ppm, |at| entities[at].load_ppm))
    };
    segment.users.iter().map(user).filter(|&(_, load)| load >= least).collect()
}

fn part_of(pages: u64, load: u64, all: u64) -> u64 {
    let part = u128::from(pages) * u128::from(load) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// The nodes where a segment belongs.
enum SegmentTarget {
    /// One node, where all users are at home.
    Home(NodeIndex),
    /// The nodes where users are at home.
    Spread(Vec<NodeIndex>),
}

impl SegmentTarget {
    fn nodes(&self) -> &[NodeIndex] {
        match self {
            Self::Home(node) => std::slice::from_ref(node),
            Self::Spread(nodes) => nodes,
        }
    }
}

/// Pages that could go from one node to another, and the time that this saves in nanoseconds.
struct SegmentOption {
    transfer: Transfer,
    pages: u64,
    gain_ns: u64,
    reason: Reason,
}

/// A user with its load on each node of its home.
struct LoadedUser<'a> {
    entity: &'a EntityRound<'a>,
    load_ppm: u64,
    load_on: Vec<u64>,
}

/// A segment in a round.
struct SegmentRound<'a> {
    round: &'a Round<'a>,
    seen: &'a Segment,
    pages: Vec<u64>,
    movable: Vec<u64>,
    users: Vec<LoadedUser<'a>>,
    /// The load of users by the node where the memory of their homes belongs.
    load_on: Vec<u64>,
    /// The load of users that have no home.
    unsettled_ppm: u64,
}

impl<'a> SegmentRound<'a> {
    fn new(seen: &'a Segment, round: &'a Round<'a>) -> Self {
        let pages = by_node(&seen.pages, round.nodes);
        let fixed = by_node(&seen.fixed_pages, round.nodes);
        let movable = pages.iter().zip(&fixed).map(|(all, fixed)| all.saturating_sub(*fixed));
        let mut segment = Self {
            round,
            seen,
            movable: movable.collect(),
            pages,
            users: Vec::new(),
            load_on: vec![0; round.nodes.len()],
            unsettled_ppm: 0,
        };
        segment.count_users();
        segment
    }

    /// Adds up the load of the users by node.
    fn count_users(&mut self) {
        let (nodes, entities) = (self.round.nodes, &self.round.entities);
        for (at, load_ppm) in loaded_users(self.seen, nodes, entities) {
            let entity = at.map(|at| &entities[at]);
            match entity.and_then(|entity| Some((entity, entity.placement.as_ref()?))) {
                None => self.unsettled_ppm = self.unsettled_ppm.saturating_add(load_ppm),
                Some((entity, placement)) => {
                    let load_on = home_load(load_ppm, placement, nodes);
                    for (node, load) in load_on.iter().enumerate() {
                        if let Some(memory) = nodes.memory_node(node) {
                            self.load_on[memory] += load;
                        }
                    }
                    self.users.push(LoadedUser { entity, load_ppm, load_on });
                }
            }
        }
    }

    /// Returns the load of all users.
    fn load_ppm(&self) -> u64 {
        let settled = self.users.iter().map(|user| user.load_ppm).sum::<u64>();
        settled.saturating_add(self.unsettled_ppm)
    }

    /// Returns the decision about the segment, and its moves.
    fn decide(
        &self,
        history: &mut SegmentHistory,
        saturated: &[NodeIndex],
        rooms: &mut [u64],
    ) -> (SegmentDecision, Vec<SegmentMove>) {
        let target = self.target();
        let nodes = target.as_ref().map_or(Nodemask::new(), |target| self.mask(target.nodes()));
        history.aim_at(&nodes);
        let mut decision = self.undecided(nodes);
        let target = match target {
            Ok(target) => target,
            Err(reason) => {
                decision.reason = reason;
                return (decision, Vec::new());
            }
        };
        let options = self.options(&target, saturated);
        decision.pages_away = options.iter().map(|option| option.pages).sum();
        decision.gain_ns = options.iter().map(|it| it.gain_ns).fold(0, u64::saturating_add);
        decision.cost_ns = match decision.pages_away {
            0 => 0,
            pages => self.round.costs.move_ns(pages),
        };
        decision.reason = self.reason(&target, &decision, history, &options);
        let moves = self.begin(&mut decision, history, &options, rooms);
        decision.wait_ns = history.wait_ns();
        let is_apart = matches!(target, SegmentTarget::Spread(_));
        decision.counts_wanted = is_apart && self.movable.iter().any(|&pages| pages > 0);
        decision.rooms = self.rooms(target.nodes(), rooms);
        (decision, moves)
    }

    /// Returns a decision with the numbers that are known before anything is decided.
    fn undecided(&self, nodes: Nodemask) -> SegmentDecision {
        SegmentDecision {
            segment: self.seen.id,
            reason: Reason::AllHome,
            users: u32::try_from(self.users.len()).unwrap_or(u32::MAX),
            nodes,
            pages: self.pages.iter().sum(),
            pages_away: 0,
            pages_planned: 0,
            gain_ns: 0,
            cost_ns: 0,
            wait_ns: 0,
            counts_wanted: false,
            load_ppm: self.load_ppm(),
            horizon_ns: self.horizon_ns(),
            rooms: BTreeMap::new(),
        }
    }

    /// Returns the base pages that each of these nodes can take.
    fn rooms(&self, nodes: &[NodeIndex], rooms: &[u64]) -> BTreeMap<NodeId, u64> {
        let table = self.round.nodes;
        let room = |node: NodeIndex| if table.is_short(node) { 0 } else { rooms[node] };
        nodes.iter().map(|&node| (table.id(node), room(node))).collect()
    }

    /// Returns where the segment belongs, or why it is left alone wherever that is. Users with a
    /// sixteenth of the load together are too few to count.
    fn target(&self) -> Result<SegmentTarget, Reason> {
        if let Some(exclusion) = self.seen.exclusion {
            return Err(reason_of(exclusion));
        }
        let all = self.load_ppm();
        if all == 0 {
            return Err(Reason::Unused);
        }
        if self.unsettled_ppm > all / SMALL_PART {
            return Err(Reason::UsersUnsettled);
        }
        let used = self.used_nodes(all / SMALL_PART);
        let may_hold = |&node: &NodeIndex| self.seen.may_hold.contains(self.round.nodes.id(node));
        if !used.iter().all(may_hold) {
            return Err(Reason::NoNodeAllowed);
        }
        if let Some(objection) = self.kernel_objection(&used) {
            return Err(objection);
        }
        match used[..] {
            [node] => Ok(SegmentTarget::Home(node)),
            _ => Ok(SegmentTarget::Spread(used)),
        }
    }

    /// Returns why the segment is left to the kernel: it is used on several nodes, or the memory of
    /// one of its users is left to the kernel.
    fn kernel_objection(&self, used: &[NodeIndex]) -> Option<Reason> {
        let nodes = self.round.nodes;
        if used.len() > 1 && nodes.kernel_balances() {
            return Some(Reason::ByKernel);
        }
        self.users.iter().find_map(|user| memory_moves::kernel_objection(user.entity, nodes))
    }

    /// Returns the nodes of users, but for the nodes that have no more than `most` load together.
    fn used_nodes(&self, most: u64) -> Vec<NodeIndex> {
        let mut used: Vec<_> = self.round.nodes.indices().collect();
        used.sort_by_key(|&node| (self.load_on[node], Reverse(node)));
        let mut left_out = 0;
        used.retain(|&node| {
            left_out += self.load_on[node];
            left_out > most
        });
        used.sort_unstable();
        used
    }

    fn options(&self, target: &SegmentTarget, saturated: &[NodeIndex]) -> Vec<SegmentOption> {
        let nodes = target.nodes();
        if let SegmentTarget::Spread(nodes) = target
            && let Some(options) = self.saturated_options(nodes, saturated)
        {
            return options;
        }
        let parts = nodes.len() as u64;
        let table = self.round.nodes;
        let mut outside: Vec<_> =
            movable_on(table, &self.movable).filter(|(from, _)| !nodes.contains(from)).collect();
        let is_kept_empty = |(from, _): &(NodeIndex, u64)| table.is_kept_empty(*from);
        if outside.iter().any(is_kept_empty) {
            outside.retain(is_kept_empty); // the rest, when that is done
        }
        let to_each = |(from, pages): (NodeIndex, u64)| {
            nodes.iter().zip(0..).filter_map(move |(&to, part)| {
                let pages = pages * (part + 1) / parts - pages * part / parts;
                let transfer = Transfer { from, to };
                let gain_ns = self.saved_ns(transfer, pages);
                (pages > 0).then_some(SegmentOption {
                    transfer,
                    pages,
                    gain_ns,
                    reason: match table.is_kept_empty(from) {
                        true => Reason::KeptEmpty,
                        false => Reason::Pays,
                    },
                })
            })
        };
        outside.into_iter().flat_map(to_each).collect()
    }

    /// Returns the moves that make the segment even on the nodes of its users, if one of these is
    /// saturated, others have time, and the users make most of the load; otherwise `None`.
    fn saturated_options(
        &self,
        nodes: &[NodeIndex],
        saturated: &[NodeIndex],
    ) -> Option<Vec<SegmentOption>> {
        let is_saturated = |node: NodeIndex| saturated.contains(&node);
        let among: Vec<_> = nodes
            .iter()
            .copied()
            .filter(|&node| is_saturated(node) || controllers::has_time(self.round.nodes, node))
            .collect();
        let load = |entity: &EntityRound| entity.load_ppm;
        let most_of_load = 2 * self.load_ppm() > self.round.entities.iter().map(load).sum();
        if among.len() < 2 || !most_of_load {
            return None;
        }
        let transfers = even::transfers(self.round.nodes, &self.movable, &among).into_iter();
        let relieving = transfers.filter(|(transfer, _)| is_saturated(transfer.from));
        let options: Vec<_> = relieving
            .map(|(transfer, pages)| SegmentOption {
                transfer,
                pages,
                gain_ns: self.relieved_ns(pages, among.len() as u64),
                reason: Reason::Bottleneck,
            })
            .collect();
        (!options.is_empty()).then_some(options)
    }

    /// Returns the time that all users save together if pages go from one node to another.
    fn saved_ns(&self, transfer: Transfer, pages: u64) -> u64 {
        let (costs, all) = (self.round.costs, self.load_ppm());
        let saved = |user: &LoadedUser| {
            let pages = part_of(pages, user.load_ppm, all);
            costs.saved_ns(user.entity, &user.load_on, transfer, pages)
        };
        self.users.iter().map(saved).fold(0, u64::saturating_add)
    }

    /// Returns the longest horizon of the users.
    fn horizon_ns(&self) -> u64 {
        let horizons = self.users.iter().map(|user| self.round.costs.horizon_ns(user.entity));
        horizons.max().unwrap_or(0)
    }

    /// Returns the time that all users save together if pages leave a saturated node, as in stage
    /// 5.
    fn relieved_ns(&self, pages: u64, parts: u64) -> u64 {
        let saved = |user: &LoadedUser| {
            let run_ns = u128::from(self.round.costs.run_ns(user.entity));
            let pages = u128::from(part_of(pages, user.load_ppm, self.load_ppm()));
            let all = 2 * u128::from(user.entity.pages_everywhere.max(1));
            u64::try_from(run_ns * pages / all).unwrap_or(u64::MAX)
        };
        let sum = self.users.iter().map(saved).fold(0, u64::saturating_add);
        sum / parts.max(1) * (parts - 1)
    }

    /// Returns why the segment moves or stays, by all but the room at its target.
    fn reason(
        &self,
        target: &SegmentTarget,
        decision: &SegmentDecision,
        history: &mut SegmentHistory,
        options: &[SegmentOption],
    ) -> Reason {
        let rules = self.round.rules;
        let nodes = self.round.nodes;
        let away = decision.pages_away;
        let objection = history.judge(self.sampled(away), rules);
        let may_move = away > 0 && rules.move_memory;
        let doubt_ns = if history.is_doubted(rules) { decision.cost_ns / DOUBT_PART } else { 0 };
        let is_small = decision.gain_ns < self.horizon_ns() / SMALL_GAIN_PART;
        let must_leave = options.iter().any(|option| option.reason == Reason::KeptEmpty);
        let pays =
            must_leave || !is_small && decision.gain_ns > decision.cost_ns.saturating_add(doubt_ns);
        let is_worth_it = history.weigh(may_move.then_some(pays), rules);
        match target {
            SegmentTarget::Home(_) if away == 0 => Reason::AllHome,
            SegmentTarget::Spread(_) if away == 0 => Reason::UsersApart,
            _ if !rules.move_memory => Reason::ThreadsOnly,
            _ if !is_worth_it => Reason::DoesNotPay,
            _ if rules.forbid_moves(nodes.stalled_ppm()) => Reason::Stalled,
            _ => match objection {
                Some(objection) => objection,
                None if options.iter().all(|it| nodes.is_short(it.transfer.to)) => Reason::Pressed,
                None => Reason::Pays,
            },
        }
    }

    /// Begins the moves of a segment that is worth it, into the room that there is.
    fn begin(
        &self,
        decision: &mut SegmentDecision,
        history: &mut SegmentHistory,
        options: &[SegmentOption],
        rooms: &mut [u64],
    ) -> Vec<SegmentMove> {
        if decision.reason != Reason::Pays {
            return Vec::new();
        }
        let one = |option: &SegmentOption| self.begin_one(option, &decision.nodes, rooms);
        let moves: Vec<SegmentMove> = options.iter().filter_map(one).collect();
        decision.pages_planned = moves.iter().map(|one| one.pages_max).sum();
        decision.reason = moves.first().map_or(Reason::NoRoom, |first| first.reason);
        if !moves.is_empty() {
            history.plan(self.sampled(decision.pages_away), self.round.rules);
        }
        moves
    }

    /// A move of as much as there is room for; `None` if that is next to nothing.
    fn begin_one(
        &self,
        option: &SegmentOption,
        target: &Nodemask,
        rooms: &mut [u64],
    ) -> Option<SegmentMove> {
        let (nodes, Transfer { from, to }) = (self.round.nodes, option.transfer);
        let pages = option.pages.min(rooms[to]);
        if nodes.is_short(to) || pages < option.pages.div_ceil(SMALL_PART) {
            return None;
        }
        rooms[to] -= pages;
        let gain_ns = u128::from(option.gain_ns) * u128::from(pages) / u128::from(option.pages);
        Some(SegmentMove {
            segment: self.seen.id,
            from: [nodes.id(from)].into_iter().collect(),
            to: nodes.id(to),
            target: target.clone(),
            pages_max: pages,
            gain_ns: u64::try_from(gain_ns).unwrap_or(u64::MAX),
            cost_ns: self.round.costs.move_ns(pages),
            reason: option.reason,
        })
    }

    fn sampled(&self, away: u64) -> Sampled {
        let fixed = self.pages.iter().zip(&self.movable).map(|(all, movable)| all - movable);
        Sampled { at_ns: self.seen.pages_at_ns, away, fixed: fixed.sum() }
    }

    fn mask(&self, nodes: &[NodeIndex]) -> Nodemask {
        nodes.iter().map(|&node| self.round.nodes.id(node)).collect()
    }
}

/// A load on the nodes of a home: its threads go from one node of a spread home to another all the
/// time.
fn home_load(load_ppm: u64, placement: &HomePlacement, nodes: &NodeTable) -> Vec<u64> {
    let homes = placement.thread_nodes();
    let cpus: u64 = homes.iter().map(|&node| nodes.cpus(node)).sum();
    let load = |node| match homes.contains(&node) {
        true => load_ppm * nodes.cpus(node) / cpus.max(1),
        false => 0,
    };
    nodes.indices().map(load).collect()
}

fn reason_of(exclusion: SegmentExclusion) -> Reason {
    match exclusion {
        SegmentExclusion::NoRight => Reason::SharedMemory,
        SegmentExclusion::ExplicitPolicy => Reason::ExplicitPolicy,
        SegmentExclusion::Denied => Reason::Denied,
        SegmentExclusion::Excluded => Reason::Excluded,
    }
}
