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
pub struct PluginInfo {
    target: *const c_char,
    oldest: c_int,
    version: c_int,
}

impl PluginInfo {
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
pub type PluginId = u64;
/// The emulator's handle of an access, for further queries.
pub type MemInfo = u32;
/// Called for each CPU before it begins.
pub type VcpuInitCallback = extern "C" fn(PluginId, u32);
/// Called for each block that is translated.
pub type TbTransCallback = extern "C" fn(PluginId, Option<RawTb>);
/// Called when an instruction runs, with the CPU's place and a number of ours.
pub type InsnExecCallback = extern "C" fn(u32, *mut c_void);
/// Called after a load or store, with the CPU's place and the address.
pub type MemCallback = extern "C" fn(u32, MemInfo, u64, *mut c_void);

/// A block of the emulator.
pub type RawTb = NonNull<c_void>;
type RawInsn = *mut c_void;
type RawHwaddr = *mut c_void;

/// The method to read the bytes of an instruction.
#[derive(Clone, Copy, Debug)]
enum InsnDataFn {
    /// Up to version 2: the emulator returns a pointer to its own bytes.
    Borrowed(unsafe extern "C" fn(RawInsn) -> *const u8),
    /// From version 3 on: the emulator copies them.
    Copied(unsafe extern "C" fn(RawInsn, *mut c_void, usize) -> usize),
}

/// The emulator's functions.
#[derive(Debug)]
pub struct QemuApi {
    register_vcpu_init: unsafe extern "C" fn(PluginId, VcpuInitCallback),
    register_tb_trans: unsafe extern "C" fn(PluginId, TbTransCallback),
    register_insn_exec: unsafe extern "C" fn(RawInsn, InsnExecCallback, c_int, *mut c_void),
    register_mem: unsafe extern "C" fn(RawInsn, MemCallback, c_int, c_int, *mut c_void),
    tb_vaddr: unsafe extern "C" fn(RawTb) -> u64,
    tb_n_insns: unsafe extern "C" fn(RawTb) -> usize,
    tb_get_insn: unsafe extern "C" fn(RawTb, usize) -> RawInsn,
    insn_size: unsafe extern "C" fn(RawInsn) -> usize,
    insn_data: InsnDataFn,
    get_hwaddr: unsafe extern "C" fn(MemInfo, u64) -> RawHwaddr,
    hwaddr_is_io: unsafe extern "C" fn(RawHwaddr) -> bool,
    hwaddr_phys_addr: unsafe extern "C" fn(RawHwaddr) -> u64,
}

/// Looks up a function; its type is that of the field it goes to.
macro_rules! find {
    ($name:literal) => {
        // SAFETY: the type is the one that qemu-plugin.h declares under this name.
        unsafe { function($name) }
    };
}

impl QemuApi {
    /// Finds the functions; `copies` if the interface is of version 3 or later. Fails with the name
    /// of the first missing one.
    pub fn find(copies: bool) -> Result<Self, &'static CStr> {
        Ok(Self {
            register_vcpu_init: find!(c"qemu_plugin_register_vcpu_init_cb")?,
            register_tb_trans: find!(c"qemu_plugin_register_vcpu_tb_trans_cb")?,
            register_insn_exec: find!(c"qemu_plugin_register_vcpu_insn_exec_cb")?,
            register_mem: find!(c"qemu_plugin_register_vcpu_mem_cb")?,
            tb_vaddr: find!(c"qemu_plugin_tb_vaddr")?,
            tb_n_insns: find!(c"qemu_plugin_tb_n_insns")?,
            tb_get_insn: find!(c"qemu_plugin_tb_get_insn")?,
            insn_size: find!(c"qemu_plugin_insn_size")?,
            insn_data: match copies {
                true => InsnDataFn::Copied(find!(c"qemu_plugin_insn_data")?),
                false => InsnDataFn::Borrowed(find!(c"qemu_plugin_insn_data")?),
            },
            get_hwaddr: find!(c"qemu_plugin_get_hwaddr")?,
            hwaddr_is_io: find!(c"qemu_plugin_hwaddr_is_io")?,
            hwaddr_phys_addr: find!(c"qemu_plugin_hwaddr_phys_addr")?,
        })
    }

