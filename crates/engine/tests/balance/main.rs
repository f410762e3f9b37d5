//! The balancer on a machine on paper: what it does, what it leaves, and every fault that may come
//! between looking and acting.

mod acting;
mod faults;
mod keeping;
mod looking;
mod newcomer;
mod stage;
