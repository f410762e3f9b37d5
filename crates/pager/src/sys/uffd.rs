//! userfaultfd: opening it, its ioctls, and the faults read from it. The definitions follow
//! linux/userfaultfd.h. The crate `userfaultfd` is not used, because it has no UFFDIO_MOVE and
//! hides how many bytes of a call were done, which an exact account needs.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use nodeward_linux::own_process::OwnPagemap;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::UserfaultfdFlags;

/// Fault messages carry the thread id (UFFD_FEATURE_THREAD_ID, Linux 4.14).
pub const FEATURE_THREAD_ID: u64 = 1 << 8;
/// UFFDIO_MOVE is available (UFFD_FEATURE_MOVE, Linux 6.8).
pub const FEATURE_MOVE: u64 = 1 << 16;

/// The bit of UFFDIO_COPY in the result of [`Uffd::register`].
pub const CAN_COPY: u64 = 1 << 3;
/// The bit of UFFDIO_MOVE in the result of [`Uffd::register`].
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

const _: () = assert!(size_of::<ApiArgument>() == 24 && size_of::<RegisterArgument>() == 32);
const _: () = assert!(size_of::<TransferArgument>() == 40 && size_of::<ZeroArgument>() == 32);

/// A call that stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncompleteTransfer {
    /// Bytes done, from the start.
    pub done_bytes: u64,
    /// The kernel's error. If bytes were done it is always EAGAIN, and a call for the rest returns
    /// the cause.
    pub errno: Errno,
}

/// The result of a call: all bytes, or the point where it stopped.
pub type TransferResult = Result<u64, IncompleteTransfer>;

/// An access to a missing page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UffdFault {
    /// Address of the page.
    pub address: u64,
    /// Thread that waits for it; 0 without [`FEATURE_THREAD_ID`].
    pub thread: u32,
}

/// A userfaultfd. All addresses and lengths are in bytes and must be whole pages.
#[derive(Debug)]
pub struct Uffd {
    fd: OwnedFd,
    /// Our page tables, to find out what a call has moved.
    pages: OnceLock<Arc<OwnPagemap>>,
}