    /// Registers callbacks for each CPU and each block.
    pub fn register_callbacks(
        &self,
        id: PluginId,
        on_cpu: VcpuInitCallback,
        on_block: TbTransCallback,
    ) {
        // SAFETY: the emulator gave us this id; the function lives as long as the process.
        unsafe { (self.register_vcpu_init)(id, on_cpu) };
        // SAFETY: as above.
        unsafe { (self.register_tb_trans)(id, on_block) };
    }

    /// Wraps a block that is being translated, for the duration of the callback.
    pub fn block(&self, raw: RawTb) -> TranslationBlock<'_> {
        TranslationBlock { qemu: self, raw }
    }

    /// Returns the physical address of the access that the callback was called for, if the emulator
    /// knows it and it is memory. May be called only from that callback.
    pub fn physical_address(&self, access: MemInfo, address: u64) -> Option<u64> {
        // SAFETY: it accepts any numbers; for an unknown access it returns null.
        let place = unsafe { (self.get_hwaddr)(access, address) };
        if place.is_null() {
            return None;
        }
        // SAFETY: the emulator's own answer, valid until the next query on this thread.
        let is_device = unsafe { (self.hwaddr_is_io)(place) };
        // SAFETY: as above.
        (!is_device).then(|| unsafe { (self.hwaddr_phys_addr)(place) })
    }
}

/// A block that is being translated.
#[derive(Debug)]
pub struct TranslationBlock<'a> {
    qemu: &'a QemuApi,
    raw: RawTb,
}

impl TranslationBlock<'_> {
    /// Returns its guest address.
    pub fn address(&self) -> u64 {
        // SAFETY: the block is valid for as long as the callback takes.
        unsafe { (self.qemu.tb_vaddr)(self.raw) }
    }

    /// Returns its instructions.
    pub fn instructions(&self) -> impl Iterator<Item = Instruction<'_>> {
        // SAFETY: as above.
        let count = unsafe { (self.qemu.tb_n_insns)(self.raw) };
        (0..count).map(|index| {
            // SAFETY: as above; the index is below the number of instructions.
            let raw = unsafe { (self.qemu.tb_get_insn)(self.raw, index) };
            Instruction { qemu: self.qemu, raw, block: PhantomData }
        })
    }
}

/// One instruction of a block.
#[derive(Debug)]
pub struct Instruction<'a> {
    qemu: &'a QemuApi,
    raw: RawInsn,
    block: PhantomData<&'a TranslationBlock<'a>>,
}

impl Instruction<'_> {
    /// Copies its bytes to the start of the buffer.
    pub fn bytes<'b>(&self, buffer: &'b mut [u8; INSTRUCTION_MAX]) -> &'b [u8] {
        // SAFETY: the instruction is valid as long as its block.
        let size = unsafe { (self.qemu.insn_size)(self.raw) }.min(INSTRUCTION_MAX);
        match self.qemu.insn_data {
            InsnDataFn::Copied(copy) => {
                // SAFETY: as above; the buffer has room for that many bytes.
                unsafe { copy(self.raw, buffer.as_mut_ptr().cast(), size) };
            }
            InsnDataFn::Borrowed(lend) => {
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
    pub fn call_on_execution(&self, callback: InsnExecCallback, number: usize) {
        let number = ptr::without_provenance_mut(number);
        // SAFETY: as above; the function lives as long as the process.
        unsafe { (self.qemu.register_insn_exec)(self.raw, callback, READS_REGISTERS, number) };
    }

    /// Registers a callback after each of its loads and stores. One callback for both: with two,
    /// versions before 8 run each one twice.
    pub fn call_on_memory_access(&self, callback: MemCallback) {
        let register = self.qemu.register_mem;
        let (raw, flags) = (self.raw, NO_REGISTERS);
        // SAFETY: as above.
        unsafe { register(raw, callback, flags, READ_AND_WRITE, ptr::null_mut()) };
    }
}
