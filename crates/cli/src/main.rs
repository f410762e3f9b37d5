//! The `nodeward` command.
fn main() {}
