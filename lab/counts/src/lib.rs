//! What the lab's counter counts, and the file that it keeps it in: who wants to know reads the
//! file while the machine runs, or afterwards.
//!
//! The counter (`nodeward-lab-counter`) writes it, the host reads it as a file, a program inside
//! the machine as the memory of a device.

mod counts;
mod reader;
mod shape;

pub use counts::{Cell, Counts, FrameCount, Locality, SlotCounts};
pub use reader::{FileWords, Reader, Words};
pub use shape::{
    Area, CHOSEN, CONTROL, Control, FRAME_BYTES, Frames, Llc, SLOTS, Shape, WORD_BYTES,
};
