//! Results as text and as JSON.

pub mod moves;
