//! Stage 4: relieve memory. Homes leave nodes that have long been too small for the memory that is
//! at home there, and go to nodes with room for all of it.

use super::entity::EntityRound;
use super::node_table::NodeIndex;
use super::reason::Reason;
use super::rebalance::cheapest_first;
use super::round::Round;
use super::state::Homes;

/// The nodes that have had more pages at home than they can have for long enough.
pub(super) fn short_nodes(round: &Round, homes: &mut Homes) -> Vec<NodeIndex> {
    round.lasting(&mut homes.short, |node| round.usage.page_excess(node) > 0)
}

/// Moves homes off these nodes until the memory of the others fits.
pub(super) fn relieve_memory(round: &mut Round, short: &[NodeIndex]) {
    for &from in short {
        for index in cheapest_first(round, from) {
            if round.usage.page_excess(from) == 0 {
                break;
            }
            if let Some(to) = roomier(round, &round.entities[index], from) {
                round.move_home(index, from, to, Reason::MemoryShort);
            }
        }
    }
}

/// A home with time and room for an entity whose home has no room for it.
fn roomier(round: &Round, entity: &EntityRound, from: NodeIndex) -> Option<NodeIndex> {
    let away = |node: NodeIndex| round.costs.pages_away(entity, node);
    let lacks_room = away(from) > round.nodes.home_room(from);
    let loss_ns = round.costs.loss_ns(entity, from);
    let takes = |&to: &NodeIndex| {
        round.usage.has_cpus_for(entity, to)
            && round.usage.has_memory_for(entity, to)
            && round.nodes.home_room(to) >= away(to)
            && loss_ns > round.costs.move_ns(away(to))
    };
    let takers = entity.other_candidates(from).filter(|to| lacks_room && takes(to));
    takers.min_by_key(|&to| (away(to), to))
}
