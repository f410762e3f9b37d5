//! What an order wants done with memory, and the orders of the mover for that.

use std::sync::Arc;

use nodeward_machine::{Error, Machine, Process};
use nodeward_model::{NodeId, NodePairs, Nodemask, Topology};
use nodeward_mover::placement::{FoundPlacement, RestoreOrders, restore_orders};
use nodeward_mover::spread::{BLOCK_BYTES_MAX, SpreadSurvey};
use nodeward_mover::{MemoryView, MoveControl, MoveOrder, Selection, undo};
use nodeward_policy::spread::Weights;
use nodeward_records::ledger::MovedPages;
use nodeward_records::placement::SavedPlacement;
use serde_json::Value;

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
    /// Pages go to where they were when a placement was saved.
    Restore {
        /// The placement, of as many processes.
        saved: Box<SavedPlacement>,
        /// The nodes that have memory.
        nodes: Nodemask,
    },
    /// Pages of each process go back.
    Undo(Vec<MovedPages>),
}

/// The orders of a work.
pub struct WorkOrders {
    /// The orders for each process.
    pub orders: Vec<Arc<[MoveOrder]>>,
    /// What of a placement is here, if one is restored.
    pub found: Option<FoundPlacement>,
}

impl MoveWork {
    /// Returns what an order says, for so many processes, that takes nothing back.
    ///
    /// # Errors
    /// If a node does not exist, or cannot take pages, or a size is out of range, or a placement is
    /// none, or of more or fewer processes.
    pub fn of_order(
        order: &Order,
        processes: usize,
        topology: &Topology,
        page_bytes: u64,
    ) -> Result<Self, CallError> {
        let nodes = topology.nodes_with_memory();
        match (&order.spread, &order.placement) {
            (Some(spread), _) => Self::spread(spread, &nodes, page_bytes),
            (None, Some(document)) => Self::restore(document, processes, nodes),
            (None, None) => node_pairs(&order.pairs, &nodes, &topology.node_ids()).map(Self::Move),
        }
    }

    fn restore(document: &Value, processes: usize, nodes: Nodemask) -> Result<Self, CallError> {
        let saved = SavedPlacement::parse(document.to_string().as_bytes(), "placement".as_ref());
        let saved = saved.map_err(|error| CallError::invalid(error.to_string()))?;
        let then = saved.processes.len();
        if then != processes {
            let words = format!("placement: it is of {then} processes, and pids has {processes}");
            return Err(CallError::invalid(words));
        }
        Ok(Self::Restore { saved: Box::new(saved), nodes })
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
    ) -> Result<WorkOrders, Error> {
        let view = |process| MemoryView { process, selection };
        let views = || processes.iter().map(view).collect::<Vec<MemoryView<'_>>>();
        let orders = match self {
            Self::Move(pairs) => {
                let order: Arc<[MoveOrder]> =
                    [MoveOrder { pairs: pairs.clone(), pages: None }].into();
                vec![order; processes.len()]
            }
            Self::Spread { weights, block_bytes } => {
                let survey = SpreadSurvey::new(machine, &views(), *block_bytes, control)?;
                match control.is_stopped() {
                    true => vec![[].into(); processes.len()],
                    false => survey.orders_for_room(machine, weights).orders,
                }
            }
            Self::Restore { saved, nodes } => {
                let RestoreOrders { orders, found } =
                    restore_orders(machine, &views(), saved, nodes, control)?;
                let orders = match control.is_stopped() {
                    true => vec![[].into(); processes.len()],
                    false => orders,
                };
                return Ok(WorkOrders { orders, found: Some(found) });
            }
            Self::Undo(moved) => {
                let both = processes.iter().zip(moved);
                both.map(|(process, moved)| {
                    undo::orders_of_process(&**process, moved, machine.page_bytes())
                })
                .collect::<Result<_, _>>()?
            }
        };
        Ok(WorkOrders { orders, found: None })
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
