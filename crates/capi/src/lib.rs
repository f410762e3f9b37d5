//! libnodeward: the library for C. Each function checks what C handed over, calls the method of
//! `nodeward` with that name, and turns the outcome into a status; nothing is decided here.
//!
//! The comments of public items go to `include/nodeward.h` (`cargo xtask header`), so they speak to
//! C programmers.
//!
//! A panic never crosses the border: where a function of `extern "C"` would unwind, Rust aborts the
//! process. That is what we want. After a panic nobody knows which pages are out of sight, and a
//! status that a caller ignores would let the program go on with zeros.

#![allow(unsafe_code, reason = "C hands over pointers")]
#![allow(clippy::missing_safety_doc, reason = "the header says once what pointers must be")]

mod cancel;
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
