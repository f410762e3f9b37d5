//! A lock that is granted in order of arrival.

use super::event_queue::NEVER_NS;

/// The time of one acquisition of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHold {
    /// Time spent waiting for it, in nanoseconds.
    pub waited_ns: u64,
    /// The time at which it is released.
    pub end_ns: u64,
}

/// A lock that is granted in order of arrival: a CPU that arrives while it is held waits.
#[derive(Clone, Debug, Default)]
pub struct QueuedLock {
    free_at_ns: u64,
    last_cpu: Option<usize>,
}

impl QueuedLock {
    /// Acquires the lock for `hold_ns`. If there was a wait and another CPU held the lock last, it
    /// costs `handoff_ns` more: the cache line with the lock comes from that CPU while others ask
    /// for it, too.
    pub fn acquire(&mut self, cpu: usize, now_ns: u64, hold_ns: u64, handoff_ns: u64) -> LockHold {
        let begin = self.free_at_ns.max(now_ns);
        let waited = begin > now_ns && self.last_cpu != Some(cpu);
        let handoff_ns = if waited { handoff_ns } else { 0 };
        let end_ns = begin.saturating_add(hold_ns).saturating_add(handoff_ns);
        let end_ns = end_ns.min(NEVER_NS.max(begin)); // `begin` may be later than `NEVER_NS`
        self.free_at_ns = end_ns;
        self.last_cpu = Some(cpu);
        LockHold { waited_ns: begin - now_ns, end_ns }
    }

    /// Returns the CPU that held it last.
    pub fn last_cpu(&self) -> Option<usize> {
        self.last_cpu
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a lock that is taken later than any run ends is not released before that.
    #[test]
    fn a_hold_does_not_end_before_it_began() {
        let mut lock = QueuedLock::default();
        let hold = |lock: &mut QueuedLock, cpu, at_ns| lock.acquire(cpu, at_ns, 1_000, 10).end_ns;
        assert_eq!(hold(&mut lock, 0, 5_000), 6_000);
        assert_eq!(hold(&mut lock, 1, 5_500), 7_010); // 6000 + 1000 + 10
        assert_eq!(hold(&mut lock, 0, NEVER_NS - 1), NEVER_NS);
        assert_eq!(hold(&mut lock, 0, NEVER_NS + 7), NEVER_NS + 7);
    }
}
