//! A sweep: the plan of its points, the figures in its rows, and the rows as lines of a file.

mod format;
mod measure;
mod plan;
mod result;

pub use format::{RowFormat, value};
pub use plan::{IDENTITY_COLUMNS, SweepPlan, SweepRow};
pub use result::SweepResult;
