//! bpf(2), where no safe library has the call: programs and maps of tables of functions
//! (struct_ops). The only module with unsafe code; it makes no decisions.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use aya_obj::generated::bpf_insn;

// enum bpf_cmd
const MAP_CREATE: u32 = 0;
const MAP_UPDATE_ELEM: u32 = 2;
const PROG_LOAD: u32 = 5;
const BTF_LOAD: u32 = 18;
const LINK_CREATE: u32 = 28;

/// BPF_MAP_TYPE_STRUCT_OPS
const TABLE_MAP: u32 = 26;
/// BPF_F_LINK: a link makes the kernel use the table, and ends that.
const LINK: u32 = 1 << 13;
/// BPF_PROG_TYPE_STRUCT_OPS
const FUNCTION_PROGRAM: u32 = 27;
/// BPF_F_SLEEPABLE
const SLEEPABLE: u32 = 1 << 4;
/// BPF_STRUCT_OPS
const TABLE_ATTACHMENT: u32 = 44;

const NAME_BYTES: usize = 16;
/// The most that is kept of what the verifier says.
const LOG_BYTES: usize = 1 << 20;

/// The part of `union bpf_attr` for PROG_LOAD, up to what is used.
#[repr(C)]
#[derive(Default)]
struct LoadAttributes {
    kind: u32,
    instructions_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_BYTES],
    interface: u32,
    expected_attachment: u32,
    types_fd: u32,
    function_record_bytes: u32,
    functions: u64,
    functions_count: u32,
    line_record_bytes: u32,
    lines: u64,
    lines_count: u32,
    attach_type_id: u32,
}

/// That for MAP_CREATE.
#[repr(C)]
#[derive(Default)]
struct MapAttributes {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
    inner_fd: u32,
    node: u32,
    name: [u8; NAME_BYTES],
    interface: u32,
    types_fd: u32,
    key_type_id: u32,
    value_type_id: u32,
    kernel_value_type_id: u32,
}

/// That for BTF_LOAD.
#[repr(C)]
struct TypesAttributes {
    types: u64,
    log: u64,
    bytes: u32,
    log_bytes: u32,
    log_level: u32,
    padding: u32,
}

/// That for MAP_UPDATE_ELEM.
#[repr(C)]
struct UpdateAttributes {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// That for LINK_CREATE.
#[repr(C)]
struct LinkAttributes {
    map_fd: u32,
    target_fd: u32,
    attachment: u32,
    flags: u32,
}

/// A program that takes the place of a function in a table.
pub struct FunctionProgram<'a> {
    /// Of it the kernel keeps 15 bytes.
    pub name: &'a str,
    pub licence: &'a CStr,
    pub instructions: &'a [bpf_insn],
    /// The id of the table's type in the kernel's BTF.
    pub table_type_id: u32,
    /// The place of the function among the members of that type.
    pub member: u32,
    /// It may sleep.
    pub is_sleepable: bool,
}

/// Calls bpf(2). Returns what it returns.
///
/// # Safety
///
/// The addresses in `attributes` are those of memory that lives and is as long as its members say,
/// and may be written where the kernel writes.
unsafe fn bpf<T>(command: u32, attributes: &T) -> io::Result<i32> {
    let (address, bytes) = (std::ptr::from_ref(attributes), size_of::<T>());
    // SAFETY: the kernel reads that many bytes of `attributes`; the caller answers for addresses
    // in it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, address, bytes) };
    i32::try_from(result).ok().filter(|it| *it >= 0).ok_or_else(io::Error::last_os_error)
}

