//! One batch of a migration, as a step machine without IO: it says what to do next, is told what
//! could not be done, and knows where every folio is.
//!
//! The order of the steps is the whole art. Taken one by one, each page costs a flush on every CPU
//! that may have seen it; a batch takes many pages out of sight, flushes once, copies them, maps
//! the copies. Linux does so since 6.3 (Huang Ying's patches of 2023: 99.1 % fewer interrupts), and
//! bounds a batch by what one huge page is long, so that a thread waits no longer than for that.
//!
//! Who carries the steps out is not known here: a pager in its own process, where a step is a few
//! system calls, or a simulator, where it is an event. A batch of one folio is the time before
//! 2023, one with many copiers the patches of 2017.
//!
//! ```
//! use nodeward_migrate::{Batch, Shape, Step};
//!
//! let shape = Shape { folios: 8, folio_pages: 1, page_bytes: 4096, copiers: 2, attempts: 3 };
//! let mut batch = Batch::new(shape);
//! let mut refused = Vec::with_capacity(Batch::PAGES_MAX as usize);
//! let moved = loop {
//!     let step = batch.next(&refused);
//!     refused.clear();
//!     match step {
//!         Step::Unmap(_) | Step::Flush | Step::Copy(_) | Step::Map(_) | Step::PutBack(_) => {
//!             // Carry it out; note in `refused` the folios for which that failed.
//!         }
//!         Step::End(account) => break account.moved,
//!     }
//! };
//! assert_eq!(moved, 8);
//! ```

#![forbid(unsafe_code)]

mod batch;
mod slices;
mod step;

pub use batch::Batch;
pub use step::{Refusal, Refused, Run, Shape, Slice, Step};
