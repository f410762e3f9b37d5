//! The agent over its socket: what it answers, to whom, and what it bears.

mod authority;
mod bounds;
mod groups;
mod moves;
mod protocol;
mod stage;
