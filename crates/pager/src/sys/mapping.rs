//! Address space that the pager reserves, and the slots in it for shadow pages.

use std::ffi::c_void;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use nodeward_linux::own_process::knows_populate;
use rustix::io::Errno;
use rustix::mm::{Advice as Raw, MapFlags, MlockFlags, MprotectFlags, MsyncFlags, ProtFlags};
use rustix::mm::{madvise, mlock_with, mmap_anonymous, mprotect, msync, munlock, munmap};
use rustix::process::{Pid, getpid};
use rustix::thread::futex::{Flags as FutexFlags, WakeOp, WakeOpCmp, wake_op};

const WORD_BYTES: usize = size_of::<AtomicU64>();

/// Advice to the kernel about a part of a mapping.
#[derive(Clone, Copy, Debug)]
pub enum Advice {
    /// Use transparent huge pages.
    HugePages,
    /// Use no transparent huge pages.
    BasePages,
    /// Do not pass it to children of fork(2).
    DontFork,
    /// Leave it out of core dumps.
    DontDump,
    /// Include it in core dumps.
    DoDump,
    /// Free the pages; they are missing afterwards.
    Discard,
    /// Bring missing pages into memory, writable.
    Populate,
    /// Do not merge equal pages (KSM), and unmerge merged ones.
    Unmergeable,
    /// Children made by fork(2) or clone(2) read zeros there.
    WipeOnFork,
}

/// Private anonymous memory, reserved but not populated. Dropping the value unmaps it.
#[derive(Debug)]
pub struct AnonMapping {
    /// Address and length of the whole mapping, before alignment.
    whole: (NonNull<c_void>, usize),
    start: u64,
    bytes: usize,
    /// The process that made it.
    pid: Pid,
    /// Set if children of that process do not have it.
    is_dontfork: AtomicBool,
}

// SAFETY: the mapping belongs to the process, not to a thread, and its content is reached only
// through atomics and slots.
unsafe impl Send for AnonMapping {}
// SAFETY: as above; no method changes the fields.
unsafe impl Sync for AnonMapping {}

impl AnonMapping {
    /// Reserves `bytes` of address space that begin at a multiple of `align` (a power of two).
    pub fn reserve(bytes: usize, align: usize) -> io::Result<Self> {
        let room = bytes.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: without MAP_FIXED the kernel chooses addresses that nothing uses.
        let whole = unsafe { mmap_anonymous(ptr::null_mut(), room, access, flags) }?;
        let whole = NonNull::new(whole).ok_or(io::ErrorKind::OutOfMemory)?;
        let start = (whole.as_ptr() as u64).next_multiple_of(align as u64);
        let (pid, withheld) = (getpid(), AtomicBool::new(false));
        Ok(Self { whole: (whole, room), start, bytes, pid, is_dontfork: withheld })
    }

    /// Returns the first address.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the content.
    pub fn words(&self) -> &[AtomicU64] {
        let words = self.bytes / WORD_BYTES;
        // SAFETY: the mapping is page-aligned, readable, writable and `bytes` long until `self` is
        // dropped, which the borrow forbids; every bit pattern is a u64; other writers go through
        // atomics, or move whole pages, which changes no value.
        unsafe { std::slice::from_raw_parts(self.start as *const AtomicU64, words) }
    }

    /// The address of a part, in bytes from the start, which must be inside the mapping.
    fn start_of(&self, part: &Range<usize>) -> *mut c_void {
        assert!(part.start <= part.end && part.end <= self.bytes, "inside the mapping");
        (self.start + part.start as u64) as *mut c_void
    }

    /// Advises the kernel about a part, in bytes from the start.
    pub fn advise(&self, part: Range<usize>, advice: Advice) -> io::Result<()> {
        let start = self.start_of(&part);
        if let Advice::DontFork = advice {
            self.is_dontfork.store(true, Ordering::Relaxed);
        }
        if let Advice::Populate = advice {
            return self.populate(part);
        }
        // SAFETY: the range is inside this mapping; at worst its pages read as zero afterwards,
        // which users of atomics must expect from any other thread, and holders of slots ask for.
        let done = unsafe { madvise(start, part.len(), raw(advice)) };
        match (advice, done) {
            // Locked, by mlockall(2) for example.
            (Advice::Discard, Err(Errno::INVAL)) => self.discard_locked(part),
            _ => Ok(done?),
        }
    }

    /// Frees the pages of a locked part, and leaves it locked.
    fn discard_locked(&self, part: Range<usize>) -> io::Result<()> {
        let start = self.start_of(&part);
        // SAFETY: as in `advise`.
        let done = unsafe { libc::madvise(start, part.len(), libc::MADV_DONTNEED_LOCKED) };
        if done == 0 {
            return Ok(());
        }
        // Linux before 5.18 has no call for that.
        // SAFETY: the range is inside this mapping; unlocking does not change its content.
        unsafe { munlock(start, part.len()) }?;
        // SAFETY: as in `advise`.
        let done = unsafe { madvise(start, part.len(), raw(Advice::Discard)) };
        // ONFAULT: otherwise the thread that serves missing pages of ours may be this very one and
        // would wait for itself. Fails only where the process may lock less than it had locked.
        // SAFETY: as above.
        unsafe { mlock_with(start, part.len(), MlockFlags::ONFAULT) }.ok();
        Ok(done?)
    }

