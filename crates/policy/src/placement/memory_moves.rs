//! Stage 7: memory moves. Misplaced memory moves home if that saves more time within the horizon
//! than the move costs, and if the home has room. Moves with the best ratio of gain to cost come
//! first.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

use super::cost_model::{CostModel, Transfer};
use super::entity::EntityRound;
use super::even;
use super::feedback::Sampled;
use super::home::HomePlacement;
use super::node_table::{NodeIndex, NodeTable};
use super::plan::{MemoryMove, Numbers};
use super::reason::Reason;
use super::round::Round;
use super::rules::{DOUBT_PART, SMALL_GAIN_PART, SMALL_PART};
use super::state::{EntityState, Homes};

/// Returns the moves of this round, into this room of each node, and notes in each entity what is
/// said about its memory.
pub(super) fn plan(round: &mut Round, homes: &mut Homes, rooms: &mut [u64]) -> Vec<MemoryMove> {
    let (nodes, costs) = (round.nodes, round.costs);
    let mut worthwhile = Vec::new();
    for (index, entity) in round.entities.iter_mut().enumerate() {
        let Some(state) = homes.state_mut(entity.id()) else { continue };
        let options = options(costs, entity, state);
        weigh(entity, state, &options, nodes, rooms);
        if entity.decision.memory == Some(Reason::Pays) {
            worthwhile.push((index, options));
        }
    }
    let numbers = |index: usize| &round.entities[index].decision.numbers;
    worthwhile.sort_by(|a, b| by_worth(numbers(a.0), numbers(b.0)).then(a.0.cmp(&b.0)));
    let mut moves = Vec::new();
    for (index, options) in worthwhile {
        let (entity, before) = (&mut round.entities[index], moves.len());
        for option in options.iter().filter(|option| option.pays()) {
            moves.extend(option.begin(entity, costs, rooms));
        }
        note(entity, homes, &moves[before..], nodes);
    }
    moves
}

/// Pages of an entity that could go from one node to another, with gain and cost in nanoseconds.
#[derive(Clone, Copy)]
struct MoveOption {
    transfer: Transfer,
    pages: u64,
    gain_ns: u64,
    cost_ns: u64,
    /// All moves of the entity together gain next to nothing.
    is_small: bool,
    /// Moves of the entity have not paid for long.
    is_doubted: bool,
    /// The pages go back to a node that memory left a moment ago.
    is_back: bool,
    /// Somebody set the home, or the pages leave a node that is kept empty.
    is_ordered: bool,
}

impl MoveOption {
    /// Returns whether the move was ordered, or gains more than it costs, and more than next to
    /// nothing. A doubted move must gain a quarter more, so that loads that vary do not decide. A
    /// move on the way back must gain also what the way there cost, which was in vain.
    fn pays(&self) -> bool {
        let doubt_ns = if self.is_doubted { self.cost_ns / DOUBT_PART } else { 0 };
        let vain_ns = if self.is_back { self.cost_ns } else { 0 };
        let cost_ns = self.cost_ns.saturating_add(doubt_ns).saturating_add(vain_ns);
        self.is_ordered || (!self.is_small && self.gain_ns > cost_ns)
    }

    fn part(self, pages: u64, costs: CostModel) -> Self {
        let gain_ns = u128::from(self.gain_ns) * u128::from(pages) / u128::from(self.pages.max(1));
        let gain_ns = u64::try_from(gain_ns).unwrap_or(u64::MAX);
        Self { pages, gain_ns, cost_ns: costs.move_ns(pages), ..self }
    }

    /// Returns a move of as many pages as there is room for; `None` if these are next to nothing,
    /// or if it does not pay.
    fn begin(
        self,
        entity: &EntityRound,
        costs: CostModel,
        rooms: &mut [u64],
    ) -> Option<MemoryMove> {
        let (nodes, Transfer { from, to }) = (costs.nodes, self.transfer);
        let pages = self.pages.min(rooms[to]);
        let part = self.part(pages, costs);
        if nodes.is_short(to) || pages < self.pages.div_ceil(SMALL_PART) || !part.pays() {
            return None;
        }
        rooms[to] -= pages;
        let reason = match entity.placement {
            _ if nodes.is_kept_empty(from) => Reason::KeptEmpty,
            _ if self.is_ordered => Reason::GroupHome,
            Some(HomePlacement::Interleave { .. }) => Reason::Bottleneck,
            _ => Reason::Pays,
        };
        Some(MemoryMove {
            entity: entity.id(),
            from: [nodes.id(from)].into_iter().collect(),
            to: nodes.id(to),
            pages_max: pages,
            gain_ns: part.gain_ns,
            cost_ns: part.cost_ns,
            reason,
        })
    }
}

