//! The screen of `top`, without a terminal: its state, what keys and new figures change in it, and
//! its picture.
//!
//! ```text
//! bytes of the terminal -> key -> update -> model -> view -> cells of the terminal
//! threads that read and move ------^
//! ```
//!
//! Nothing here reads a machine, a clock or a terminal. `verbs::top` has the threads.

mod history;
mod key;
mod model;
mod order;
mod update;
mod view;

pub use key::KeyParser;
pub use model::{Look, Model, MoveStatus, NewMove, Proposal, ScreenEvent, ScreenRequest, Setup};
pub use order::sorted;
pub use update::update;
pub use view::{draw, seen};
