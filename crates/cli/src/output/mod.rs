//! Results as text and as JSON.

pub mod doctor;
pub mod moves;
pub mod topology;
