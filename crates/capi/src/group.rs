//! Groups of threads and memory, by the calls that were proposed for Linux in 2012.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use nodeward::{
    Error, FollowFailure, FollowOptions, GroupAgent, GroupFailure, GroupHome, HomeFollower,
    MoveTime, managed_regions,
};
use rustix::io::Errno;

use crate::pointers;
use crate::status::set_last_error;

/// For nodeward_tbind(): make a group.
pub const NODEWARD_GROUP_NEW: c_int = -1;
/// For nodeward_tbind(): which group is the thread in?
pub const NODEWARD_GROUP_QUERY: c_int = -2;

/// For nodeward_mbind(): pages move when a thread next touches them, to the node of that thread.
/// The value of MPOL_MF_LAZY.
pub const NODEWARD_MBIND_LAZY: c_uint = 1 << 3;

/// The name of groups that `nodeward_tbind` and the like make, as lists show it.
const NAME: &str = "tbind";

/// Puts a thread into a group of threads and memory, which the agent (`nodeward balance`) places as
/// one. `tid` is as gettid(2) returns it, of this process or another; 0 is the calling thread.
/// `group` is the number of the group that the thread is to join, or
///
/// - NODEWARD_GROUP_NEW: make a group and put the thread into it,
/// - NODEWARD_GROUP_QUERY: change nothing.
///
/// `flags` must be 0. Returns the number of the group in which the thread is now, above 0, or
///
/// - -ESRCH: there is no such thread,
/// - -EINVAL: flags are not 0, there is no such group of this user, or a thread that was asked
///   about is in none,
/// - -EPERM: the thread's process is not this user's, or has other privileges,
/// - -ENOSPC: there are as many groups, or pieces of memory in them, as there may be,
/// - -EAGAIN: the agent has been busy for 30 seconds,
/// - -ECONNREFUSED: no agent answers, at /run/nodeward/nodeward.sock or where the variable
///   NODEWARD_SOCKET says; -EACCES: its socket may not be used; -ECONNRESET: it ended, or did not
///   answer within 30 seconds; -EPROTO: it is of another version, or failed.
///
/// nodeward_last_error() returns the cause and what to do. A group ends when its last thread has
/// ended or left and no process runs whose memory is in it, or by nodeward_group_delete(). A child
/// of fork(2) is in no group.
#[unsafe(no_mangle)]
pub extern "C" fn nodeward_tbind(tid: c_int, group: c_int, flags: c_uint) -> c_int {
    returned(tbind(tid, group, flags))
}

/// Puts memory of this process into a group: `len` bytes from `addr`, which must be the first of a
/// page; the last page is all of it. `group` is a number that nodeward_tbind() returned. The
/// addresses leave the group in which they were, and stay in this one, whatever is mapped there
/// later. Pages are base pages. A huge page of hugetlb is in one group as a whole: in that which
/// has the lowest address in it.
///
/// Memory that lies in one region of a pager is moved by that pager to where the group is: a thread
/// of the library, one for all, asks the agent once a second where that is. That ends with the
/// region. All other memory is moved by the agent in its next rounds. `flags` is 0 or
///
/// - NODEWARD_MBIND_LAZY: pages of the region move when a thread next touches them, to the node of
///   that thread, after the group has got another home.
///
/// Returns 0, also for no bytes, or an error as nodeward_tbind() does, -EINVAL also for an address
/// within a page and for lazy memory that is not a region's, -EOPNOTSUPP where pages of the region
/// cannot move when they are touched, -ENOMEM if the kernel refuses a thread. In a child of fork(2)
/// the agent moves all memory.
#[unsafe(no_mangle)]
pub extern "C" fn nodeward_mbind(
    addr: *const c_void,
    len: usize,
    group: c_int,
    flags: c_uint,
) -> c_int {
    returned(mbind(addr, len, group, flags).map(|()| 0))
}

/// Says where a group is to be, from the next round of the balancer on: "auto", nodes such as
/// "0-1", or "spread:" and nodes. Returns 0, or an error as nodeward_tbind() does, -EINVAL also if
/// `home` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nodeward_group_set_home(group: c_int, home: *const c_char) -> c_int {
    // SAFETY: C hands over a text, or NULL.
    let home = unsafe { pointers::text(home) };
    returned(set_home(group, home).map(|()| 0))
}

/// Deletes a group before its members end. They belong to their processes again. Returns 0, or an
/// error as nodeward_tbind() does.
#[unsafe(no_mangle)]
pub extern "C" fn nodeward_group_delete(group: c_int) -> c_int {
    let deleted = number(group).and_then(|id| Ok(GroupAgent::default().open(id).delete()?));
    returned(deleted.map(|()| 0))
}

