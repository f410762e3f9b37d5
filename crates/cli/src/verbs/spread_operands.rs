//! What the words of `spread` say: processes, the shares of nodes, and kinds of memory.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use nodeward_model::units::format_bytes;
use nodeward_model::{MappingKind, NodeId, Nodemask, Pid, Topology};
use nodeward_mover::spread::BLOCK_BYTES_MAX;
use nodeward_policy::spread::Weights;

use crate::args::SpreadArgs;
use crate::machines::{SelectedMachine, node_pairs};

/// The operands `PID... NODES`, with the options that say how much of what goes where.
pub struct SpreadOperands {
    /// The processes that are named by pid.
    pub pids: Vec<Pid>,
    /// The nodes with their shares.
    pub shares: Vec<(NodeId, u32)>,
    /// The kinds of memory.
    pub kinds: BTreeSet<MappingKind>,
}

impl SpreadOperands {
    /// Parses them.
    ///
    /// # Errors
    /// If a word is missing, or names nothing that can be spread.
    pub fn parse(args: &SpreadArgs, chosen: &SelectedMachine, topology: &Topology) -> Result<Self> {
        check_block(args.block, chosen.machine().page_bytes())?;
        let [pids @ .., text] = &args.operands[..] else { bail!("NODES are missing") };
        if pids.is_empty() && args.name.is_empty() && args.cgroup.is_empty() {
            bail!("no process is named: give a PID, --name or --cgroup before '{text}'");
        }
        let pids = pids.iter().map(|pid| Ok(pid.parse()?)).collect::<Result<Vec<Pid>>>()?;
        let names = chosen.node_names(topology)?;
        let nodes = node_pairs::parse_destinations("NODES", text, topology, &names)?;
        if let [node] = nodes[..] {
            bail!(
                "NODES is node {node} alone; to bring memory there use nodeward move PID... FROM \
                 {node}"
            );
        }
        let shares = shares(&nodes, &args.weights)?;
        Ok(Self { pids, shares, kinds: kinds(args) })
    }
}

fn shares(nodes: &[NodeId], given: &[u32]) -> Result<Vec<(NodeId, u32)>> {
    let equal = vec![1; nodes.len()];
    let given = if given.is_empty() { &equal[..] } else { given };
    if given.len() != nodes.len() {
        let mask: Nodemask = nodes.iter().copied().collect();
        let (weights, nodes) = (given.len(), nodes.len());
        bail!("--weights has {weights} numbers, for {nodes} nodes ({mask}); give one for each");
    }
    let shares: Vec<(NodeId, u32)> = nodes.iter().copied().zip(given.iter().copied()).collect();
    Weights::new(shares.iter().copied())?; // whether they are weights
    Ok(shares)
}

/// Private mappings of files are mostly programs and libraries, which many processes share.
fn kinds(args: &SpreadArgs) -> BTreeSet<MappingKind> {
    match args.only.is_empty() {
        true => MappingKind::ALL.into_iter().filter(|kind| *kind != MappingKind::File).collect(),
        false => args.only.iter().copied().collect(),
    }
}

fn check_block(block_bytes: u64, page_bytes: u64) -> Result<()> {
    if block_bytes == 0 || !block_bytes.is_multiple_of(page_bytes) {
        let page = format_bytes(page_bytes);
        bail!("--block is {block_bytes} bytes; it must be a multiple of the page size, {page}");
    }
    if block_bytes > BLOCK_BYTES_MAX {
        bail!("--block must be {} or less", format_bytes(BLOCK_BYTES_MAX));
    }
    Ok(())
}
