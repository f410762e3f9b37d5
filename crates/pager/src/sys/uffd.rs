//! userfaultfd: opening it, its ioctls, and the faults that are read from it. The definitions
//! follow linux/userfaultfd.h. The crate `userfaultfd` would save them, but it has no UFFDIO_MOVE
//! and hides how much of a call was done, which an exact account needs.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use nodeward_linux::own::PageMap;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::UserfaultfdFlags;

/// Faults carry the id of the thread (UFFD_FEATURE_THREAD_ID, Linux 4.14).
pub const FEATURE_THREAD_ID: u64 = 1 << 8;
/// UFFDIO_MOVE is there (UFFD_FEATURE_MOVE, Linux 6.8).
pub const FEATURE_MOVE: u64 = 1 << 16;

/// The bit of UFFDIO_COPY in what [`Uffd::register`] returns.
pub const CAN_COPY: u64 = 1 << 3;
/// The bit of UFFDIO_MOVE in what [`Uffd::register`] returns.
pub const CAN_MOVE: u64 = 1 << 5;

const API_VERSION: u64 = 0xaa; // UFFD_API
const MODE_MISSING: u64 = 1 << 0; // UFFDIO_REGISTER_MODE_MISSING
const DONT_WAKE: u64 = 1 << 0; // the same bit for UFFDIO_COPY, _ZEROPAGE and _MOVE
const EVENT_PAGEFAULT: u8 = 0x12;
const MESSAGE_BYTES: usize = 32; // struct uffd_msg

const NEW: libc::Ioctl = libc::_IO(0xaa, 0x00);
const API: libc::Ioctl = libc::_IOWR::<ApiArgument>(0xaa, 0x3f);
const REGISTER: libc::Ioctl = libc::_IOWR::<RegisterArgument>(0xaa, 0x00);
const UNREGISTER: libc::Ioctl = libc::_IOR::<RangeArgument>(0xaa, 0x01);
const WAKE: libc::Ioctl = libc::_IOR::<RangeArgument>(0xaa, 0x02);
const COPY: libc::Ioctl = libc::_IOWR::<TransferArgument>(0xaa, 0x03);
const ZEROPAGE: libc::Ioctl = libc::_IOWR::<ZeroArgument>(0xaa, 0x04);
const MOVE: libc::Ioctl = libc::_IOWR::<TransferArgument>(0xaa, 0x05);

/// `struct uffdio_api`.
#[repr(C)]
struct ApiArgument {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_range`.
#[repr(C)]
struct RangeArgument {
    start: u64,
    bytes: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct RegisterArgument {
    range: RangeArgument,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_copy` and `struct uffdio_move`, which have the same fields.
#[repr(C)]
struct TransferArgument {
    to: u64,
    from: u64,
    bytes: u64,
    mode: u64,
    done: i64,
}

/// `struct uffdio_zeropage`.
#[repr(C)]
struct ZeroArgument {
    range: RangeArgument,
    mode: u64,
    done: i64,
}

const _: () = assert!(size_of::<ApiArgument>() == 24 && size_of::<RegisterArgument>() == 32);
const _: () = assert!(size_of::<TransferArgument>() == 40 && size_of::<ZeroArgument>() == 32);

/// A call that was not done to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Bytes that were done, from the start.
    pub done: u64,
    /// What the kernel said. If bytes were done it is always EAGAIN, and the reason is told by a
    /// call for the rest.
    pub errno: Errno,
}

/// What a call did: all bytes, or those up to where it was stopped.
pub type Transfer = Result<u64, Stopped>;

/// A touch of a page that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Address of the page.
    pub address: u64,
    /// Thread that waits for it; 0 without [`FEATURE_THREAD_ID`].
    pub thread: u32,
}

/// A userfaultfd. All addresses and lengths are in bytes and must be whole pages.
#[derive(Debug)]
pub struct Uffd {
    fd: OwnedFd,
    /// Our page tables, to count what a call has moved.
    pages: OnceLock<Arc<PageMap>>,
}

