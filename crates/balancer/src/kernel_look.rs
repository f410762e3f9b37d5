//! The actions of the kernel's NUMA balancing on one process, by the looks at its threads.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, NumaActivity};
use nodeward_policy::kernel_moves::KernelMoves;

/// The looks at the threads of one process.
#[derive(Default)]
pub struct KernelLook {
    moves: KernelMoves,
    preferred: BTreeMap<u32, NodeId>,
    at_ns: Option<u64>,
}

impl KernelLook {
    /// Returns the time of the last look, by the machine's clock.
    pub fn at_ns(&self) -> Option<u64> {
        self.at_ns
    }

    /// Returns whether the process is to be left to the kernel.
    pub fn is_hands_off(&self) -> bool {
        self.moves.is_hands_off()
    }

    /// The node that the kernel prefers for a thread, if it has decided.
    pub fn preferred_node(&self, tid: u32) -> Option<NodeId> {
        self.preferred.get(&tid).copied()
    }

    /// Takes in what the kernel did for threads; `None`: that is not known.
    pub fn see(&mut self, now_ns: u64, threads: Option<&BTreeMap<u32, NumaActivity>>) {
        let since_ns = now_ns.saturating_sub(self.at_ns.replace(now_ns).unwrap_or(now_ns));
        let pages = |threads: &BTreeMap<u32, NumaActivity>| {
            threads.iter().map(|(&tid, seen)| (tid, seen.migrated_pages)).collect()
        };
        self.moves.see(since_ns, threads.map(pages));
        let preferred = threads.into_iter().flatten();
        self.preferred =
            preferred.filter_map(|(&tid, seen)| Some((tid, seen.preferred_node?))).collect();
    }

    /// There was no time to look: who was never looked at is left alone.
    pub fn put_off(&mut self) {
        if self.at_ns.is_none() {
            self.moves.see(0, None);
        }
    }

    /// Forgets threads that have ended.
    pub fn keep(&mut self, is_there: impl Fn(u32) -> bool) {
        self.moves.keep(is_there);
    }
}
