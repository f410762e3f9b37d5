//! Reads the register that identifies a CPU's address space.
//!
//! From QEMU 9 on plugins can read registers. Before that, there is only the function of the
//! emulator's debug server, which is not part of the interface. CR3 can be read through it at any
//! time, and its index in the debugger's list has been the same since 2019.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

use super::symbols::function;

/// The index of CR3 in gdb-xml/i386-64bit.xml: after 16 general registers, rip, eflags, six
/// segments, three bases, cr0 and cr2.
const CR3_GDB_REGISTER: c_int = 29;

/// The method to read registers.
#[derive(Debug)]
pub struct CpuRegisters {
    new_bytes: unsafe extern "C" fn() -> *mut GByteArray,
    set_length: unsafe extern "C" fn(*mut GByteArray, c_uint) -> *mut GByteArray,
    reader: RegisterReader,
}

/// glib's growing array of bytes.
#[repr(C)]
struct GByteArray {
    data: *const u8,
    length: c_uint,
}

/// glib's growing array of anything.
#[repr(C)]
struct GArray {
    data: *const RegisterDescriptor,
    length: c_uint,
}

/// QEMU's description of a register.
#[repr(C)]
struct RegisterDescriptor {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
}

#[derive(Debug)]
enum RegisterReader {
    PluginApi {
        list: unsafe extern "C" fn() -> *const GArray,
        read: unsafe extern "C" fn(*mut c_void, *mut GByteArray) -> c_int,
        /// The handle of CR3: the same for all CPUs. Null until a CPU has begun.
        cr3: AtomicPtr<c_void>,
    },
    GdbStub {
        cpu: unsafe extern "C" fn(c_int) -> *mut c_void,
        read: unsafe extern "C" fn(*mut c_void, *mut GByteArray, c_int) -> c_int,
    },
}

/// Looks up a function; its type is that of the field it goes to.
macro_rules! find {
    ($name:literal) => {
        // SAFETY: the type is the one that glib's or QEMU's headers declare under this name.
        unsafe { function($name) }
    };
}

impl CpuRegisters {
    /// Finds the functions; `plugin` if the interface has some for registers. Fails with the name
    /// of the first missing one.
    pub fn find(plugin: bool) -> Result<Self, &'static CStr> {
        Ok(Self {
            new_bytes: find!(c"g_byte_array_new")?,
            set_length: find!(c"g_byte_array_set_size")?,
            reader: match plugin {
                true => RegisterReader::PluginApi {
                    list: find!(c"qemu_plugin_get_registers")?,
                    read: find!(c"qemu_plugin_read_register")?,
                    cr3: AtomicPtr::default(),
                },
                false => RegisterReader::GdbStub {
                    cpu: find!(c"qemu_get_cpu")?,
                    read: find!(c"x86_cpu_gdb_read_register")?,
                },
            },
        })
    }

    /// Finds the handle of CR3. Must be called on a CPU's thread when it begins.
    pub fn init_vcpu(&self) {
        if let RegisterReader::PluginApi { list, cr3, .. } = &self.reader {
            // SAFETY: a CPU is beginning on this thread, which is when it may be called.
            let list = unsafe { list() };
            // SAFETY: QEMU returns an array of its own, or null.
            let Some(list) = (unsafe { list.as_ref() }) else { return };
            // SAFETY: that many entries are there.
            let all = unsafe { std::slice::from_raw_parts(list.data, list.length as usize) };
            let is_cr3 = |one: &&RegisterDescriptor| {
                // SAFETY: QEMU's names end with a zero.
                (unsafe { CStr::from_ptr(one.name) }) == c"cr3"
            };
            let found = all.iter().find(is_cr3).map(|one| one.handle);
            cr3.store(found.unwrap_or(ptr::null_mut()), Relaxed);
        }
    }

    /// Returns CR3 of a CPU. May be called only by a callback for an instruction that runs on it.
    pub fn cr3(&self, place: u32) -> Option<u64> {
        let bytes = self.buffer();
        // SAFETY: the array is this thread's own.
        unsafe { (self.set_length)(bytes, 0) };
        let length = self.read(place, bytes);
        // SAFETY: as above, and nothing changes it while it is read.
        let bytes = unsafe { &*bytes };
        let length =
            usize::try_from(length).ok().filter(|&n| n > 0 && n <= bytes.length as usize)?;
        // SAFETY: the array has at least that many bytes.
        let value = unsafe { std::slice::from_raw_parts(bytes.data, length) };
        Some(value.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    fn read(&self, place: u32, bytes: *mut GByteArray) -> c_int {
        match &self.reader {
            RegisterReader::PluginApi { read, cr3, .. } => {
                let handle = cr3.load(Relaxed);
                if handle.is_null() {
                    return 0;
                }
                // SAFETY: the handle is QEMU's, and this runs on a CPU's thread in a callback that
                // was asked for with registers.
                unsafe { read(handle, bytes) }
            }
            RegisterReader::GdbStub { cpu, read } => {
                // SAFETY: it looks for the CPU in a list; it takes any number.
                let cpu = unsafe { cpu(place.cast_signed()) };
                if cpu.is_null() {
                    return 0;
                }
                // SAFETY: the CPU is the one that runs on this thread; it is only read.
                unsafe { read(cpu, bytes, CR3_GDB_REGISTER) }
            }
        }
    }

    /// Returns an array for answers, one per thread; it lives as long as the process.
    fn buffer(&self) -> *mut GByteArray {
        thread_local! {
            static BUFFER: Cell<*mut GByteArray> = const { Cell::new(ptr::null_mut()) };
        }
        if BUFFER.get().is_null() {
            // SAFETY: it can be called at any time, and ends the process if memory is short.
            BUFFER.set(unsafe { (self.new_bytes)() });
        }
        BUFFER.get()
    }
}
