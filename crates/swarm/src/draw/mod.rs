//! What a seed stands for: a machine, programs, what is done to them, and who moves their memory.

mod scenario;
mod style;

pub use scenario::scenario;
pub use style::{LIKELY, Style, WILD};
