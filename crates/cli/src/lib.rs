//! What the `nodeward` command is made of.

#![forbid(unsafe_code)]

pub mod output;
