//! The counts of the lab's counter, and the file that holds them. They can be read while the
//! machine runs, or afterwards.
//!
//! The counter (`nodeward-lab-counter`) writes the file. The host reads it as a file, a program
//! inside the machine as the memory of a device. Programs control the counter by
//! [marks](mark::Mark).

mod ivshmem;
mod known_accesses;
mod layout;
pub mod mark;
mod reader;
mod snapshot;
#[allow(unsafe_code, reason = "the room for memory that the emulator writes, and for marks")]
mod sys;

pub use known_accesses::{LINE_WORDS, read_lines};
pub use layout::{
    CONTROL, CacheGeometry, ControlWords, CountsLayout, CpuArea, FRAME_BYTES, FrameRange,
    SELECTABLE_SLOTS, SLOTS, WORD_BYTES,
};
pub use reader::{CountsReader, FileWords, WordSource};
pub use snapshot::{AccessCount, CounterSnapshot, FrameCount, Locality, SlotCounts};
pub use sys::MappedWords;
