//! Programs that run inside the kernel (BPF): their compiled objects, and what loads them.
//!
//! The programs are C files in `programs`; `make bpf` compiles them to `objects`, which are
//! committed, so that a build needs no clang. An object fits every kernel: places of fields and
//! values of enumerators are looked up in the type information of the running kernel (BTF). What a
//! kernel lacks disables what depends on it, and is named.

mod capabilities;
pub mod homes;
mod kernel_calls;
mod kernel_types;
pub mod migrations;
pub mod page_lists;
mod probe;
mod program_set;
mod struct_ops;
#[allow(unsafe_code, reason = "the room for calls of bpf(2) that no safe library has")]
mod sys;
mod time_histogram;
mod unavailable;

pub use capabilities::drop_capabilities;
pub use probe::{Absence, Absent, Attachment, Probe};
pub use program_set::ProgramSet;
pub use time_histogram::TimeHistogram;
pub use unavailable::Unavailable;
