//! The nice values of the balancer's threads: one for moves, and one for looks beside the kernel's
//! NUMA balancing.

use nodeward_machine::Machine;

/// The nice value of looks beside the kernel's balancing: a third of the weight of other threads.
/// In the lab a look takes 20 to 60 ms. With the same weight, on two CPUs that have three busy
/// threads each, that was imbalance enough for the scheduler to exchange threads between the nodes,
/// and the kernel scanned all their memory once more.
const BESIDE_KERNEL: i8 = 5;

/// Moves with a nice value, if there is one and it is permitted. The calling thread has its own
/// value again afterwards.
pub fn of_moves<T>(machine: &dyn Machine, nice: Option<i8>, moves: impl FnOnce() -> T) -> T {
    let before = nice.and_then(|nice| machine.renice_current_thread(nice));
    let moved = moves();
    before.and_then(|nice| machine.renice_current_thread(nice));
    moved
}

/// The nice value of looks, as far as it was changed.
#[derive(Debug, Default)]
pub struct Niceness {
    /// The value before looks got another one.
    before: Option<i8>,
}

impl Niceness {
    /// Gives looks their value, or the old one back. `moves` is that of moves. Without the right to
    /// come back from a higher value nothing changes.
    pub fn of_looks(&mut self, machine: &dyn Machine, moves: Option<i8>, is_beside_kernel: bool) {
        match (is_beside_kernel, self.before, moves) {
            (true, None, Some(moves)) => {
                self.before = machine.renice_current_thread(moves);
                if let Some(before) = self.before {
                    machine.renice_current_thread(BESIDE_KERNEL.max(before));
                }
            }
            (false, Some(before), _) | (_, Some(before), None) => {
                machine.renice_current_thread(before);
                self.before = None;
            }
            _ => {}
        }
    }
}
