//! Homes of single threads of a spread process whose pages are placed one by one: the node on which
//! a thread was when that began. Its pages follow it there, so the thread must stay on that node.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

/// Successive looks at which a thread was away, although it was sent back, until its present node
/// becomes its home: the old node has no CPU time for it.
const AWAY_MAX: u32 = 5;
/// Successive looks at which a thread was away until it counts as strayed. Moves themselves take
/// CPUs from threads, which are sent back after one look.
const STRAYED_LOOKS: u32 = 2;
/// Too many threads have strayed if it is more than one in this number.
const STRAYED_PART: usize = 4;

/// The nodes of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadHomes {
    threads: BTreeMap<u32, ThreadHome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadHome {
    node: NodeId,
    /// Successive looks at which the thread was away.
    away: u32,
}

impl ThreadHomes {
    /// Enters where threads are now. New threads belong where they are; threads that ended are
    /// forgotten.
    pub fn see(&mut self, threads: impl Iterator<Item = (u32, NodeId)>) {
        let before = std::mem::take(&mut self.threads);
        let home = |(tid, node)| {
            let home = match before.get(&tid) {
                Some(&home) if home.node == node => ThreadHome { away: 0, ..home },
                Some(&home) if home.away + 1 < AWAY_MAX => {
                    ThreadHome { away: home.away + 1, ..home }
                }
                _ => ThreadHome { node, away: 0 },
            };
            (tid, home)
        };
        self.threads = threads.map(home).collect();
    }

    /// Returns whether too many threads have strayed.
    pub fn are_astray(&self) -> bool {
        let strayed = self.threads.values().filter(|home| home.away >= STRAYED_LOOKS).count();
        strayed * STRAYED_PART > self.threads.len()
    }

    /// Returns the node of a thread; `None` if it belongs nowhere in particular.
    pub fn node_of(&self, tid: u32) -> Option<NodeId> {
        self.threads.get(&tid).map(|home| home.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a thread belongs to the node where it was first seen. If it does not come back in five
    /// looks, it belongs to its present node; if it does, the count begins anew.
    #[test]
    fn who_cannot_come_back_belongs_elsewhere() {
        let mut homes = ThreadHomes::default();
        let mut see = |node| {
            homes.see([(7, NodeId(node))].into_iter());
            homes.node_of(7).unwrap().0
        };
        assert_eq!([0, 1, 1, 1, 1, 0].map(&mut see), [0; 6]);
        assert_eq!([1, 1, 1, 1].map(&mut see), [0; 4]);
        assert_eq!([1, 0].map(&mut see), [1, 1]);
        homes.see([(8, NodeId(0))].into_iter());
        assert_eq!((homes.node_of(7), homes.node_of(8)), (None, Some(NodeId(0))));
    }

    /// Goal: one of four threads may be away, and two of them for one look.
    #[test]
    fn a_process_is_astray_by_its_threads() {
        let mut homes = ThreadHomes::default();
        let mut see = |nodes: [u32; 4]| {
            homes.see((0..).zip(nodes.map(NodeId)));
            homes.are_astray()
        };
        let looks = [[0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0], [0, 0, 1, 0]];
        assert_eq!(looks.map(&mut see), [false, false, false, true, false]);
    }
}
