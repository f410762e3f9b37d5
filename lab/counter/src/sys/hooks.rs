//! Entry points that the emulator finds and calls.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_lab_counts::mark::Mark;

use super::qemu_api::{INSTRUCTION_MAX, MemInfo, PluginId, PluginInfo, QemuApi, RawTb};
use super::registers::CpuRegisters;
use super::symbols;
use crate::counter::AccessCounter;
use crate::decode::{self, InstructionEvent};
use crate::memory_map::PhysicalAddressKind;

/// The interface version from which on plugins read registers and get copies of instructions.
const API_WITH_REGISTERS: i32 = 3;
/// The version before that: QEMU up to 8.2.
const API_WITHOUT_REGISTERS: i32 = 1;
/// Kernel code is in the upper half of addresses.
const KERNEL: u64 = 1 << 63;

/// The interface version that this plugin requests.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the emulator looks for this name")]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(API_WITH_REGISTERS);

/// Runs when the plugin is loaded, before the emulator reads the version.
#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE_VERSION: extern "C" fn() = choose_version;

static STATE: OnceLock<PluginState> = OnceLock::new();

/// Installs the plugin; the emulator calls it once. Returns 0 on success; errors go to standard
/// error.
///
/// # Safety
/// The emulator passes its own description, and as many arguments as it states.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const PluginInfo,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: as the emulator promises; null if there is none.
    let info = unsafe { info.as_ref() };
    let count = if argv.is_null() { 0 } else { usize::try_from(argc).unwrap_or(0) };
    let arguments: Vec<&CStr> = match count {
        0 => Vec::new(),
        // SAFETY: as the emulator promises.
        _ => unsafe { slice::from_raw_parts(argv, count) }
            .iter()
            // SAFETY: each ends with a zero.
            .map(|&argument| unsafe { CStr::from_ptr(argument) })
            .collect(),
    };
    match install(id, info, &arguments) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("nodeward-lab-counter: {why}");
            -1
        }
    }
}

extern "C" fn choose_version() {
    if !symbols::exists(c"qemu_plugin_read_register") {
        qemu_plugin_version.store(API_WITHOUT_REGISTERS, Relaxed);
    }
}

struct PluginState {
    qemu: QemuApi,
    registers: CpuRegisters,
    counter: AccessCounter,
}

fn install(id: PluginId, info: Option<&PluginInfo>, arguments: &[&CStr]) -> Result<(), String> {
    let info = info.ok_or("the emulator says nothing about itself")?;
    let target = info.target().to_string_lossy();
    if target != "x86_64" {
        return Err(format!("it can count on x86_64, not on {target}"));
    }
    let version = qemu_plugin_version.load(Relaxed);
    let with_registers = version == API_WITH_REGISTERS;
    let missing = |name: &CStr| {
        let name = name.to_string_lossy();
        format!("this emulator (interface {}) has no {name}", info.version())
    };
    let emulator = QemuApi::find(with_registers).map_err(missing)?;
    let registers = CpuRegisters::find(with_registers).map_err(missing)?;
    let telling = if with_registers {
        PhysicalAddressKind::GuestPhysical
    } else {
        PhysicalAddressKind::RamBlock
    };
    let path = file(arguments)?;
    let counter = AccessCounter::open(&path, telling, u64::from(version.unsigned_abs()));
    let counter = counter.map_err(|why| format!("{}: {why}", path.display()))?;
    let state = STATE.get_or_init(|| PluginState { qemu: emulator, registers, counter });
    state.qemu.register_callbacks(id, on_vcpu_init, on_tb_trans);
    Ok(())
}

fn file(arguments: &[&CStr]) -> Result<PathBuf, String> {
    let [argument] = arguments else { return Err("give it counts=FILE".to_owned()) };
    let argument = argument.to_string_lossy();
    let path = argument.strip_prefix("counts=");
    let path = path.ok_or_else(|| format!("'{argument}' is not counts=FILE"))?;
    Ok(Path::new(path).to_owned())
}

extern "C" fn on_vcpu_init(_id: PluginId, _place: u32) {
    if let Some(state) = STATE.get() {
        state.registers.init_vcpu();
    }
}

extern "C" fn on_tb_trans(_id: PluginId, block: Option<RawTb>) {
    let (Some(state), Some(block)) = (STATE.get(), block) else { return };
    let block = state.qemu.block(block);
    let is_kernel = block.address() >= KERNEL;
    let mut buffer = [0; INSTRUCTION_MAX];
    for instruction in block.instructions() {
        let bytes = instruction.bytes(&mut buffer);
        let event =
            if is_kernel { decode::decode_kernel(bytes) } else { decode::decode_user(bytes) };
        if let Some(event) = event {
            instruction.call_on_execution(on_event, number(event));
        }
        if !is_kernel {
            instruction.call_on_memory_access(on_access);
        }
    }
}

/// Numbers of events, which the emulator passes back: those of the kernel, then marks.
const EVENT_CR3_WRITE: usize = 1;
const EVENT_TLB_FLUSH: usize = 2;
const EVENT_KERNEL_EXIT: usize = 3;
const EVENT_FIRST_MARK: usize = 4;

fn number(event: InstructionEvent) -> usize {
    match event {
        InstructionEvent::Cr3Write => EVENT_CR3_WRITE,
        InstructionEvent::TlbFlush => EVENT_TLB_FLUSH,
        InstructionEvent::KernelExit => EVENT_KERNEL_EXIT,
        InstructionEvent::Mark(mark) => EVENT_FIRST_MARK + mark.number(),
    }
}

extern "C" fn on_event(place: u32, number: *mut c_void) {
    let Some(state) = STATE.get() else { return };
    let cpu = place as usize;
    let cr3 = || state.registers.cr3(place);
    match number.addr() {
        EVENT_CR3_WRITE => state.counter.on_cr3_write(cpu),
        EVENT_TLB_FLUSH => state.counter.on_tlb_flush(cpu),
        EVENT_KERNEL_EXIT => state.counter.on_kernel_exit(cpu, cr3),
        mark => {
            if let Some(mark) = Mark::of_number(mark - EVENT_FIRST_MARK) {
                state.counter.on_mark(cpu, mark, cr3);
            }
        }
    }
}

extern "C" fn on_access(place: u32, access: MemInfo, address: u64, _number: *mut c_void) {
    if let Some(state) = STATE.get() {
        let ask = || state.qemu.physical_address(access, address);
        state.counter.access(place as usize, address, ask);
    }
}