    /// Brings a part into memory, writable.
    ///
    /// # Errors
    /// `InvalidInput` if some of it may not be written.
    pub fn populate(&self, part: Range<usize>) -> io::Result<()> {
        let start = self.start_of(&part);
        // SAFETY: the range is inside this mapping; faulting pages in changes no content.
        let done = unsafe { libc::madvise(start, part.len(), libc::MADV_POPULATE_WRITE) };
        match io::Error::last_os_error() {
            _ if done == 0 => Ok(()),
            // Linux before 5.14 has no call for that.
            error if error.kind() == io::ErrorKind::InvalidInput && !knows_populate() => {
                self.add_nothing(part)
            }
            error => Err(error),
        }
    }

    /// Has the kernel add zero to a word of each page, which faults it in, writable. A write of our
    /// own would raise a signal where it is not allowed. Nobody waits on the first futex; whoever
    /// waits on the second may be woken for nothing, as futex(2) allows.
    fn add_nothing(&self, part: Range<usize>) -> io::Result<()> {
        static NOBODY: AtomicU32 = AtomicU32::new(0);
        let words = &self.words()[part.start / WORD_BYTES..part.end / WORD_BYTES];
        for word in words.iter().step_by(rustix::param::page_size() / WORD_BYTES) {
            // SAFETY: half of a word of this mapping, and only the kernel accesses it by this.
            let half = unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) };
            let (add, equal) = (WakeOp::Add, WakeOpCmp::Eq);
            match wake_op(&NOBODY, FutexFlags::PRIVATE, 0, 0, half, add, equal, 0, 0) {
                Err(Errno::FAULT) => return Err(Errno::INVAL.into()),
                done => done?,
            };
        }
        Ok(())
    }

    /// Splits the mapping into slots of `bytes` bytes, each of which belongs to its holder alone.
    /// May be called only once.
    pub fn slots(this: &Arc<Self>, bytes: usize) -> Vec<Slot> {
        let slot =
            |offset| Slot { mapping: Arc::clone(this), offset, bytes, state: SlotState::Own };
        (0..this.bytes / bytes).map(|index| slot(index * bytes)).collect()
    }

    /// Lends a part to a caller that has exclusive use of it for the lifetime of the result.
    pub fn lend(&self, part: Range<usize>) -> LentBytes<'_> {
        let start = NonNull::new(self.start_of(&part).cast()).expect("nothing is mapped at zero");
        LentBytes { start, bytes: part.len(), mapping: PhantomData }
    }
}

/// A part of a mapping that was lent for exclusive use.
#[derive(Debug)]
pub struct LentBytes<'m> {
    start: NonNull<u8>,
    bytes: usize,
    mapping: PhantomData<&'m mut AnonMapping>,
}

// SAFETY: it is the only access to these bytes, as a unique borrow of them would be.
unsafe impl Send for LentBytes<'_> {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for LentBytes<'_> {}

impl LentBytes<'_> {
    /// Returns its first address.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `AnonMapping::lend` checked that they are inside the mapping, which is borrowed,
        // and its caller guarantees exclusive use.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Returns the bytes, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

/// Maps fresh memory.
///
/// # Safety
/// Any mapping that `how` lets it replace must belong to the caller, and no reference may point
/// into it.
unsafe fn map_at(start: *mut c_void, bytes: usize, how: MapFlags) -> Result<(), Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | how;
    // SAFETY: the caller's promise.
    unsafe { mmap_anonymous(start, bytes, access, flags) }.map(drop)
}

/// Returns whether some of a range is locked in memory.
fn is_locked(start: u64, bytes: usize) -> bool {
    let flags = MsyncFlags::ASYNC | MsyncFlags::INVALIDATE;
    // SAFETY: msync(2) neither writes nor invalidates memory that is not a file's, nor private
    // mappings of files. It is called because it reports locked memory by EBUSY.
    let told = unsafe { msync(start as *mut c_void, bytes, flags) };
    told == Err(Errno::BUSY)
}

fn raw(advice: Advice) -> Raw {
    match advice {
        Advice::HugePages => Raw::LinuxHugepage,
        Advice::BasePages => Raw::LinuxNoHugepage,
        Advice::DontFork => Raw::LinuxDontFork,
        Advice::DontDump => Raw::LinuxDontDump,
        Advice::DoDump => Raw::LinuxDoDump,
        Advice::Unmergeable => Raw::LinuxUnmergeable,
        Advice::WipeOnFork => Raw::LinuxWipeOnFork,
        Advice::Discard | Advice::Populate => Raw::LinuxDontNeed,
    }
}

