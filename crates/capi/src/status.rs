//! The status that functions return, and its words.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

use nodeward::{Error, PoolError};

/// The result of a function. All but NODEWARD_STATUS_OK mean that nothing was done, and that
/// nodeward_last_error() returns the cause and what to do. Later versions may add values. What
/// happened to single pages is no error: see struct nodeward_report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum NodewardStatus {
    /// Success.
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
    /// Huge pages were requested and there are none.
    NoHugePages = 6,
    /// The call works only with userfaultfd, which cannot be used.
    NeedsUserfaultfd = 7,
    /// The parent process opened the pager or pool.
    Forked = 8,
    /// The region is being released.
    Closing = 9,
    /// A node has no room for memory to be committed, or no allowed node has room for a run.
    NoRoom = 10,
    /// No file descriptor is left.
    NoDescriptor = 11,
    /// A system call failed.
    System = 12,
    /// /proc or /sys could not be read.
    Machine = 13,
    /// The order is too large; see nodeward_pool_order_max().
    RunTooLong = 14,
    /// The address is not memory of the pool.
    NotOurs = 15,
    /// The address is memory of the pool, but no run begins there.
    NotAStart = 16,
    /// The run was allocated with another order.
    WrongOrder = 17,
    /// The run is not allocated: it was freed before, or never allocated.
    DoubleFree = 18,
    /// Memory was written after it was freed. It is not handed out again. Only debug builds of the
    /// library detect this.
    WrittenAfterFree = 19,
    /// The pool was closed; allocated runs can still be freed.
    PoolClosed = 20,
    /// The pool was released and cannot be used any more.
    PoolReleased = 21,
}

/// The reasons for which a function cannot do what was asked.
#[derive(Debug)]
pub enum CallFailure {
    /// The pager's reason.
    Pager(Error),
    /// The pool's reason.
    Pool(PoolError),
    /// There is no pool any more.
    PoolReleased,
    /// A value from C has no meaning; the words end with what to do.
    Argument(String),
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        Self::Pager(error)
    }
}

impl From<PoolError> for CallFailure {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<&PoolError> for NodewardStatus {
    fn from(error: &PoolError) -> Self {
        match error {
            PoolError::Order { .. } => Self::RunTooLong,
            PoolError::UnknownNode { .. } => Self::UnknownNode,
            PoolError::NoMemory { .. } => Self::NoRoom,
            PoolError::NotOurs { .. } => Self::NotOurs,
            PoolError::NotAStart { .. } => Self::NotAStart,
            PoolError::WrongOrder { .. } => Self::WrongOrder,
            PoolError::DoubleFree { .. } => Self::DoubleFree,
            // C has no guards.
            PoolError::Guarded { .. } => Self::NotAStart,
            PoolError::WrittenAfterFree { .. } => Self::WrittenAfterFree,
            PoolError::Closed => Self::PoolClosed,
            PoolError::Forked => Self::Forked,
        }
    }
}

impl From<&Error> for NodewardStatus {
    fn from(error: &Error) -> Self {
        match error {
            Error::Unaligned { .. } => Self::Unaligned,
            Error::OutOfRegion { .. } => Self::OutOfRegion,
            Error::UnknownNode { .. } => Self::UnknownNode,
            Error::BadOption { .. } => Self::BadOption,
            Error::NoHugePages { .. } => Self::NoHugePages,
            Error::NeedsUserfaultfd { .. } => Self::NeedsUserfaultfd,
            Error::Forked => Self::Forked,
            // C has no copiers.
            Error::WithinPager => Self::BadOption,
            Error::Closing => Self::Closing,
            Error::NoRoom { .. } => Self::NoRoom,
            Error::NoDescriptor { .. } => Self::NoDescriptor,
            Error::System { .. } => Self::System,
            Error::Machine(_) => Self::Machine,
        }
    }
}

impl CallFailure {
    fn status(&self) -> NodewardStatus {
        match self {
            Self::Pager(error) => error.into(),
            Self::Pool(error) => error.into(),
            Self::PoolReleased => NodewardStatus::PoolReleased,
            Self::Argument(_) => NodewardStatus::Argument,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Pager(error) => error.to_string(),
            Self::Pool(error) => error.to_string(),
            Self::PoolReleased => {
                "the pool was released; release it after its last use, or open another one".into()
            }
            Self::Argument(words) => words.clone(),
        }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Does something and turns its end into a status.
pub fn status_of(run: impl FnOnce() -> Result<(), CallFailure>) -> c_int {
    run().map_or_else(|failure| failed(&failure), |()| NodewardStatus::Ok as c_int)
}

/// Away from the path of calls that succeed, which may be taken every 50 ns.
#[cold]
fn failed(failure: &CallFailure) -> c_int {
    set_last_error(&failure.message());
    failure.status() as c_int
}

/// Keeps the words for [`nodeward_last_error`].
pub fn set_last_error(words: &str) {
    // Words may come from the machine (a path), and C's end at a NUL.
    let words = CString::new(words.replace('\0', "")).unwrap_or_default();
    // While a thread ends there is no place for words any more; the status says enough.
    let _ = LAST_ERROR.try_with(|last| last.replace(words));
}

/// Returns the cause of the last failure of a function on the calling thread, and what to do. The
/// text is valid until the next failure on this thread or the end of the thread. "" if none has
/// failed.
#[unsafe(no_mangle)]
pub extern "C" fn nodeward_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
