//! A plugin for QEMU: counts which CPU accesses the memory of which node, for each address space
//! and where asked for each frame, before and behind a small model of the nodes' caches; and makes
//! misses take time.
//!
//! Loaded as `-plugin libnodeward_lab_counter.so,counts=FILE`. The file is one that the lab has
//! prepared (`nodeward_lab_counts::Shape`); it says all else.

mod counter;
mod decode;
mod llc;
mod places;
mod price;
mod spaces;
#[allow(unsafe_code, reason = "the room that speaks to the emulator")]
mod sys;
mod translations;
