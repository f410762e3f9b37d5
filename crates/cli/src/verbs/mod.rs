//! What `nodeward` can be told to do: one module per verb.

pub mod doctor;
