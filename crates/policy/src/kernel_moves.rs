//! Detects that the kernel's NUMA balancing is moving the pages of a process, by how many pages it
//! migrated at hint faults of each thread. Two who move the same pages would move them to and fro.

use std::collections::BTreeMap;

use crate::damping::Backoff;

/// Pages between two looks that tell nothing, 1 MiB: later scans of a process whose memory is
/// where it belongs still move a few.
pub const PAGES_MAX: u64 = 256;
/// A thread that had so much CPU time and has no preferred node is none that the kernel places: its
/// scans begin after 1 s of CPU time, and the first one of a GiB takes 4 s.
pub const DECIDES_NS: u64 = 5_000_000_000;
/// A process is left alone for so long after the kernel was seen to move it, the next time for
/// twice as long: the scans of a process begin a second apart.
pub const HANDS_OFF_NS: u64 = 4_000_000_000;
/// 64 s at most: they end a minute apart (numa_balancing_scan_period_max_ms).
const DOUBLINGS_MAX: u32 = 4;

/// The state of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelMoves {
    /// Pages by thread that were migrated by the last look.
    migrated: BTreeMap<u32, u64>,
    is_unknown: bool,
    hands_off: Backoff,
}

impl KernelMoves {
    /// Takes in what was migrated by now at faults of each thread that was looked at, `ns` after
    /// the look before. A thread that is new counts from its start. `None`: that is not known.
    pub fn see(&mut self, ns: u64, migrated: Option<BTreeMap<u32, u64>>) {
        self.hands_off.pass(ns, HANDS_OFF_NS);
        self.is_unknown = migrated.is_none();
        let Some(migrated) = migrated else { return };
        let since = |(tid, &now): (&u32, &u64)| {
            now.saturating_sub(self.migrated.get(tid).copied().unwrap_or(0))
        };
        let pages = migrated.iter().map(since).fold(0, u64::saturating_add);
        if pages > PAGES_MAX && !self.hands_off.waits() {
            self.hands_off.start(HANDS_OFF_NS, DOUBLINGS_MAX);
        }
        self.migrated.extend(migrated);
    }

    /// Forgets threads that have ended.
    pub fn keep(&mut self, is_there: impl Fn(u32) -> bool) {
        self.migrated.retain(|&tid, _| is_there(tid));
    }

    /// Returns whether the process is to be left alone: the kernel moves its pages, or did so a
    /// moment ago, or nobody knows whether it does.
    pub fn is_hands_off(&self) -> bool {
        self.is_unknown || self.hands_off.waits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Looks once in a second at a process of one thread; returns in which of them it was left
    /// alone.
    fn looks(kernel: &mut KernelMoves, counts: &[u64]) -> Vec<bool> {
        let look = |&pages: &u64| {
            kernel.see(S, Some([(7, pages)].into()));
            kernel.is_hands_off()
        };
        counts.iter().map(look).collect()
    }

    /// Goal: more than 256 pages since the last look keep hands off for 4 s, then, if it goes on,
    /// for 8 s; fewer do not.
    #[test]
    fn who_is_moved_is_left_alone() {
        let mut kernel = KernelMoves::default();
        assert_eq!(looks(&mut kernel, &[256, 512, 768]), [false; 3]);
        let on = |times: usize| [vec![true; times], vec![false]].concat();
        // 257 more, and then nothing: the looks after 0, 1, 2 and 3 s of 4.
        assert_eq!(looks(&mut kernel, &[1025; 5]), on(4));
        assert_eq!(looks(&mut kernel, &[2000; 9]), on(8));
        let all: Vec<u64> = (3..).map(|look| look * 1000).take(16 + 32 + 64 + 64).collect();
        assert_eq!(looks(&mut kernel, &all), [true; 176], "as long as it goes on");
    }

    /// Goal: what the kernel moved before the first look counts as moved now, because nobody knows
    /// when it was; so does each thread that is new. A thread that ended takes nothing away.
    #[test]
    fn threads_count_from_their_start() {
        let see = |looks: &[&[(u32, u64)]]| {
            let mut kernel = KernelMoves::default();
            looks.iter().for_each(|&look| kernel.see(S, Some(look.iter().copied().collect())));
            kernel.is_hands_off()
        };
        assert!(see(&[&[(1, 257)]]));
        assert!(see(&[&[(1, 200), (2, 57)]]), "threads together");
        assert!(!see(&[&[(1, 200)], &[(1, 200), (2, 56)], &[(3, 200)]]));
        assert!(see(&[&[(1, 200)], &[(2, 257)]]));
        assert!(!see(&[&[(1, u64::MAX - 1)], &[], &[], &[], &[], &[(1, u64::MAX)]]));
    }

    /// Goal: where the kernel does not tell, the process is left alone until it does.
    #[test]
    fn what_is_not_known_is_left_alone() {
        let mut kernel = KernelMoves::default();
        kernel.see(S, None);
        assert!(kernel.is_hands_off());
        kernel.see(S, Some([(1, 0)].into()));
        assert!(!kernel.is_hands_off());
    }
}
