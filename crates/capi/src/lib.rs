//! libnodeward: the library for C. Each function checks its arguments, calls the method of
//! `nodeward` with that name, and turns the result into a status. It decides nothing itself.
//!
//! The comments of public items go to `include/nodeward.h` (`cargo xtask header`), so they address
//! C programmers.
//!
//! A panic never unwinds into C: where a function of `extern "C"` would unwind, Rust aborts the
//! process. After a panic nobody knows which pages are unmapped. A status that a caller ignores
//! would let the program go on and read zeros.

#![allow(unsafe_code, reason = "C hands over pointers")]
#![allow(clippy::missing_safety_doc, reason = "the header says once what pointers must be")]

mod cancel;
mod group;
mod machine;
mod options;
mod pager;
mod pointers;
mod pool;
mod region;
mod report;
mod sized;
mod status;
#[cfg(test)]
mod tests;