impl Uffd {
    /// Opens a userfaultfd by userfaultfd(2). With `user_mode_only` it does not see faults inside
    /// system calls, which fail with EFAULT instead.
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
        // SAFETY: the kernel has just made this descriptor for us, and no other code knows it.
        Ok(Self::of(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn of(fd: OwnedFd) -> Self {
        Self { fd, pages: OnceLock::new() }
    }

    /// Makes [`move_pages`](Self::move_pages) count moved pages by these page tables from now on.
    /// Without them the kernel's count is used, which is not enough for memory that is in use.
    pub fn count_by(&self, pages: &Arc<OwnPagemap>) {
        self.pages.get_or_init(|| Arc::clone(pages));
    }

    /// Agrees with the kernel on features; possible once per descriptor. Returns all features that
    /// it offers. EINVAL if it lacks one that is requested.
    pub fn api(&self, features: u64) -> Result<u64, Errno> {
        let mut argument = ApiArgument { api: API_VERSION, features, ioctls: 0 };
        // SAFETY: API is encoded for this argument.
        unsafe { self.request(API, &mut argument) }?;
        Ok(argument.features)
    }

    /// Registers a range: from now on threads that touch its missing pages wait. Returns a bit for
    /// each request that works there ([`CAN_COPY`], [`CAN_MOVE`]).
    pub fn register(&self, start: u64, bytes: u64) -> Result<u64, Errno> {
        let range = RangeArgument { start, bytes };
        let mut argument = RegisterArgument { range, mode: MODE_MISSING, ioctls: 0 };
        // SAFETY: REGISTER is encoded for this argument. Threads that touch a missing page wait
        // from now on, or fault; pages in memory stay as they are.
        unsafe { self.request(REGISTER, &mut argument) }?;
        Ok(argument.ioctls)
    }

    /// Unregisters a range, and wakes the threads that wait there.
    pub fn unregister(&self, start: u64, bytes: u64) -> Result<(), Errno> {
        let mut argument = RangeArgument { start, bytes };
        // SAFETY: UNREGISTER is encoded for this argument; missing pages read as zero, as in any
        // new mapping.
        unsafe { self.request(UNREGISTER, &mut argument) }
    }

    /// Wakes the threads that wait for pages of the range; they access them again.
    pub fn wake(&self, start: u64, bytes: u64) -> Result<(), Errno> {
        let mut argument = RangeArgument { start, bytes };
        // SAFETY: WAKE is encoded for this argument; memory is not changed.
        unsafe { self.request(WAKE, &mut argument) }
    }

    /// Moves the pages at `from` to `to`, which must be registered here and missing, and wakes the
    /// threads that wait there, unless `dont_wake`. A missing page at `from` ends the call
    /// (ENOENT). EAGAIN: try again; EBUSY: the page is pinned or shared with a child of fork(2);
    /// EEXIST: a page is there already.
    ///
    /// Linux 6.18 moves up to a page table of pages without counting them, after it had to wait for
    /// the kernel's own migration of the first page: `move_pages` keeps that step's EAGAIN, meets
    /// its own pages when it repeats the step, and returns EEXIST, or EAGAIN with too few bytes.
    /// Here, pages that are gone from `from` and present at `to` count as moved by this call, so a
    /// call for the rest corrects the count.
    ///
    /// # Safety
    /// Both ranges belong to the caller, who lets others access their content only through atomics
    /// or not at all: it changes.
    pub unsafe fn move_pages(
        &self,
        to: u64,
        from: u64,
        bytes: u64,
        dont_wake: bool,
    ) -> TransferResult {
        let mode = if dont_wake { DONT_WAKE } else { 0 };
        // SAFETY: MOVE takes this argument; the rest is the caller's promise.
        let told =
            unsafe { self.transfer(MOVE, TransferArgument { to, from, bytes, mode, done: 0 }) };
        let Err(IncompleteTransfer { done_bytes: 0, errno: Errno::EXIST }) = told else {
            return told;
        };
        let done = self.already_moved(to, from, bytes);
        if done > 0 && !dont_wake {
            self.wake(to, done).ok(); // fails only where the memory was unmapped
        }
        match done {
            0 => told,
            _ if done == bytes => Ok(done),
            _ => Err(IncompleteTransfer { done_bytes: done, errno: Errno::AGAIN }),
        }
    }

    /// Returns how many bytes, from the start, are gone from `from` and present at `to`.
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

    /// Returns whether a page is at an address, in memory or in swap; true if it cannot be read.
    pub fn is_occupied(&self, address: u64) -> bool {
        self.pages.get().and_then(|pages| pages.is_occupied(address).ok()).unwrap_or(true)
    }

    /// Fills missing pages at `to` with copies of the content at `from`, and wakes the threads that
    /// wait there, unless `dont_wake`. EEXIST: a page is there already. ENOMEM: no room.
    ///
    /// # Safety
    /// `to` belongs to the caller, who lets others access its content only through atomics or not
    /// at all: it changes. No thread writes at `from` meanwhile.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: u64, dont_wake: bool) -> TransferResult {
        let mode = if dont_wake { DONT_WAKE } else { 0 };
        // SAFETY: COPY takes this argument; the rest is the caller's promise.
        unsafe { self.transfer(COPY, TransferArgument { to, from, bytes, mode, done: 0 }) }
    }

    /// Maps the shared zero page at missing pages, and wakes the threads that wait there. EEXIST: a
    /// page is there already.
    pub fn map_zeros(&self, start: u64, bytes: u64) -> TransferResult {
        let range = RangeArgument { start, bytes };
        let mut argument = ZeroArgument { range, mode: 0, done: 0 };
        // SAFETY: ZEROPAGE is encoded for this argument; missing pages read as zero anyway.
        let answer = unsafe { self.request(ZEROPAGE, &mut argument) };
        outcome(answer, argument.done, bytes)
    }

    /// Appends the faults that are ready to be read, at most 64, without waiting.
    pub fn read_faults(&self, faults: &mut Vec<UffdFault>) -> Result<(), Errno> {
        let mut messages = [0u8; 64 * MESSAGE_BYTES];
        let bytes = match rustix::io::read(&self.fd, &mut messages) {
            Err(Errno::AGAIN | Errno::INTR) => 0,
            answer => answer?,
        };
        let (messages, _) = messages[..bytes].as_chunks();
        faults.extend(messages.iter().filter_map(parse_fault));
        Ok(())
    }

    /// # Safety
    /// The caller is responsible for what the request does with the two ranges.
    unsafe fn transfer(
        &self,
        request: libc::Ioctl,
        mut argument: TransferArgument,
    ) -> TransferResult {
        // SAFETY: both requests are encoded for this argument; the rest is the caller's promise.
        let answer = unsafe { self.request(request, &mut argument) };
        outcome(answer, argument.done, argument.bytes)
    }

    /// # Safety
    /// The request must be encoded for an argument of type `T`, made of integers only, and the
    /// caller is responsible for what it does with the addresses in it.
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

/// Converts the result of an ioctl. If nothing was done, the field `done` holds an error, or is
/// unchanged by the kernel.
fn outcome(answer: Result<(), Errno>, done: i64, all: u64) -> TransferResult {
    match answer {
        Ok(()) => Ok(all),
        Err(errno) => {
            Err(IncompleteTransfer { done_bytes: u64::try_from(done).unwrap_or(0), errno })
        }
    }
}

/// Reads a `struct uffd_msg`: the event at byte 0, the address at 16, the thread at 24.
fn parse_fault(message: &[u8; MESSAGE_BYTES]) -> Option<UffdFault> {
    let [EVENT_PAGEFAULT, ..] = *message else { return None };
    let address = u64::from_ne_bytes(*message[16..].first_chunk()?);
    let thread = u32::from_ne_bytes(*message[24..].first_chunk()?);
    Some(UffdFault { address, thread })
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea};
    use nodeward_linux::test_wait::wait_until;

    use super::*;

    /// Pages of each test area.
    const PAGES: u64 = 4;

    /// Opens a full userfaultfd with these features; `None`, with a message, where there is none.
    fn uffd(features: u64) -> Option<Uffd> {
        let uffd = Uffd::open(false).or_else(|_| Uffd::open_by_device());
        let agreed = uffd.and_then(|uffd| uffd.api(features).map(|_| uffd));
        agreed.inspect_err(|errno| eprintln!("skipped: no such userfaultfd here ({errno})")).ok()
    }

    fn area() -> MappedArea {
        let page = rustix::param::page_size();
        let area = MappedArea::map(PAGES as usize * page, AreaBacking::Anonymous).unwrap();
        area.advise(AreaAdvice::BasePages).unwrap();
        area
    }

    fn faults(uffd: &Uffd) -> Vec<UffdFault> {
        let mut faults = Vec::new();
        uffd.read_faults(&mut faults).unwrap();
        faults
    }

    fn page_bytes() -> u64 {
        rustix::param::page_size() as u64
    }

    /// Returns one word of each page.
    fn marks(area: &MappedArea) -> Vec<u64> {
        let words = rustix::param::page_size() / 8;
        area.words().chunks(words).map(|page| page[7].load(Relaxed)).collect()
    }

    fn mark(area: &MappedArea, page: usize, value: u64) {
        area.words()[page * (rustix::param::page_size() / 8) + 7].store(value, Relaxed);
    }

    /// Goal: pages go out and come back with their content, and the progress of a call is exact.
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
        assert_eq!(out, Err(IncompleteTransfer { done_bytes: 3 * page, errno: Errno::AGAIN }));
        // SAFETY: as above.
        let out = unsafe { uffd.move_pages(there + 3 * page, here + 3 * page, page, true) };
        assert_eq!(out, Err(IncompleteTransfer { done_bytes: 0, errno: Errno::NOENT }));
        // SAFETY: as above.
        let back = unsafe { uffd.move_pages(here, there, 3 * page, false) };
        assert_eq!(back, Ok(3 * page));
        assert_eq!(uffd.map_zeros(here + 3 * page, page), Ok(page));
        assert_eq!(marks(&home), [100, 101, 102, 0]);
    }