impl Uffd {
    /// Opens one by userfaultfd(2). With `user_mode_only` it sees no faults inside system calls,
    /// which get EFAULT instead.
    pub fn open(user_mode_only: bool) -> Result<Self, Errno> {
        let only = UserfaultfdFlags::from_bits_retain(u32::from(user_mode_only));
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK | only;
        // SAFETY: without a range registered on it the descriptor has no power over any memory.
        Ok(Self::of(unsafe { rustix::mm::userfaultfd(flags) }?))
    }

    /// Opens a full one through /dev/userfaultfd (Linux 6.1).
    pub fn open_by_device() -> Result<Self, Errno> {
        let access = OFlags::RDWR | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/userfaultfd", access, Mode::empty())?;
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the request takes flags by value and touches no memory of ours.
        let fd = unsafe { libc::ioctl(device.as_raw_fd(), NEW, flags) };
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        Ok(Self::of(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn of(fd: OwnedFd) -> Self {
        Self { fd, pages: OnceLock::new() }
    }

    /// Counts by these page tables from now on what [`move_pages`](Self::move_pages) moves. Without
    /// them what the kernel tells must do, which is not enough for memory that is in use.
    pub fn count_by(&self, pages: &Arc<PageMap>) {
        self.pages.get_or_init(|| Arc::clone(pages));
    }

    /// Agrees with the kernel on features, which works once. Returns all that it offers. EINVAL if
    /// it does not have one that is asked for.
    pub fn api(&self, features: u64) -> Result<u64, Errno> {
        let mut argument = ApiArgument { api: API_VERSION, features, ioctls: 0 };
        // SAFETY: API is encoded for this argument.
        unsafe { self.request(API, &mut argument) }?;
        Ok(argument.features)
    }

    /// From now on threads that touch missing pages of the range wait. Returns a bit for each
    /// request that works there ([`CAN_COPY`], [`CAN_MOVE`]).
    pub fn register(&self, start: u64, bytes: u64) -> Result<u64, Errno> {
        let range = RangeArgument { start, bytes };
        let mut argument = RegisterArgument { range, mode: MODE_MISSING, ioctls: 0 };
        // SAFETY: REGISTER is encoded for this argument. Who touches a missing page waits from now
        // on, or faults; what is in memory stays as it is.
        unsafe { self.request(REGISTER, &mut argument) }?;
        Ok(argument.ioctls)
    }

    /// Ends that, and wakes who waits.
    pub fn unregister(&self, start: u64, bytes: u64) -> Result<(), Errno> {
        let mut argument = RangeArgument { start, bytes };
        // SAFETY: UNREGISTER is encoded for this argument; missing pages read as zero, as in any
        // new mapping.
        unsafe { self.request(UNREGISTER, &mut argument) }
    }

    /// Wakes the threads that wait for pages of the range; they touch them again.
    pub fn wake(&self, start: u64, bytes: u64) -> Result<(), Errno> {
        let mut argument = RangeArgument { start, bytes };
        // SAFETY: WAKE is encoded for this argument; memory is not changed.
        unsafe { self.request(WAKE, &mut argument) }
    }

    /// Maps the pages behind `from` at `to` instead, which must be registered here and missing,
    /// and wakes who waits there, unless `dont_wake`. Missing pages of `from` end the call
    /// (ENOENT). EAGAIN: try again; EBUSY: the page is pinned or shared with a child of fork(2);
    /// EEXIST: a page is there already.
    ///
    /// Linux 6.18 moves up to a page table of pages and does not count them, after it had to wait
    /// for the kernel's own migration of the first: `move_pages` keeps that step's EAGAIN, meets
    /// its own pages when it takes the step once more, and tells EEXIST, or EAGAIN with too few
    /// bytes. Pages that are gone here and have come there are counted as moved by this call, so
    /// that a call for the rest sets that right.
    ///
    /// # Safety
    /// Both ranges belong to the caller, who lets others reach their content only through atomics
    /// or not at all: it changes.
    pub unsafe fn move_pages(&self, to: u64, from: u64, bytes: u64, dont_wake: bool) -> Transfer {
        let mode = if dont_wake { DONT_WAKE } else { 0 };
        // SAFETY: MOVE takes this argument; the rest is the caller's promise.
        let told =
            unsafe { self.transfer(MOVE, TransferArgument { to, from, bytes, mode, done: 0 }) };
        let Err(Stopped { done: 0, errno: Errno::EXIST }) = told else { return told };
        let done = self.already_moved(to, from, bytes);
        if done > 0 && !dont_wake {
            self.wake(to, done).ok(); // fails only where the memory was unmapped
        }
        match done {
            0 => told,
            _ if done == bytes => Ok(done),
            _ => Err(Stopped { done, errno: Errno::AGAIN }),
        }
    }

    /// How many bytes, from the start, are gone from one place and have come to the other.
    fn already_moved(&self, to: u64, from: u64, bytes: u64) -> u64 {
        let (Some(pages), page_bytes) = (self.pages.get(), rustix::param::page_size()) else {
            return 0;
        };
        let occupied = |address| pages.is_occupied(address).ok();
        let has_moved =
            |at: &u64| (occupied(from + at), occupied(to + at)) == (Some(false), Some(true));
        let moved = (0..bytes).step_by(page_bytes).take_while(has_moved).count();
        (moved * page_bytes) as u64
    }

    /// Whether a page is at an address, in memory or in swap. Where nobody can tell, there is.
    pub fn is_occupied(&self, address: u64) -> bool {
        self.pages.get().and_then(|pages| pages.is_occupied(address).ok()).unwrap_or(true)
    }

    /// Fills missing pages at `to` with copies of what is at `from`, and wakes who waits there,
    /// unless `dont_wake`. EEXIST: a page is there already. ENOMEM: no room.
    ///
    /// # Safety
    /// `to` belongs to the caller, who lets others reach its content only through atomics or not at
    /// all: it changes. Nobody writes at `from` meanwhile.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: u64, dont_wake: bool) -> Transfer {
        let mode = if dont_wake { DONT_WAKE } else { 0 };
        // SAFETY: COPY takes this argument; the rest is the caller's promise.
        unsafe { self.transfer(COPY, TransferArgument { to, from, bytes, mode, done: 0 }) }
    }

    /// Maps the shared page of zeros at missing pages, and wakes who waits there. EEXIST: a page is
    /// there already.
    pub fn zero(&self, start: u64, bytes: u64) -> Transfer {
        let range = RangeArgument { start, bytes };
        let mut argument = ZeroArgument { range, mode: 0, done: 0 };
        // SAFETY: ZEROPAGE is encoded for this argument; missing pages read as zero anyway.
        let answer = unsafe { self.request(ZEROPAGE, &mut argument) };
        outcome(answer, argument.done, bytes)
    }

    /// Appends the faults that wait to be read, 64 at most; none if there are none.
    pub fn read_faults(&self, faults: &mut Vec<Fault>) -> Result<(), Errno> {
        let mut messages = [0u8; 64 * MESSAGE_BYTES];
        let bytes = match rustix::io::read(&self.fd, &mut messages) {
            Err(Errno::AGAIN | Errno::INTR) => 0,
            answer => answer?,
        };
        let (messages, _) = messages[..bytes].as_chunks();
        faults.extend(messages.iter().filter_map(fault));
        Ok(())
    }

    /// # Safety
    /// What the request does with the two ranges is the caller's to know.
    unsafe fn transfer(&self, request: libc::Ioctl, mut argument: TransferArgument) -> Transfer {
        // SAFETY: both requests are encoded for this argument; the rest is the caller's promise.
        let answer = unsafe { self.request(request, &mut argument) };
        outcome(answer, argument.done, argument.bytes)
    }

    /// # Safety
    /// The request must be encoded for an argument of type `T`, made of integers only, and what it
    /// does with the addresses in there is the caller's to know.
    unsafe fn request<T>(&self, request: libc::Ioctl, argument: &mut T) -> Result<(), Errno> {
        let pointer: *mut T = argument;
        // SAFETY: the kernel reads and writes as many bytes as the request encodes, that is one T
        // (the caller's promise), and keeps no pointer to it.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, pointer) };
        if result == 0 { Ok(()) } else { Err(last_errno()) }
    }
}

impl AsFd for Uffd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The field of what was done holds an error instead if that is nothing, and the kernel may leave
/// it alone.
fn outcome(answer: Result<(), Errno>, done: i64, all: u64) -> Transfer {
    match answer {
        Ok(()) => Ok(all),
        Err(errno) => Err(Stopped { done: u64::try_from(done).unwrap_or(0), errno }),
    }
}

/// Reads a `struct uffd_msg`: the event at byte 0, the address at 16, the thread at 24.
fn fault(message: &[u8; MESSAGE_BYTES]) -> Option<Fault> {
    let [EVENT_PAGEFAULT, ..] = *message else { return None };
    let address = u64::from_ne_bytes(*message[16..].first_chunk()?);
    let thread = u32::from_ne_bytes(*message[24..].first_chunk()?);
    Some(Fault { address, thread })
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use nodeward_linux::own::{Area, Backing, Usage};
    use nodeward_linux::patience::wait_until;

    use super::*;

    /// Pages of each test area.
    const PAGES: u64 = 4;

    /// A full userfaultfd with these features; `None`, said aloud, where there is none.
    fn uffd(features: u64) -> Option<Uffd> {
        let uffd = Uffd::open(false).or_else(|_| Uffd::open_by_device());
        let agreed = uffd.and_then(|uffd| uffd.api(features).map(|_| uffd));
        agreed.inspect_err(|errno| eprintln!("skipped: no such userfaultfd here ({errno})")).ok()
    }

    fn area() -> Area {
        let page = rustix::param::page_size();
        let area = Area::map(PAGES as usize * page, Backing::Anonymous).unwrap();
        area.advise(Usage::BasePages).unwrap();
        area
    }

    fn faults(uffd: &Uffd) -> Vec<Fault> {
        let mut faults = Vec::new();
        uffd.read_faults(&mut faults).unwrap();
        faults
    }

    fn page_bytes() -> u64 {
        rustix::param::page_size() as u64
    }

    /// One word of each page.
    fn marks(area: &Area) -> Vec<u64> {
        let words = rustix::param::page_size() / 8;
        area.words().chunks(words).map(|page| page[7].load(Relaxed)).collect()
    }

    fn mark(area: &Area, page: usize, value: u64) {
        area.words()[page * (rustix::param::page_size() / 8) + 7].store(value, Relaxed);
    }

    /// Goal: pages go out and come back with what they hold, and how far a call came is exact.
    #[test]
    fn pages_move_out_and_back() {
        let Some(uffd) = uffd(FEATURE_MOVE) else { return };
        let (page, home, away) = (page_bytes(), area(), area());
        for index in 0..3 {
            mark(&home, index, 100 + index as u64);
        }
        for area in [&home, &away] {
            let can = uffd.register(area.address(), PAGES * page).unwrap();
            assert_eq!(can & (CAN_COPY | CAN_MOVE), CAN_COPY | CAN_MOVE);
        }
        let (there, here) = (away.address(), home.address());
        // Page 3 was never touched: a hole, before which the call stops.
        // SAFETY: both areas are ours and reached through atomics only.
        let out = unsafe { uffd.move_pages(there, here, PAGES * page, true) };
        assert_eq!(out, Err(Stopped { done: 3 * page, errno: Errno::AGAIN }));
        // SAFETY: as above.
        let out = unsafe { uffd.move_pages(there + 3 * page, here + 3 * page, page, true) };
        assert_eq!(out, Err(Stopped { done: 0, errno: Errno::NOENT }));
        // SAFETY: as above.
        let back = unsafe { uffd.move_pages(here, there, 3 * page, false) };
        assert_eq!(back, Ok(3 * page));
        assert_eq!(uffd.zero(here + 3 * page, page), Ok(page));
        assert_eq!(marks(&home), [100, 101, 102, 0]);
    }

    /// Goal: pages that were moved and not counted, as by Linux 6.18, count when the rest is asked
    /// for, and who sleeps for one is woken; not those that are there while their originals are.
    #[test]
    fn moved_and_not_counted_counts() {
        let Some(uffd) = uffd(FEATURE_MOVE) else { return };
        uffd.count_by(&Arc::new(PageMap::open().unwrap()));
        let (page, home, away) = (page_bytes(), area(), area());
        (0..PAGES as usize).for_each(|index| mark(&home, index, 300 + index as u64));
        mark(&away, 2, 9);
        for area in [&home, &away] {
            uffd.register(area.address(), PAGES * page).unwrap();
        }
        let (there, here) = (away.address(), home.address());
        let exists = Err(Stopped { done: 0, errno: Errno::EXIST });
        // SAFETY: both areas are ours and reached through atomics only.
        let moved = |to, from, bytes| unsafe { uffd.move_pages(to, from, bytes, true) };
        assert_eq!(moved(there, here, 2 * page), Ok(2 * page));
        assert_eq!(moved(there, here, 2 * page), Ok(2 * page), "all are there");
        let part = Err(Stopped { done: 2 * page, errno: Errno::AGAIN });
        assert_eq!(moved(there, here, PAGES * page), part, "two of four are there");
        assert_eq!(moved(there + 2 * page, here + 2 * page, 2 * page), exists);
        let touch = std::thread::scope(|scope| {
            let waits = scope.spawn(|| home.words()[7].load(Relaxed));
            wait_until("a touch waits", || !faults(&uffd).is_empty());
            // The page comes as the kernel brings it when it forgets to count it and to wake.
            assert_eq!(moved(here, there, page), Ok(page));
            // SAFETY: as above.
            assert_eq!(unsafe { uffd.move_pages(here, there, page, false) }, Ok(page));
            waits.join().unwrap()
        });
        assert_eq!(touch, 300);
    }

    /// Goal: a copy fills what is missing and refuses what is there.
    #[test]
    fn copies_fill_missing_pages_only() {
        let Some(uffd) = uffd(0) else { return };
        let (page, from, to) = (page_bytes(), area(), area());
        (0..PAGES as usize).for_each(|index| mark(&from, index, 200 + index as u64));
        mark(&to, 2, 9);
        uffd.register(to.address(), PAGES * page).unwrap();
        // SAFETY: both areas are ours and reached through atomics only; nobody writes `from`.
        let answer = unsafe { uffd.copy(to.address(), from.address(), PAGES * page, true) };
        assert_eq!(answer, Err(Stopped { done: 2 * page, errno: Errno::AGAIN }));
        // SAFETY: as above.
        let answer = unsafe { uffd.copy(to.address() + 2 * page, from.address(), page, true) };
        assert_eq!(answer, Err(Stopped { done: 0, errno: Errno::EXIST }));
        uffd.unregister(to.address(), PAGES * page).unwrap();
        assert_eq!(marks(&to), [200, 201, 9, 0]);
    }

    /// Goal: a touch of a missing page is told with its page and thread, and waits until woken.
    #[test]
    fn a_touch_waits() {
        let Some(uffd) = uffd(FEATURE_THREAD_ID) else { return };
        let (page, to, from) = (page_bytes(), area(), area());
        mark(&from, 0, 77);
        uffd.register(to.address(), PAGES * page).unwrap();
        let mut faults = Vec::new();
        uffd.read_faults(&mut faults).unwrap();
        assert_eq!(faults, []);
        std::thread::scope(|scope| {
            let toucher = scope.spawn(|| {
                let thread = rustix::thread::gettid().as_raw_pid() as u32;
                (thread, to.words()[rustix::param::page_size() / 8 + 7].load(Relaxed))
            });
            let mut ready = [rustix::event::PollFd::new(&uffd, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut ready, None).unwrap();
            uffd.read_faults(&mut faults).unwrap();
            let second = to.address() + page;
            // SAFETY: both areas are ours and reached through atomics only; nobody writes `from`.
            let answer = unsafe { uffd.copy(second, from.address(), page, true) };
            assert_eq!(answer, Ok(page));
            uffd.wake(second, page).unwrap();
            let (thread, value) = toucher.join().unwrap();
            assert_eq!((value, &faults[..]), (77, &[Fault { address: second, thread }][..]));
        });
    }
}