impl Drop for AnonMapping {
    fn drop(&mut self) {
        if self.is_dontfork.load(Ordering::Relaxed) && getpid() != self.pid {
            return; // here these addresses are free, or used by another mapping
        }
        // SAFETY: `reserve` made this mapping, and no borrow and no slot of it is left. On failure
        // (too many mappings while splitting one) it stays mapped, which is harmless.
        let _ = unsafe { munmap(self.whole.0.as_ptr(), self.whole.1) };
    }
}

/// A part of a mapping that only its holder accesses: the place of pages that are out of sight.
#[derive(Debug)]
pub struct Slot {
    mapping: Arc<AnonMapping>,
    offset: usize,
    bytes: usize,
    state: SlotState,
}

/// The mapping at a slot's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotState {
    /// The mapping that the slot was cut from.
    Own,
    /// In parts, pages that mremap(2) moved there.
    Remapped,
    /// In parts perhaps a mapping of other code; none of the slot is used again.
    Lost,
}

impl Slot {
    /// Returns the address of byte `byte` of the slot.
    pub fn address(&self, byte: usize) -> u64 {
        self.mapping.start + (self.offset + byte) as u64
    }

    /// Returns the address of byte `byte`; panics unless the slot has `bytes` bytes from there on.
    pub(super) fn part(&self, byte: usize, bytes: usize) -> u64 {
        assert!(byte + bytes <= self.bytes, "inside the slot");
        self.address(byte)
    }

    /// Returns the content of pages that are present.
    pub fn content(&self, part: Range<usize>) -> &[u8] {
        assert!(part.end <= self.bytes, "inside the slot");
        // SAFETY: the part is inside the mapping that the slot keeps alive. Slots do not overlap
        // (`AnonMapping::slots`) and are neither cloned nor shared, so no thread writes during the
        // borrow; nor does the kernel, which refuses to move pages that are pinned.
        unsafe { std::slice::from_raw_parts(self.address(part.start) as *const u8, part.len()) }
    }

    /// Returns the content of pages that are present, mutable.
    pub fn content_mut(&mut self, part: Range<usize>) -> &mut [u8] {
        assert!(part.end <= self.bytes, "inside the slot");
        // SAFETY: as in `content`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.address(part.start) as *mut u8, part.len()) }
    }

    /// Moves pages at `source` into the slot, from its byte `at` on. Their mapping stays in place
    /// without them. Missing pages are missing afterwards. EINVAL: some of the source is locked
    /// (mlock(2)), and would not be afterwards.
    pub(super) fn remap_from(&mut self, at: usize, source: u64, bytes: usize) -> Result<(), Errno> {
        if self.state == SlotState::Lost {
            return Err(Errno::NOMEM);
        }
        if is_locked(source, bytes) {
            return Err(Errno::INVAL);
        }
        let to = self.part(at, bytes) as *mut c_void;
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        self.state = SlotState::Remapped;
        // SAFETY: the destination is inside the slot, which is borrowed exclusively and holds no
        // page that is needed there; the source belongs to a region, stays mapped, and its content
        // is shared memory.
        let moved = unsafe { libc::mremap(source as *mut c_void, bytes, bytes, flags, to) };
        if moved != libc::MAP_FAILED {
            return Ok(());
        }
        let errno = Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO);
        // The call may have unmapped the destination before it failed. Another thread may have
        // mapped something there since, which must stay.
        // SAFETY: with MAP_FIXED_NOREPLACE no existing mapping is touched.
        let filled = unsafe { map_at(to, bytes, MapFlags::FIXED_NOREPLACE) };
        if filled.is_err() {
            self.state = SlotState::Lost;
        }
        Err(errno)
    }

    /// Makes pages readable that mremap(2) put there with their old protection. Returns whether
    /// that was needed and succeeded.
    pub(super) fn make_readable(&self, at: usize, bytes: usize) -> bool {
        let start = self.part(at, bytes) as *mut c_void;
        // SAFETY: the part is inside the slot, which is not borrowed mutably. Its content does not
        // change, and what could be read from it still can.
        let let_read = || unsafe { mprotect(start, bytes, MprotectFlags::READ) };
        self.state == SlotState::Remapped && let_read().is_ok()
    }

    /// Returns whether the slot must not be used any more.
    pub fn is_lost(&self) -> bool {
        self.state == SlotState::Lost
    }

    /// Frees the pages of a part, which are missing afterwards.
    pub fn discard(&mut self, part: Range<usize>) -> io::Result<()> {
        match self.state {
            SlotState::Own => self.advise(part, Advice::Discard),
            SlotState::Remapped => {
                let start = self.part(part.start, part.len()) as *mut c_void;
                // SAFETY: the part is inside the slot, which is borrowed exclusively.
                unsafe { map_at(start, part.len(), MapFlags::FIXED) }?;
                if part == (0..self.bytes) {
                    self.state = SlotState::Own;
                }
                Ok(())
            }
            SlotState::Lost => Ok(()),
        }
    }

    /// Advises the kernel about a part of it.
    pub fn advise(&self, part: Range<usize>, advice: Advice) -> io::Result<()> {
        self.mapping.advise(self.offset + part.start..self.offset + part.end, advice)
    }
}
