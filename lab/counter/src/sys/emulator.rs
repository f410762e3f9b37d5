//! The emulator's functions: blocks of code that it translates, and callbacks when their
//! instructions run.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::symbols::function;

/// The callback reads no register.
const NO_REGISTERS: c_int = 0;
/// The callback reads registers, so they have to be up to date.
const READS_REGISTERS: c_int = 1;
/// Loads and stores.
const READ_AND_WRITE: c_int = 3;
/// Maximum length of an instruction, in bytes.
pub const INSTRUCTION_MAX: usize = 16;

/// The emulator's description of itself, for a plugin that it loads.
#[repr(C)]
pub struct Info {
    target: *const c_char,
    oldest: c_int,
    version: c_int,
}

impl Info {
    /// Returns the version of its interface.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// Returns the processor that it emulates.
    pub fn target(&self) -> &CStr {
        // SAFETY: the emulator gives a text that ends with a zero and is never freed.
        unsafe { CStr::from_ptr(self.target) }
    }
}

/// A number by which the emulator knows this plugin.
pub type Id = u64;
/// The emulator's handle of an access, for further queries.
pub type AccessInfo = u32;
/// Called for each CPU before it begins.
pub type OnCpu = extern "C" fn(Id, u32);
/// Called for each block that is translated.
pub type OnBlock = extern "C" fn(Id, Option<RawBlock>);
/// Called when an instruction runs, with the CPU's place and a number of ours.
pub type OnRun = extern "C" fn(u32, *mut c_void);
/// Called after a load or store, with the CPU's place and the address.
pub type OnAccess = extern "C" fn(u32, AccessInfo, u64, *mut c_void);

/// A block of the emulator.
pub type RawBlock = NonNull<c_void>;
type RawInstruction = *mut c_void;
type RawPlace = *mut c_void;

/// The method to read the bytes of an instruction.
#[derive(Clone, Copy, Debug)]
enum Data {
    /// Up to version 2: the emulator returns a pointer to its own bytes.
    Lent(unsafe extern "C" fn(RawInstruction) -> *const u8),
    /// From version 3 on: the emulator copies them.
    Copied(unsafe extern "C" fn(RawInstruction, *mut c_void, usize) -> usize),
}

/// The emulator's functions.
#[derive(Debug)]
pub struct Emulator {
    on_cpu: unsafe extern "C" fn(Id, OnCpu),
    on_block: unsafe extern "C" fn(Id, OnBlock),
    on_run: unsafe extern "C" fn(RawInstruction, OnRun, c_int, *mut c_void),
    on_access: unsafe extern "C" fn(RawInstruction, OnAccess, c_int, c_int, *mut c_void),
    block_address: unsafe extern "C" fn(RawBlock) -> u64,
    block_length: unsafe extern "C" fn(RawBlock) -> usize,
    instruction: unsafe extern "C" fn(RawBlock, usize) -> RawInstruction,
    size: unsafe extern "C" fn(RawInstruction) -> usize,
    data: Data,
    place: unsafe extern "C" fn(AccessInfo, u64) -> RawPlace,
    is_device: unsafe extern "C" fn(RawPlace) -> bool,
    physical: unsafe extern "C" fn(RawPlace) -> u64,
}

/// Looks up a function; its type is that of the field it goes to.
macro_rules! find {
    ($name:literal) => {
        // SAFETY: the type is the one that qemu-plugin.h declares under this name.
        unsafe { function($name) }
    };
}

