//! What the `nodeward` command consists of: settings, verbs, output, exit codes. The program itself
//! only reads its arguments and calls a verb.

#![forbid(unsafe_code)]

pub mod exit;
pub mod output;
pub mod settings;
pub mod verbs;
