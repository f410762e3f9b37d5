//! Interrupts that CPUs still have to answer.

use crate::events::NEVER_NS;

/// The interrupts that CPUs still have to answer.
#[derive(Clone, Debug, Default)]
pub struct PendingIpis {
    /// By CPU: the time at which it will have answered its interrupts.
    pub answered_ns: Vec<u64>,
}

impl PendingIpis {
    /// Creates the state for a number of CPUs.
    pub fn new(cpus: usize) -> Self {
        Self { answered_ns: vec![0; cpus] }
    }

    /// Adds an interrupt for a CPU, which answers it `late_ns` late. Returns the delay until it
    /// begins to answer, with earlier interrupts included.
    pub fn enqueue(&mut self, cpu: usize, now_ns: u64, answer_ns: u64, late_ns: u64) -> u64 {
        let begin_ns = self.answered_ns[cpu].max(now_ns).saturating_add(late_ns).min(NEVER_NS);
        self.answered_ns[cpu] = begin_ns + answer_ns;
        begin_ns - now_ns
    }
}
