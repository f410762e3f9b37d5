//! The state of a whole simulated machine, and what can be asked of it.

mod barrier;
mod queries;
mod state;
mod stream_window;

pub use barrier::Barrier;
pub use state::{TaskProgram, WorkEnds, World};
pub use stream_window::StreamWindow;