/// Returns the moves that an entity's memory needs, one for each pair of nodes.
fn options(costs: CostModel, entity: &EntityRound, state: &EntityState) -> Vec<MoveOption> {
    let is_doubted = state.memory.is_doubted(costs.nodes.rules);
    let transfers = match even_nodes(entity, costs.nodes) {
        Some(memory) => even_out(costs, entity, &memory),
        None => transfers_home(costs, entity),
    };
    let gain_ns = transfers.iter().map(|it| it.2).fold(0, u64::saturating_add);
    let is_small = gain_ns < costs.horizon_ns(entity) / SMALL_GAIN_PART;
    let option = |(transfer, pages, gain_ns): (Transfer, u64, u64)| {
        let cost_ns = costs.move_ns(pages);
        let is_back = state.memory.has_left(costs.nodes.id(transfer.to));
        let is_ordered = entity.seen.target.is_set() || costs.nodes.is_kept_empty(transfer.from);
        MoveOption { transfer, pages, gain_ns, cost_ns, is_small, is_doubted, is_back, is_ordered }
    };
    transfers.into_iter().map(option).collect()
}

/// Returns the nodes on which the memory of an entity is to be even; `None` if it need not be even.
fn even_nodes(entity: &EntityRound, nodes: &NodeTable) -> Option<Vec<NodeIndex>> {
    let placement = entity.placement.as_ref()?;
    let is_even = match placement {
        HomePlacement::Node(_) => false,
        HomePlacement::Spread(_) => entity.seen.target.is_even(),
        HomePlacement::Interleave { .. } => true,
    };
    is_even.then(|| placement.memory_nodes(nodes))
}

/// Returns the moves that make the memory of an entity even on these nodes, each with its pages and
/// its gain in nanoseconds: half of the wait for the traffic that other controllers take over, as
/// in stage 5.
fn even_out(
    costs: CostModel,
    entity: &EntityRound,
    memory: &[NodeIndex],
) -> Vec<(Transfer, u64, u64)> {
    let parts = memory.len() as u64;
    let gain_ns = |pages: u64| {
        let run_ns = u128::from(costs.run_ns(entity));
        let gain_ns = run_ns * u128::from(pages) / u128::from(2 * entity.pages_all().max(1));
        u64::try_from(gain_ns).unwrap_or(u64::MAX) / parts.max(1) * (parts - 1)
    };
    let transfers = even::transfers(costs.nodes, &entity.movable, memory).into_iter();
    transfers.map(|(transfer, pages)| (transfer, pages, gain_ns(pages))).collect()
}

/// Returns the moves that bring all memory of an entity that is elsewhere home, each to the nearest
/// node of the home, with its pages and its gain in nanoseconds.
fn transfers_home(costs: CostModel, entity: &EntityRound) -> Vec<(Transfer, u64, u64)> {
    let Some(placement) = &entity.placement else { return Vec::new() };
    let nodes = costs.nodes;
    let (homes, memory) = (placement.thread_nodes(), placement.memory_nodes(nodes));
    // Threads of a home on several nodes go from one to another all the time.
    let load_on = match placement {
        HomePlacement::Spread(_) => {
            let cpus = |node| u64::from(homes.contains(&node)) * nodes.cpus_ppm(node);
            nodes.indices().map(cpus).collect()
        }
        _ => entity.load_after.clone(),
    };
    let transfer = |(from, pages)| {
        let near = |&&to: &&usize| (nodes.distance(from, to), nodes.distance(homes[0], to), to);
        let transfer = Transfer { from, to: *memory.iter().min_by_key(near)? };
        Some((transfer, pages, costs.saved_ns(entity, &load_on, transfer, pages)))
    };
    let away = entity.movable_on(nodes).filter(|(from, _)| !memory.contains(from));
    away.filter_map(transfer).collect()
}

