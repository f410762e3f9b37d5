//! The balancer on a machine on paper: what it does, what it leaves, and every fault that may come
//! between looking and acting.

mod acting;
mod faults;
mod keeping;
mod launch;
mod looking;
mod stage;
