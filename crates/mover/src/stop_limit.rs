//! The time that looks at memory have after a stop.

use std::sync::OnceLock;

use nodeward_machine::Machine;

use crate::MoveControl;

/// Looks that account for pages end so long after a stop was seen, in nanoseconds. A command ends
/// within a second of Ctrl-C, whatever it looks at: terabytes of reserved addresses take minutes on
/// a kernel that does not list what is populated.
pub const ACCOUNT_NS: u64 = 300_000_000;
/// The last look ends so long after it.
pub const VERIFY_NS: u64 = 700_000_000;

/// Tells when a stop was long enough ago: by the clock, and by the CPU time that this process had
/// since. Where other programs take the CPUs, it does not give up what it has hardly begun.
pub struct StopLimit<'a> {
    machine: &'a dyn Machine,
    control: &'a MoveControl,
    /// Both at the first look after the stop.
    seen_at: OnceLock<(u64, u64)>,
}

impl<'a> StopLimit<'a> {
    /// Creates the limit of a move that has begun.
    pub fn new(machine: &'a dyn Machine, control: &'a MoveControl) -> Self {
        Self { machine, control, seen_at: OnceLock::new() }
    }

    /// Returns whether a stop was seen at least `ns` nanoseconds ago, or the deadline is over.
    pub fn is_over(&self, ns: u64) -> bool {
        if !self.control.is_stopped() {
            return false;
        }
        if self.control.is_overdue() {
            return true;
        }
        let now = (self.machine.now_ns(), self.machine.own_cpu_time_ns());
        let seen = self.seen_at.get_or_init(|| now);
        now.0.saturating_sub(seen.0) >= ns && now.1.saturating_sub(seen.1) >= ns
    }
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess};
    use nodeward_model::{NodeId, Page, Pid};

    use super::*;

    /// Goal: the time counts from the stop, and not from the start of the move, and only time in
    /// which this process ran.
    #[test]
    fn the_time_counts_from_the_stop() {
        let machine = FakeMachine::new(false);
        let pages = FakeProcess::with_pages(&[Page::on(NodeId(0))]);
        let pid = Pid::new(7).unwrap();
        machine.spawn(pid, FakeProcess { locate_ns: ACCOUNT_NS, ..pages });
        let process = machine.open_process(pid).unwrap();
        let run = || process.locate(&[1 << 16]).map(drop).unwrap();
        let control = MoveControl::default();
        let limit = StopLimit::new(&machine, &control);
        run();
        assert!(!limit.is_over(0), "nobody asked it to stop");
        control.stop();
        assert!(!limit.is_over(ACCOUNT_NS));
        machine.sleep_ns(VERIFY_NS);
        assert!(!limit.is_over(ACCOUNT_NS), "others had the CPUs");
        run();
        assert!(limit.is_over(ACCOUNT_NS) && !limit.is_over(VERIFY_NS));
    }
}
