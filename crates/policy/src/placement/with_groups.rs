//! After the homes of groups are known: a process whose threads belong to groups, but whose memory
//! does not, is spread over the homes of these groups. It has no load of its own there.

use super::home::HomePlacement;
use super::node_table::NodeIndex;
use super::reason::Reason;
use super::round::Round;
use super::snapshot::{EntityId, Target};
use super::state::Homes;

/// Gives such processes their homes, or leaves them alone while none of their groups has one.
pub(super) fn follow(round: &mut Round, homes: &Homes) {
    for index in 0..round.entities.len() {
        let entity = &round.entities[index];
        let (Target::WithGroups(groups), None) = (&entity.seen.target, entity.refusal) else {
            continue;
        };
        let nodes = nodes_of(round, groups);
        let placement = HomePlacement::Spread(nodes.clone());
        let known = homes.home(entity.id()).and_then(|home| entity.placement_of(home, round.nodes));
        match nodes.is_empty() {
            true => round.entities[index].decision.reason = Reason::Grouped,
            false if known.as_ref() == Some(&placement) => {
                round.stay(index, placement, Reason::WithGroups);
            }
            false => round.place(index, placement, Reason::WithGroups),
        }
    }
}

/// The nodes where the threads of groups are at home.
fn nodes_of(round: &Round, groups: &[EntityId]) -> Vec<NodeIndex> {
    let group = |id: &EntityId| {
        let at = round.entities.binary_search_by_key(id, |entity| entity.id()).ok()?;
        round.entities[at].placement.as_ref()
    };
    let homes = groups.iter().filter_map(group);
    let mut nodes: Vec<_> = homes.flat_map(|home| home.thread_nodes()).copied().collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
