//! The counts of the lab's counter, and the file that holds them. They can be read while the
//! machine runs, or afterwards.
//!
//! The counter (`nodeward-lab-counter`) writes the file. The host reads it as a file, a program
//! inside the machine as the memory of a device. Programs control the counter by
//! [marks](mark::Mark).

mod counts;
mod guest;
pub mod mark;
mod reader;
mod shape;
#[allow(unsafe_code, reason = "the room for memory that the emulator writes, and for marks")]
mod sys;

pub use counts::{Cell, Counts, FrameCount, Locality, SlotCounts};
pub use reader::{FileWords, Reader, Words};
pub use shape::{
    Area, CHOSEN, CONTROL, Control, FRAME_BYTES, Frames, Llc, SLOTS, Shape, WORD_BYTES,
};
pub use sys::MappedWords;