/// The reasons for which a call did nothing.
enum BindFailure {
    /// The agent refused, or was not asked.
    Group(GroupFailure),
    /// The region refused.
    Region(Error),
    /// A value from C has no meaning; the words end with what to do.
    Argument(&'static str),
}

impl From<GroupFailure> for BindFailure {
    fn from(failure: GroupFailure) -> Self {
        Self::Group(failure)
    }
}

impl From<FollowFailure> for BindFailure {
    fn from(failure: FollowFailure) -> Self {
        match failure {
            FollowFailure::Group(failure) => Self::Group(failure),
            FollowFailure::Region(error) => Self::Region(error),
        }
    }
}

impl BindFailure {
    fn errno(&self) -> Errno {
        match self {
            Self::Region(Error::NeedsUserfaultfd { .. }) => Errno::OPNOTSUPP,
            Self::Region(Error::System { .. }) => Errno::NOMEM,
            Self::Argument(_) | Self::Region(_) => Errno::INVAL,
            Self::Group(failure) => match failure {
                GroupFailure::NoSuchThread { .. } => Errno::SRCH,
                GroupFailure::NotAllowed(_) => Errno::PERM,
                GroupFailure::Invalid(_)
                | GroupFailure::NoMemory { .. }
                | GroupFailure::NoSuchGroup { .. } => Errno::INVAL,
                GroupFailure::LimitReached(_) => Errno::NOSPC,
                GroupFailure::Busy(_) => Errno::AGAIN,
                GroupFailure::NoAgent { .. } => Errno::CONNREFUSED,
                GroupFailure::NoAccess { .. } => Errno::ACCESS,
                GroupFailure::Lost(_) => Errno::CONNRESET,
                GroupFailure::Failed(_) | GroupFailure::Strange(_) => Errno::PROTO,
            },
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Group(failure) => failure.to_string(),
            Self::Region(error) => error.to_string(),
            Self::Argument(words) => (*words).to_owned(),
        }
    }
}

fn tbind(tid: c_int, group: c_int, flags: c_uint) -> Result<u32, BindFailure> {
    check_flags(flags)?;
    let agent = GroupAgent::default();
    let tid = match tid {
        0 => rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned(),
        // No thread has such a number, negative ones neither.
        tid => tid.cast_unsigned(),
    };
    match group {
        NODEWARD_GROUP_NEW => {
            let made = agent.make(NAME, &GroupHome::Auto)?;
            made.add_thread(tid)?;
            Ok(made.leave())
        }
        NODEWARD_GROUP_QUERY => agent.group_of(tid)?.ok_or(BindFailure::Argument(
            "the thread is in no group; put it into one by nodeward_tbind()",
        )),
        group => {
            let joined = agent.open(number(group)?);
            joined.add_thread(tid)?;
            Ok(joined.id())
        }
    }
}

fn mbind(addr: *const c_void, len: usize, group: c_int, flags: c_uint) -> Result<(), BindFailure> {
    if flags & !NODEWARD_MBIND_LAZY != 0 {
        return Err(BindFailure::Argument("flags are neither 0 nor NODEWARD_MBIND_LAZY"));
    }
    if !addr.addr().is_multiple_of(rustix::param::page_size()) {
        return Err(BindFailure::Argument("addr is within a page; name the first byte of one"));
    }
    let group = GroupAgent::default().open(number(group)?);
    match (managed_regions::holding(addr.addr(), len), flags) {
        (Some((region, range)), flags) => {
            let is_lazy = flags & NODEWARD_MBIND_LAZY != 0;
            let time = if is_lazy { MoveTime::OnTouch } else { MoveTime::AtOnce };
            Ok(follower().map_err(BindFailure::Region)?.add(&group, &region, range, time)?)
        }
        (None, 0) => Ok(group.add_memory(addr.cast(), len)?),
        (None, _) => Err(BindFailure::Argument(
            "no region of a pager has all of this memory, and only such moves when it is touched",
        )),
    }
}

/// Returns what brings regions to their groups, which is started when it is first needed.
fn follower() -> Result<Arc<HomeFollower>, Error> {
    static FOLLOWER: Mutex<Option<Arc<HomeFollower>>> = Mutex::new(None);
    // Only the process that has regions comes here, so no child of fork(2) finds this locked.
    let mut shared = FOLLOWER.lock().unwrap_or_else(PoisonError::into_inner);
    let started = || HomeFollower::start(FollowOptions::default()).map(Arc::new);
    let follower = shared.take().map_or_else(started, Ok)?;
    Ok(Arc::clone(shared.insert(follower)))
}

fn set_home(group: c_int, home: Option<&str>) -> Result<(), BindFailure> {
    let home =
        home.ok_or(BindFailure::Argument("home is NULL or no text; pass \"auto\" or nodes"))?;
    let home: GroupHome = home.parse().map_err(GroupFailure::Invalid)?;
    Ok(GroupAgent::default().open(number(group)?).set_home(&home)?)
}

fn check_flags(flags: c_uint) -> Result<(), BindFailure> {
    match flags {
        0 => Ok(()),
        _ => Err(BindFailure::Argument("flags are not 0; there are none")),
    }
}

fn number(group: c_int) -> Result<u32, BindFailure> {
    let words = "the group has no number above 0; take one that nodeward_tbind() returned";
    u32::try_from(group).map_err(|_| BindFailure::Argument(words))
}

fn returned(result: Result<u32, BindFailure>) -> c_int {
    match result {
        Ok(number) => c_int::try_from(number).unwrap_or(c_int::MAX),
        Err(failure) => {
            set_last_error(&failure.message());
            -failure.errno().raw_os_error()
        }
    }
}
