//! The scheduler: fair by virtual run time, and blind to memory unless tasks have home nodes.
//!
//! The state that a decision needs of other CPUs is kept by node: the number of waiting tasks, the
//! idle CPUs, the number of tasks away from home. The cost of a decision therefore depends on the
//! CPUs of a node, not on the size of the machine.

mod balance;
mod block;
mod home;
mod nudge;
mod preferred;
mod queues;
mod requeue;
mod task_moves;
#[cfg(test)]
mod tests;
mod wake;
