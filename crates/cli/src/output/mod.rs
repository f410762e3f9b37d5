//! What is printed: pure functions from values to text, and JSON types with a schema version.

pub mod doctor;
