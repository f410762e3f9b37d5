//! What the command prints: pure functions from values to text.

pub mod topology;
