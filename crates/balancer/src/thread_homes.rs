//! On which node each thread of a spread process belongs whose pages are placed one by one: where
//! it was when that began. Its pages follow it there, so it must not wander off meanwhile.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

/// A thread that is elsewhere at so many looks in succession, though it was to come back, belongs
/// there now: there is no time for it where it was.
const AWAY_MAX: u32 = 5;

/// The nodes of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadHomes {
    threads: BTreeMap<u32, ThreadHome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadHome {
    node: NodeId,
    /// Looks in succession at which the thread was elsewhere.
    away: u32,
}

impl ThreadHomes {
    /// Takes in where threads are now. New ones belong there, and what is gone is forgotten.
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

    /// Where a thread belongs; `None` if that is anywhere.
    pub fn node_of(&self, tid: u32) -> Option<NodeId> {
        self.threads.get(&tid).map(|home| home.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a thread belongs where it was seen first; one that does not come back in five looks
    /// belongs where it is, and one that does begins anew.
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
}
