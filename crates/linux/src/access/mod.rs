//! Observes which thread uses which memory of a running process, and from which CPU.
//!
//! All sources here are events of perf that need no hardware counter. Their samples come in rings
//! ([`records`] reads them); each ring is emptied when samples are taken, by the thread that takes.

pub mod records;