    /// Goal: pages that were moved and not counted, as by Linux 6.18, are counted by the call for
    /// the rest, which wakes a thread that waits for one. Pages present at both places are not
    /// counted.
    #[test]
    fn moved_and_not_counted_counts() {
        let Some(uffd) = uffd(FEATURE_MOVE) else { return };
        uffd.count_by(&Arc::new(OwnPagemap::open().unwrap()));
        let (page, home, away) = (page_bytes(), area(), area());
        (0..PAGES as usize).for_each(|index| mark(&home, index, 300 + index as u64));
        mark(&away, 2, 9);
        for area in [&home, &away] {
            uffd.register(area.address(), PAGES * page).unwrap();
        }
        let (there, here) = (away.address(), home.address());
        let exists = Err(IncompleteTransfer { done_bytes: 0, errno: Errno::EXIST });
        // SAFETY: both areas are ours and reached through atomics only.
        let moved = |to, from, bytes| unsafe { uffd.move_pages(to, from, bytes, true) };
        assert_eq!(moved(there, here, 2 * page), Ok(2 * page));
        assert_eq!(moved(there, here, 2 * page), Ok(2 * page), "all are there");
        let part = Err(IncompleteTransfer { done_bytes: 2 * page, errno: Errno::AGAIN });
        assert_eq!(moved(there, here, PAGES * page), part, "two of four are there");
        assert_eq!(moved(there + 2 * page, here + 2 * page, 2 * page), exists);
        let touch = std::thread::scope(|scope| {
            let waits = scope.spawn(|| home.words()[7].load(Relaxed));
            wait_until("a touch waits", || !faults(&uffd).is_empty());
            // Moves the page without a wake-up, as the kernel does when it forgets to count it.
            assert_eq!(moved(here, there, page), Ok(page));
            // SAFETY: as above.
            assert_eq!(unsafe { uffd.move_pages(here, there, page, false) }, Ok(page));
            waits.join().unwrap()
        });
        assert_eq!(touch, 300);
    }

