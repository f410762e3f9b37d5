//! One batch of a migration, as a state machine without IO: it returns the next step, is told which
//! folios were refused, and knows the state of every folio.
//!
//! The order of the steps is what matters. Moved one by one, each page costs a TLB flush on every
//! CPU that may have cached its mapping. A batch unmaps many pages, flushes once, copies them, and
//! maps the copies. Linux does so since 6.3 (Huang Ying's patches of 2023: 99.1 % fewer
//! interrupts), and limits a batch to the length of one huge page, so that a thread waits no longer
//! than for one.
//!
//! This crate does not know who carries the steps out: a pager in its own process, where a step is
//! a few system calls, or a simulator, where it is an event. A batch of one folio models Linux
//! before 2023, one with many copiers the patches of 2017.
//!
//! ```
//! use nodeward_batch::{Batch, BatchShape, BatchStep};
//!
//! let shape =
//!     BatchShape { folios: 8, folio_pages: 1, page_bytes: 4096, copiers: 2, attempts: 3 };
//! let mut batch = Batch::new(shape);
//! let mut refused = Vec::with_capacity(Batch::PAGES_MAX as usize);
//! let moved = loop {
//!     let step = batch.next(&refused);
//!     refused.clear();
//!     match step {
//!         BatchStep::Unmap(_)
//!         | BatchStep::Flush
//!         | BatchStep::Copy(_)
//!         | BatchStep::Map(_)
//!         | BatchStep::PutBack(_) => {
//!             // Carry it out; note in `refused` the folios for which that failed.
//!         }
//!         BatchStep::End(account) => break account.moved,
//!     }
//! };
//! assert_eq!(moved, 8);
//! ```

#![forbid(unsafe_code)]

mod batch;
mod copy_slices;
mod step;

pub use batch::Batch;
pub use step::{BatchShape, BatchStep, CopySlice, FolioRefusal, FolioRun, RefusedFolio};
