//! A round: what the stages of one decision share. That is the machine, the entities, and the homes
//! as the stages change them.

use nodeward_model::NodeId;

use super::cost_model::CostModel;
use super::entity::EntityRound;
use super::home::HomePlacement;
use super::node_table::{NodeIndex, NodeTable};
use super::node_usage::NodeUsage;
use super::plan::Verdict;
use super::reason::Reason;
use super::rules::Rules;
use crate::damping::Debounces;

/// A decision while it is made.
pub(super) struct Round<'a> {
    pub(super) rules: &'a Rules,
    pub(super) nodes: &'a NodeTable<'a>,
    pub(super) costs: CostModel<'a>,
    /// The time since the last round.
    pub(super) elapsed_ns: u64,
    pub(super) entities: Vec<EntityRound<'a>>,
    pub(super) usage: NodeUsage<'a>,
    /// The entities that got a home or another one, with the reason, in the order in which that was
    /// decided.
    pub(super) changes: Vec<(usize, Reason)>,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        nodes: &'a NodeTable<'a>,
        entities: Vec<EntityRound<'a>>,
        elapsed_ns: u64,
    ) -> Self {
        let usage = NodeUsage::new(nodes, &entities);
        let costs = CostModel { nodes };
        Self { rules: nodes.rules, nodes, costs, elapsed_ns, entities, usage, changes: Vec::new() }
    }

    /// An entity stays at home.
    pub(super) fn stay(&mut self, index: usize, placement: HomePlacement, why: Reason) {
        let entity = &mut self.entities[index];
        self.usage.add(entity, &placement);
        (entity.decision.verdict, entity.decision.reason) = (Verdict::Stays, why);
        entity.placement = Some(placement);
    }

    /// An entity without a home gets one.
    pub(super) fn place(&mut self, index: usize, placement: HomePlacement, why: Reason) {
        self.usage.add(&self.entities[index], &placement);
        self.change(index, placement, why);
    }

    /// The home of an entity moves from one node to another.
    pub(super) fn move_home(&mut self, index: usize, from: NodeIndex, to: NodeIndex, why: Reason) {
        self.usage.remove(&self.entities[index], from);
        self.place(index, HomePlacement::Node(to), why);
    }

    /// An entity has another home from now on, which leaves the usage of nodes as it is.
    pub(super) fn change(&mut self, index: usize, placement: HomePlacement, why: Reason) {
        self.entities[index].placement = Some(placement);
        self.changes.push((index, why));
    }

    /// The entities that are at home on this node alone and whose homes may be moved.
    pub(super) fn movable_from(&self, node: NodeIndex) -> impl Iterator<Item = usize> {
        let is_there = move |&index: &usize| {
            let entity = &self.entities[index];
            entity.may_move && entity.placement == Some(HomePlacement::Node(node))
        };
        (0..self.entities.len()).filter(is_there)
    }

    /// The nodes on which a state has lasted.
    pub(super) fn lasting(
        &self,
        states: &mut Debounces<NodeId>,
        is_so: impl Fn(NodeIndex) -> bool,
    ) -> Vec<NodeIndex> {
        let (nodes, base_ns) = (self.nodes, self.rules.debounce_ns);
        let seen = nodes.indices().map(|node| (nodes.id(node), is_so(node)));
        states.observe(self.elapsed_ns, base_ns, seen);
        let has_lasted = |&node: &NodeIndex| states.has_lasted(nodes.id(node), base_ns);
        nodes.indices().filter(has_lasted).collect()
    }
}
