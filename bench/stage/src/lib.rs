//! The protocol between `nodeward-stage`, which runs tasks under a balancer inside the lab, and its
//! caller: a [`Play`] goes in, [`Line`]s come out.
//!
//! The tasks are `nodeward-stream`, the other program of this package.

#![forbid(unsafe_code)]

pub mod affinity;
mod line;
mod play;

pub use line::{Burden, Curtain, Line, Look};
pub use play::{Balancer, Play, Task};
