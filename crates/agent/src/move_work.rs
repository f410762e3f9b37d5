//! What an order wants done with memory, and the orders of the mover for that.

use std::sync::Arc;

use nodeward_machine::{Error, Machine, Process};
use nodeward_model::{NodeId, NodePairs, Nodemask, Topology};
use nodeward_mover::spread::{BLOCK_BYTES_MAX, SpreadSurvey};
use nodeward_mover::{MemoryView, MoveControl, MoveOrder, Selection, undo};
use nodeward_policy::spread::Weights;
use nodeward_records::ledger::MovedPages;

use crate::errors::CallError;
use crate::wire::{Order, WirePair, WireSpread};

/// Memory that stays together where an order does not say how much, in bytes.
const BLOCK_BYTES: u64 = 2 << 20;

/// What is to be done.
pub enum MoveWork {
    /// Pages go from some nodes to others.
    Move(NodePairs),
    /// Pages are evened out over nodes.
    Spread {
        /// The share of each node.
        weights: Weights,
        /// How much memory stays together.
        block_bytes: u64,
    },
    /// Pages of each process go back.
    Undo(Vec<MovedPages>),
}

impl MoveWork {
    /// Returns what an order says that takes nothing back.
    ///
    /// # Errors
    /// If a node does not exist, or cannot take pages, or a size is out of range.
    pub fn of_order(
        order: &Order,
        topology: &Topology,
        page_bytes: u64,
    ) -> Result<Self, CallError> {
        let with_memory = topology.nodes_with_memory();
        match &order.spread {
            Some(spread) => Self::spread(spread, &with_memory, page_bytes),
            None => node_pairs(&order.pairs, &with_memory, &topology.node_ids()).map(Self::Move),
        }
    }

    fn spread(
        spread: &WireSpread,
        with_memory: &Nodemask,
        page_bytes: u64,
    ) -> Result<Self, CallError> {
        if let Some(share) = spread.nodes.iter().find(|share| !with_memory.contains(share.node)) {
            let words = format!("spread: node {} does not exist, or has no memory", share.node);
            return Err(CallError::invalid(format!("{words}; {with_memory} have")));
        }
        let block_bytes = spread.block.unwrap_or(BLOCK_BYTES);
        if !block_bytes.is_multiple_of(page_bytes) || !(1..=BLOCK_BYTES_MAX).contains(&block_bytes)
        {
            let words = format!("spread: block is a multiple of {page_bytes} up to 64 GiB");
            return Err(CallError::invalid(words));
        }
        let weights = Weights::new(spread.nodes.iter().map(|share| (share.node, share.weight)));
        let weights = weights.map_err(|error| CallError::invalid(format!("spread: {error}")))?;
        Ok(Self::Spread { weights, block_bytes })
    }

    /// Returns the orders for each process. Looks where its pages are, if that is needed; nothing
    /// is ordered if the look is stopped.
    ///
    /// # Errors
    /// If a process is gone or cannot be read.
    pub fn orders(
        &self,
        machine: &dyn Machine,
        processes: &[Arc<dyn Process>],
        selection: &Selection,
        control: &MoveControl,
    ) -> Result<Vec<Arc<[MoveOrder]>>, Error> {
        match self {
            Self::Move(pairs) => {
                let order: Arc<[MoveOrder]> =
                    [MoveOrder { pairs: pairs.clone(), pages: None }].into();
                Ok(vec![order; processes.len()])
            }
            Self::Spread { weights, block_bytes } => {
                let view = |process| MemoryView { process, selection };
                let views: Vec<MemoryView<'_>> = processes.iter().map(view).collect();
                let survey = SpreadSurvey::new(machine, &views, *block_bytes, control)?;
                if control.is_stopped() {
                    return Ok(vec![[].into(); processes.len()]);
                }
                Ok(survey.orders_for_room(machine, weights).orders)
            }
            Self::Undo(moved) => {
                let both = processes.iter().zip(moved);
                both.map(|(process, moved)| {
                    undo::orders_of_process(&**process, moved, machine.page_bytes())
                })
                .collect()
            }
        }
    }
}

fn node_pairs(
    pairs: &[WirePair],
    with_memory: &Nodemask,
    all: &Nodemask,
) -> Result<NodePairs, CallError> {
    let mut from: Vec<NodeId> = Vec::new();
    let mut to = Vec::new();
    for pair in pairs {
        if !all.contains(pair.from) || !with_memory.contains(pair.to) {
            let words = "pairs: a node does not exist, or has no memory";
            return Err(CallError::invalid(format!("{words}; {with_memory} have")));
        }
        if from.contains(&pair.from) {
            return Err(CallError::invalid(format!("pairs: node {} gives twice", pair.from)));
        }
        from.push(pair.from);
        to.push(pair.to);
    }
    Ok(NodePairs::from_lists(&from, &to))
}