/// Notes in the decision which pages are away, the gain and the cost of moving them, and why they
/// move or stay.
fn weigh(
    entity: &mut EntityRound,
    state: &mut EntityState,
    options: &[MoveOption],
    nodes: &NodeTable,
    rooms: &[u64],
) {
    let Some(placement) = entity.placement.as_ref().filter(|_| entity.pages_all() > 0) else {
        return;
    };
    let memory = placement.memory_nodes(nodes).into_iter();
    let room = |to| if nodes.is_short(to) { 0 } else { rooms[to] };
    let rooms: BTreeMap<NodeId, u64> = memory.map(|to| (nodes.id(to), room(to))).collect();
    let sum = |of: fn(&MoveOption) -> u64| options.iter().map(of).fold(0, u64::saturating_add);
    let numbers = &mut entity.decision.numbers;
    numbers.pages_away = sum(|option| option.pages);
    numbers.gain_ns = sum(|option| option.gain_ns);
    numbers.cost_ns = sum(|option| option.cost_ns);
    numbers.room_pages = rooms.values().sum();
    entity.decision.rooms = rooms;
    entity.decision.memory = Some(reason(entity, state, options, nodes));
}

/// Returns why the memory of an entity moves or stays, by all but the room at its home.
fn reason(
    entity: &EntityRound,
    state: &mut EntityState,
    options: &[MoveOption],
    nodes: &NodeTable,
) -> Reason {
    let rules = nodes.rules;
    let away = entity.decision.numbers.pages_away;
    state.memory.judge(sampled(entity), rules);
    let objection = state.memory.objection();
    let paying = || options.iter().filter(|option| option.pays());
    let may_move = away > 0 && rules.move_memory;
    let is_worth_it = state.memory.weigh(may_move.then(|| paying().next().is_some()), rules);
    if away == 0 {
        Reason::AllHome
    } else if !rules.move_memory {
        Reason::ThreadsOnly
    } else if !is_worth_it {
        Reason::DoesNotPay
    } else if let Some(reason) = kernel_objection(entity, nodes) {
        reason
    } else if rules.forbid_moves(nodes.stalled_ppm()) {
        Reason::Stalled
    } else if let Some(objection) = objection {
        objection
    } else if paying().all(|option| nodes.is_short(option.transfer.to)) {
        Reason::Pressed
    } else {
        Reason::Pays
    }
}

/// Returns why memory is left to the kernel's balancing, if it is: the kernel places what belongs
/// to several nodes or processes, and would bring back what moves away from the nodes that it
/// prefers for busy threads.
pub(super) fn kernel_objection(entity: &EntityRound, nodes: &NodeTable) -> Option<Reason> {
    let placement = entity.placement.as_ref().filter(|_| nodes.kernel_balances())?;
    if !matches!(placement, HomePlacement::Node(_)) || entity.uses_segments_most() {
        return Some(Reason::ByKernel);
    }
    let (homes, least) = (placement.thread_nodes(), u64::from(nodes.rules.nudge_ppm_min));
    let mut busy = entity.seen.threads.iter().filter(|it| nodes.demand_ppm(it) >= least);
    let prefers_other = busy.any(|thread| nodes.kernel_may_prefer_other(thread, homes));
    prefers_other.then_some(Reason::KernelPrefers)
}

/// Notes the moves of an entity, or that there is no room.
fn note(entity: &mut EntityRound, homes: &mut Homes, moves: &[MemoryMove], nodes: &NodeTable) {
    let planned = moves.iter().map(|one| one.pages_max).sum();
    entity.decision.numbers.pages_planned = planned;
    entity.decision.memory = Some(moves.first().map_or(Reason::NoRoom, |first| first.reason));
    if let Some(state) = homes.state_mut(entity.id()).filter(|_| planned > 0) {
        let left = moves.iter().flat_map(|one| one.from.iter());
        state.memory.plan(sampled(entity), left, nodes.rules);
    }
}

fn sampled(entity: &EntityRound) -> Sampled {
    let (at_ns, away) = (entity.seen.pages_at_ns, entity.decision.numbers.pages_away);
    Sampled { at_ns, away, fixed: entity.pages_fixed() }
}

/// Compares moves by gain for cost, the greatest first.
fn by_worth(a: &Numbers, b: &Numbers) -> std::cmp::Ordering {
    let [gain_a, cost_a, gain_b, cost_b] =
        [a.gain_ns, a.cost_ns, b.gain_ns, b.cost_ns].map(u128::from);
    (gain_b * cost_a).cmp(&(gain_a * cost_b))
}