impl Emulator {
    /// Finds the functions; `copies` if the interface is of version 3 or later. Fails with the name
    /// of the first missing one.
    pub fn find(copies: bool) -> Result<Self, &'static CStr> {
        Ok(Self {
            on_cpu: find!(c"qemu_plugin_register_vcpu_init_cb")?,
            on_block: find!(c"qemu_plugin_register_vcpu_tb_trans_cb")?,
            on_run: find!(c"qemu_plugin_register_vcpu_insn_exec_cb")?,
            on_access: find!(c"qemu_plugin_register_vcpu_mem_cb")?,
            block_address: find!(c"qemu_plugin_tb_vaddr")?,
            block_length: find!(c"qemu_plugin_tb_n_insns")?,
            instruction: find!(c"qemu_plugin_tb_get_insn")?,
            size: find!(c"qemu_plugin_insn_size")?,
            data: match copies {
                true => Data::Copied(find!(c"qemu_plugin_insn_data")?),
                false => Data::Lent(find!(c"qemu_plugin_insn_data")?),
            },
            place: find!(c"qemu_plugin_get_hwaddr")?,
            is_device: find!(c"qemu_plugin_hwaddr_is_io")?,
            physical: find!(c"qemu_plugin_hwaddr_phys_addr")?,
        })
    }

    /// Registers callbacks for each CPU and each block.
    pub fn listen(&self, id: Id, on_cpu: OnCpu, on_block: OnBlock) {
        // SAFETY: the emulator gave us this id; the function lives as long as the process.
        unsafe { (self.on_cpu)(id, on_cpu) };
        // SAFETY: as above.
        unsafe { (self.on_block)(id, on_block) };
    }

    /// Wraps a block that is being translated, for the duration of the callback.
    pub fn block(&self, raw: RawBlock) -> Block<'_> {
        Block { emulator: self, raw }
    }

    /// Returns the physical address of the access that the callback was called for, if the emulator
    /// knows it and it is memory. May be called only from that callback.
    pub fn physical(&self, access: AccessInfo, address: u64) -> Option<u64> {
        // SAFETY: it accepts any numbers; for an unknown access it returns null.
        let place = unsafe { (self.place)(access, address) };
        if place.is_null() {
            return None;
        }
        // SAFETY: the emulator's own answer, valid until the next query on this thread.
        let is_device = unsafe { (self.is_device)(place) };
        // SAFETY: as above.
        (!is_device).then(|| unsafe { (self.physical)(place) })
    }
}

/// A block that is being translated.
#[derive(Debug)]
pub struct Block<'a> {
    emulator: &'a Emulator,
    raw: RawBlock,
}

impl Block<'_> {
    /// Returns its guest address.
    pub fn address(&self) -> u64 {
        // SAFETY: the block is valid for as long as the callback takes.
        unsafe { (self.emulator.block_address)(self.raw) }
    }

    /// Returns its instructions.
    pub fn instructions(&self) -> impl Iterator<Item = Instruction<'_>> {
        // SAFETY: as above.
        let count = unsafe { (self.emulator.block_length)(self.raw) };
        (0..count).map(|index| {
            // SAFETY: as above; the index is below the number of instructions.
            let raw = unsafe { (self.emulator.instruction)(self.raw, index) };
            Instruction { emulator: self.emulator, raw, block: PhantomData }
        })
    }
}

/// One instruction of a block.
#[derive(Debug)]
pub struct Instruction<'a> {
    emulator: &'a Emulator,
    raw: RawInstruction,
    block: PhantomData<&'a Block<'a>>,
}

impl Instruction<'_> {
    /// Copies its bytes to the start of the buffer.
    pub fn bytes<'b>(&self, buffer: &'b mut [u8; INSTRUCTION_MAX]) -> &'b [u8] {
        // SAFETY: the instruction is valid as long as its block.
        let size = unsafe { (self.emulator.size)(self.raw) }.min(INSTRUCTION_MAX);
        match self.emulator.data {
            Data::Copied(copy) => {
                // SAFETY: as above; the buffer has room for that many bytes.
                unsafe { copy(self.raw, buffer.as_mut_ptr().cast(), size) };
            }
            Data::Lent(lend) => {
                // SAFETY: as above.
                let bytes = unsafe { lend(self.raw) };
                // SAFETY: the emulator keeps that many bytes there; the buffer does not overlap
                // them.
                unsafe { ptr::copy_nonoverlapping(bytes, buffer.as_mut_ptr(), size) };
            }
        }
        &buffer[..size]
    }

    /// Registers a callback with a number, called just before it runs; registers can be read then.
    pub fn on_run(&self, callback: OnRun, number: usize) {
        let number = ptr::without_provenance_mut(number);
        // SAFETY: as above; the function lives as long as the process.
        unsafe { (self.emulator.on_run)(self.raw, callback, READS_REGISTERS, number) };
    }

    /// Registers a callback after each of its loads and stores. One callback for both: with two,
    /// versions before 8 run each one twice.
    pub fn on_access(&self, callback: OnAccess) {
        let register = self.emulator.on_access;
        let (raw, flags) = (self.raw, NO_REGISTERS);
        // SAFETY: as above.
        unsafe { register(raw, callback, flags, READ_AND_WRITE, ptr::null_mut()) };
    }
}