    /// Goal: a copy fills missing pages and refuses present ones.
    #[test]
    fn copies_fill_missing_pages_only() {
        let Some(uffd) = uffd(0) else { return };
        let (page, from, to) = (page_bytes(), area(), area());
        (0..PAGES as usize).for_each(|index| mark(&from, index, 200 + index as u64));
        mark(&to, 2, 9);
        uffd.register(to.address(), PAGES * page).unwrap();
        // SAFETY: both areas are ours and reached through atomics only; nobody writes `from`.
        let answer = unsafe { uffd.copy(to.address(), from.address(), PAGES * page, true) };
        assert_eq!(answer, Err(IncompleteTransfer { done_bytes: 2 * page, errno: Errno::AGAIN }));
        // SAFETY: as above.
        let answer = unsafe { uffd.copy(to.address() + 2 * page, from.address(), page, true) };
        assert_eq!(answer, Err(IncompleteTransfer { done_bytes: 0, errno: Errno::EXIST }));
        uffd.unregister(to.address(), PAGES * page).unwrap();
        assert_eq!(marks(&to), [200, 201, 9, 0]);
    }

    /// Goal: an access to a missing page is reported with page and thread, and waits until woken.
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
            assert_eq!((value, &faults[..]), (77, &[UffdFault { address: second, thread }][..]));
        });
    }
}
