//! How functions end, and the words for it.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

use nodeward::Error;

/// How a function ended. All but NODEWARD_STATUS_OK mean that nothing was done, and that
/// nodeward_last_error() tells what was wrong and what to do. More may be added later. What
/// happened to single pages is no error: see struct nodeward_report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum NodewardStatus {
    /// It was done.
    Ok = 0,
    /// A pointer is NULL, or a struct or number has a value that has no meaning.
    Argument = 1,
    /// A range is not made of whole pages.
    Unaligned = 2,
    /// A range leaves the region.
    OutOfRegion = 3,
    /// No such node, or none with memory that this process may use.
    UnknownNode = 4,
    /// A setting makes no sense here.
    BadOption = 5,
    /// Huge pages were asked for and there are none.
    NoHugePages = 6,
    /// It works with userfaultfd only, which cannot be had.
    NeedsUserfaultfd = 7,
    /// The pager was opened by the process that this one is a child of.
    Forked = 8,
    /// The region is being released.
    Closing = 9,
    /// A node had no room for memory to be committed.
    NoRoom = 10,
    /// No file descriptor is left.
    NoDescriptor = 11,
    /// A system call failed.
    System = 12,
    /// The machine could not be looked at.
    Machine = 13,
}

/// Why a function cannot do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// The pager's reason.
    Pager(Error),
    /// What C handed over has no meaning; in words that end with what to do.
    Argument(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Pager(error)
    }
}

impl Failure {
    fn status(&self) -> NodewardStatus {
        let Self::Pager(error) = self else { return NodewardStatus::Argument };
        match error {
            Error::Unaligned { .. } => NodewardStatus::Unaligned,
            Error::OutOfRegion { .. } => NodewardStatus::OutOfRegion,
            Error::UnknownNode { .. } => NodewardStatus::UnknownNode,
            Error::BadOption { .. } => NodewardStatus::BadOption,
            Error::NoHugePages { .. } => NodewardStatus::NoHugePages,
            Error::NeedsUserfaultfd { .. } => NodewardStatus::NeedsUserfaultfd,
            Error::Forked => NodewardStatus::Forked,
            Error::Closing => NodewardStatus::Closing,
            Error::NoRoom { .. } => NodewardStatus::NoRoom,
            Error::NoDescriptor { .. } => NodewardStatus::NoDescriptor,
            Error::System { .. } => NodewardStatus::System,
            Error::Machine(_) => NodewardStatus::Machine,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Pager(error) => error.to_string(),
            Self::Argument(words) => words.clone(),
        }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Does something and turns its end into a status.
pub fn status_of(run: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let Err(failure) = run() else { return NodewardStatus::Ok as c_int };
    remember(&failure.words());
    failure.status() as c_int
}

/// Keeps the words for [`nodeward_last_error`].
fn remember(words: &str) {
    // Words may come from the machine (a path), and C's end at a NUL.
    let words = CString::new(words.replace('\0', "")).unwrap_or_default();
    // While a thread ends there is no place for words any more; the status says enough.
    let _ = LAST_ERROR.try_with(|last| last.replace(words));
}

/// What was wrong, and what to do, when a function last failed on the calling thread: a text that
/// is valid until the next failure on this thread, or the end of it. "" if none has failed.
#[unsafe(no_mangle)]
pub extern "C" fn nodeward_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
