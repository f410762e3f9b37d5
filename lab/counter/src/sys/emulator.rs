//! The emulator's functions: blocks of code that it translates, and what can be asked to happen
//! when their instructions run.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::symbols::function;

/// No register is read in the callback.
const NO_REGISTERS: c_int = 0;
/// Registers are read, so they have to be up to date.
const READS_REGISTERS: c_int = 1;
/// Loads and stores.
const READ_AND_WRITE: c_int = 3;
/// The longest instruction, in bytes.
pub const INSTRUCTION_MAX: usize = 16;

/// What the emulator says about itself to a plugin that it loads.
#[repr(C)]
pub struct Info {
    target: *const c_char,
    oldest: c_int,
    version: c_int,
}

impl Info {
    /// The version of its interface.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// The processor that it emulates.
    pub fn target(&self) -> &CStr {
        // SAFETY: the emulator gives a text that ends with a zero and is never freed.
        unsafe { CStr::from_ptr(self.target) }
    }
}

/// A number by which the emulator knows this plugin.
pub type Id = u64;
/// What it says about an access, only for being asked back.
pub type AccessInfo = u32;
/// Is called for each CPU before it begins.
pub type OnCpu = extern "C" fn(Id, u32);
/// Is called for each block that is translated.
pub type OnBlock = extern "C" fn(Id, Option<RawBlock>);
/// Is called when an instruction runs, with the CPU's place and a number of ours.
pub type OnRun = extern "C" fn(u32, *mut c_void);
/// Is called after a load or store, with the CPU's place and the address.
pub type OnAccess = extern "C" fn(u32, AccessInfo, u64, *mut c_void);

/// A block of the emulator's.
pub type RawBlock = NonNull<c_void>;
type RawInstruction = *mut c_void;
type RawPlace = *mut c_void;

/// How the bytes of an instruction are got.
#[derive(Clone, Copy, Debug)]
enum Data {
    /// Up to version 2 they are the emulator's.
    Lent(unsafe extern "C" fn(RawInstruction) -> *const u8),
    /// From version 3 on it copies them.
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

/// Looks a function up; the type is that of the field it goes to.
macro_rules! find {
    ($name:literal) => {
        // SAFETY: the type is the one that qemu-plugin.h declares under this name.
        unsafe { function($name) }
    };
}

impl Emulator {
    /// Finds the functions; `copies` if the interface is of version 3 or later. Fails with the name
    /// of the one that is missing.
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

    /// Asks to be called for each CPU and each block.
    pub fn listen(&self, id: Id, on_cpu: OnCpu, on_block: OnBlock) {
        // SAFETY: the emulator gave us this id; the function lives as long as the process.
        unsafe { (self.on_cpu)(id, on_cpu) };
        // SAFETY: as above.
        unsafe { (self.on_block)(id, on_block) };
    }

    /// A block that is being translated, for as long as the callback takes.
    pub fn block(&self, raw: RawBlock) -> Block<'_> {
        Block { emulator: self, raw }
    }

    /// The physical address of the access that the callback was called for, if the emulator knows
    /// it and it is memory. Only to be asked from that callback.
    pub fn physical(&self, access: AccessInfo, address: u64) -> Option<u64> {
        // SAFETY: it takes any numbers; of an access that it does not know it returns null.
        let place = unsafe { (self.place)(access, address) };
        if place.is_null() {
            return None;
        }
        // SAFETY: the emulator's own answer, valid until it is asked again on this thread.
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
    /// Where the guest has it.
    pub fn address(&self) -> u64 {
        // SAFETY: the block is valid for as long as the callback takes.
        unsafe { (self.emulator.block_address)(self.raw) }
    }

    /// Its instructions.
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
    /// Its bytes, written to the start of the buffer.
    pub fn bytes<'b>(&self, buffer: &'b mut [u8; INSTRUCTION_MAX]) -> &'b [u8] {
        // SAFETY: the instruction is valid as long as its block.
        let size = unsafe { (self.emulator.size)(self.raw) }.min(INSTRUCTION_MAX);
        match self.emulator.data {
            Data::Copied(copy) => {
                // SAFETY: as above; the buffer takes so many bytes.
                unsafe { copy(self.raw, buffer.as_mut_ptr().cast(), size) };
            }
            Data::Lent(lend) => {
                // SAFETY: as above.
                let bytes = unsafe { lend(self.raw) };
                // SAFETY: the emulator keeps so many bytes there; the buffer is elsewhere.
                unsafe { ptr::copy_nonoverlapping(bytes, buffer.as_mut_ptr(), size) };
            }
        }
        &buffer[..size]
    }

    /// Asks to be called with a number when it runs, just before; registers can be read then.
    pub fn on_run(&self, callback: OnRun, number: usize) {
        let number = ptr::without_provenance_mut(number);
        // SAFETY: as above; the function lives as long as the process.
        unsafe { (self.emulator.on_run)(self.raw, callback, READS_REGISTERS, number) };
    }

    /// Asks to be called after each of its loads and stores. One callback for both: versions before
    /// 8 run each of two as often as there are callbacks.
    pub fn on_access(&self, callback: OnAccess) {
        let register = self.emulator.on_access;
        let (raw, flags) = (self.raw, NO_REGISTERS);
        // SAFETY: as above.
        unsafe { register(raw, callback, flags, READ_AND_WRITE, ptr::null_mut()) };
    }
}