/// As [`bpf`], of a command that returns a file.
///
/// # Safety
///
/// As for [`bpf`], and the command returns a new file descriptor.
unsafe fn bpf_file<T>(command: u32, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller answers for the attributes.
    let number = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel made this descriptor just now, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn address_of<T: ?Sized>(value: &T) -> u64 {
    std::ptr::from_ref(value).addr() as u64
}

fn short_name(name: &str) -> [u8; NAME_BYTES] {
    let mut short = [0; NAME_BYTES];
    short.iter_mut().zip(name.bytes().take(NAME_BYTES - 1)).for_each(|(to, byte)| *to = byte);
    short
}

/// Loads a program. `log` takes what the verifier says, up to a bound; without it the verifier says
/// nothing.
///
/// # Errors
///
/// Those of bpf(2). Also ENOSPC where the log is longer than the bound.
pub fn load_program(
    program: &FunctionProgram<'_>,
    log: Option<&mut Vec<u8>>,
) -> io::Result<OwnedFd> {
    let mut log = log;
    if let Some(log) = &mut log {
        log.clear();
        log.resize(LOG_BYTES, 0);
    }
    let attributes = LoadAttributes {
        kind: FUNCTION_PROGRAM,
        instructions_count: u32::try_from(program.instructions.len()).map_err(io::Error::other)?,
        instructions: address_of(program.instructions),
        licence: address_of(program.licence),
        log_level: u32::from(log.is_some()),
        log_bytes: log.as_ref().map_or(0, |_| LOG_BYTES as u32),
        log: log.as_ref().map_or(0, |log| log.as_ptr().addr() as u64),
        flags: if program.is_sleepable { SLEEPABLE } else { 0 },
        name: short_name(program.name),
        expected_attachment: program.member,
        attach_type_id: program.table_type_id,
        ..LoadAttributes::default()
    };
    // SAFETY: instructions and licence live as long as `program`, with that many instructions and
    // a zero at the end of the licence; `log` is exclusive and has that many bytes.
    unsafe { bpf_file(PROG_LOAD, &attributes) }
}

/// Loads types (BTF).
///
/// # Errors
///
/// Those of bpf(2).
pub fn load_types(types: &[u8]) -> io::Result<OwnedFd> {
    let attributes = TypesAttributes {
        types: address_of(types),
        log: 0,
        bytes: u32::try_from(types.len()).map_err(io::Error::other)?,
        log_bytes: 0,
        log_level: 0,
        padding: 0,
    };
    // SAFETY: the kernel reads that many bytes of `types`.
    unsafe { bpf_file(BTF_LOAD, &attributes) }
}

/// A map that holds one table.
pub struct TableMap {
    map: OwnedFd,
    bytes: usize,
}

impl TableMap {
    /// Creates a map whose value has a type of the kernel, of that id and size. `types` are any
    /// types of the caller.
    ///
    /// # Errors
    ///
    /// Those of bpf(2).
    pub fn create(
        name: &str,
        types: BorrowedFd<'_>,
        type_id: u32,
        bytes: usize,
    ) -> io::Result<Self> {
        let attributes = MapAttributes {
            kind: TABLE_MAP,
            key_bytes: 4,
            value_bytes: u32::try_from(bytes).map_err(io::Error::other)?,
            entries_max: 1,
            flags: LINK,
            name: short_name(name),
            types_fd: types.as_raw_fd().cast_unsigned(),
            kernel_value_type_id: type_id,
            ..MapAttributes::default()
        };
        // SAFETY: there are no addresses in it.
        let map = unsafe { bpf_file(MAP_CREATE, &attributes) }?;
        Ok(Self { map, bytes })
    }

    /// Writes the table.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the value has another size; those of bpf(2): the kernel refuses the table.
    pub fn fill(&self, value: &[u8]) -> io::Result<()> {
        if value.len() != self.bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let key = 0_u32;
        let attributes = UpdateAttributes {
            map_fd: self.number(),
            padding: 0,
            key: address_of(&key),
            value: address_of(value),
            flags: 0,
        };
        // SAFETY: the key has the four bytes and the value the size of the map's; the kernel only
        // reads both.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(|_| ())
    }

    /// Makes the kernel use the table until the link is closed.
    ///
    /// # Errors
    ///
    /// Those of bpf(2), and those of the part of the kernel that takes the table.
    pub fn link(&self) -> io::Result<OwnedFd> {
        let attributes = LinkAttributes {
            map_fd: self.number(),
            target_fd: 0,
            attachment: TABLE_ATTACHMENT,
            flags: 0,
        };
        // SAFETY: there are no addresses in it.
        unsafe { bpf_file(LINK_CREATE, &attributes) }
    }

    fn number(&self) -> u32 {
        self.map.as_raw_fd().cast_unsigned()
    }
}
