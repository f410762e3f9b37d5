//! The source `registers`: a timer interrupts each CPU; the registers of the interrupted thread and
//! its code tell the addresses that it uses.
//!
//! A sample stands for a time, 1/rate of a second, and not for an access: slow accesses are seen
//! more often. Where several addresses are known, the most telling one counts.

use std::ops::ControlFlow;

use nodeward_machine::Result;
use nodeward_model::AccessKind;
use nodeward_operands::{Architecture, Operand, OperandDecoder, Registers};

use super::observed::ObservedProcess;
use super::probe;
use super::records::Sample;
use super::source::{EventSetup, SampleReader};
use crate::sys::{PerfCounter, PerfEvent};

/// Limit on the rate, in samples a second of a CPU: at 10 kHz the target loses 15 % of its time.
const RATE_MAX: u32 = 10_000;
/// The time between two takes for which a ring has room, in milliseconds.
const RING_MS: u64 = 1500;
/// Bytes of a sample: its header, instruction, task, address, CPU, and the kind of its registers.
const SAMPLE_BYTES: u64 = 6 * 8;

/// Addresses below are never mapped for data (the kernel's usual `vm.mmap_min_addr`): they come
/// from null pointers and from registers that hold numbers.
const ADDRESS_MIN: u64 = 64 << 10;
/// One past the highest address of programs: with five levels of page tables.
const ADDRESS_END: u64 = 1 << 56;
/// Bytes around the stack pointer that belong to the stack: below it a leaf function's red zone
/// (128 bytes on x86-64) and what a function has just given up; above it the frames in use. A
/// thread's stack lies where the thread is.
const STACK_BELOW: u64 = 4 << 10;
const STACK_ABOVE: u64 = 64 << 10;

/// Reads addresses out of registers and code.
#[derive(Debug)]
pub struct OperandReader {
    architecture: Architecture,
    decoder: OperandDecoder,
}

impl OperandReader {
    /// Returns a reader for one process.
    pub fn new(architecture: Architecture) -> Self {
        Self { architecture, decoder: OperandDecoder::new(architecture) }
    }

    /// Returns the event whose samples are read, at a rate in samples a second of each CPU.
    pub fn setup(architecture: Architecture, rate_hz: u32) -> EventSetup {
        let (rate, registers) = (rate_hz.clamp(1, RATE_MAX), mask(architecture));
        let sample_bytes = SAMPLE_BYTES + 8 * u64::from(registers.count_ones());
        let ring_bytes = u64::from(rate) * sample_bytes * RING_MS / 1000;
        let counter = PerfCounter::CpuClock { period_ns: 1_000_000_000 / u64::from(rate) };
        EventSetup { event: PerfEvent { counter, registers }, ring_bytes }
    }

    /// Checks that the source works here.
    ///
    /// # Errors
    /// `Denied` or `Unsupported`.
    pub fn probe(architecture: Architecture) -> Result<()> {
        probe::try_event(Self::setup(architecture, 1).event)
    }
}

impl SampleReader for OperandReader {
    fn address(
        &mut self,
        sample: &Sample<'_>,
        process: &ObservedProcess,
    ) -> Option<(u64, AccessKind)> {
        let registers = registers(self.architecture, sample)?;
        let stack_pointer = registers.stack_pointer(self.architecture);
        let mut found = None;
        self.decoder.operands(&registers, &mut &*process, &mut |operand: Operand| {
            if !is_data(operand.address, stack_pointer) {
                return ControlFlow::Continue(());
            }
            found = Some((operand.address, operand.kind));
            ControlFlow::Break(())
        });
        found
    }

    /// Code may be rewritten at any time (JIT), so what was decoded is used for one take only.
    fn begin_take(&mut self) {
        self.decoder.forget();
    }
}

/// Returns true if an address can be that of data outside the stack.
fn is_data(address: u64, stack_pointer: u64) -> bool {
    let stack =
        stack_pointer.saturating_sub(STACK_BELOW)..stack_pointer.saturating_add(STACK_ABOVE);
    (ADDRESS_MIN..ADDRESS_END).contains(&address) && !stack.contains(&address)
}

/// Returns the wanted registers by the bits of the kernel's asm/perf_regs.h.
fn mask(architecture: Architecture) -> u64 {
    match architecture {
        // ax to sp, and r8 to r15; the instruction pointer is in the sample.
        Architecture::X86_64 => 0x00ff_00ff,
        // x0 to lr, and sp.
        Architecture::Aarch64 => 0xffff_ffff,
    }
}

/// The kernel's register (ax, bx, cx, dx, si, di, bp, sp, r8, ...) for each number of x86-64 code.
const X86_64_ORDER: [usize; 16] = [0, 2, 3, 1, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// Returns the registers of a sample by their numbers in code; `None` if it has none, as that of a
/// 32-bit program.
fn registers(architecture: Architecture, sample: &Sample<'_>) -> Option<Registers> {
    let mut general = [0; 32];
    match architecture {
        Architecture::X86_64 => {
            for (register, &kernel) in general.iter_mut().zip(&X86_64_ORDER) {
                *register = *sample.registers.get(kernel)?;
            }
        }
        Architecture::Aarch64 => general = *sample.registers.first_chunk()?,
    }
    Some(Registers { pc: sample.instruction, general })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use nodeward_model::Pid;

    use super::*;
    use crate::own_process::{AreaAdvice, AreaBacking, MappedArea};

    /// Goal: registers are found by their numbers in code: rdi is the kernel's sixth and number 7
    /// of x86-64, rsp its eighth and number 4; x30 and sp are the last two of aarch64.
    #[test]
    fn registers_have_the_numbers_of_code() {
        let values: Vec<u64> = (100..132).collect();
        let sample = |count| Sample {
            instruction: 7,
            pid: 1,
            tid: 1,
            address: 0,
            cpu: 0,
            registers: &values[..count],
        };
        let x86 = registers(Architecture::X86_64, &sample(16)).unwrap();
        let names = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];
        let kernel = ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp"];
        for (number, name) in names.iter().enumerate() {
            let bit = kernel.iter().position(|one| one == name).unwrap();
            assert_eq!(x86.general[number], 100 + bit as u64, "{name}");
        }
        assert_eq!(x86.general[8..16], values[8..16]);
        assert_eq!((x86.pc, x86.stack_pointer(Architecture::X86_64)), (7, 107));
        let arm = registers(Architecture::Aarch64, &sample(32)).unwrap();
        assert_eq!((arm.general[30], arm.stack_pointer(Architecture::Aarch64)), (130, 131));
        assert!(registers(Architecture::X86_64, &sample(0)).is_none());
        assert!(registers(Architecture::Aarch64, &sample(16)).is_none());
        for (architecture, count) in [(Architecture::X86_64, 16), (Architecture::Aarch64, 32)] {
            assert_eq!(mask(architecture).count_ones(), count);
        }
    }

    /// Goal: null pointers, kernel addresses and the stack's surroundings are no data; all else is.
    #[test]
    fn data_is_told_from_the_stack() {
        let stack_pointer = 0x7fff_0000_0000;
        let is_data = |address| is_data(address, stack_pointer);
        for address in [0x1_0000, stack_pointer - 4097, stack_pointer + 65_536, ADDRESS_END - 1] {
            assert!(is_data(address), "{address:#x}");
        }
        let stack = [stack_pointer - 4096, stack_pointer, stack_pointer + 65_535];
        for address in [0, 0xffff, ADDRESS_END, u64::MAX].into_iter().chain(stack) {
            assert!(!is_data(address), "{address:#x}");
        }
    }

    /// Goal: code is read as it is when samples are taken, also after it was rewritten (JIT), and
    /// code that is unmapped tells nothing. The code is `mov rax, [rbx]`, then `mov [rcx], rax`.
    #[test]
    fn code_is_read_anew_for_each_take() {
        let area = MappedArea::map(rustix::param::page_size(), AreaBacking::Anonymous).unwrap();
        let write = |code: [u8; 8]| area.words()[0].store(u64::from_ne_bytes(code), SeqCst);
        let process = ObservedProcess::open(Pid::new(std::process::id()).unwrap()).unwrap();
        let mut reader = OperandReader::new(Architecture::X86_64);
        // ax, bx, cx, dx, si, di, bp, sp, r8 to r15.
        let mut values = [0; 16];
        (values[1], values[2], values[7]) = (0x7100_0000, 0x7200_0000, 0x7300_0000);
        let sample = Sample {
            instruction: area.address(),
            pid: 1,
            tid: 1,
            address: 0,
            cpu: 0,
            registers: &values,
        };
        let mut address = || {
            reader.begin_take();
            reader.address(&sample, &process)
        };
        write([0x48, 0x8b, 0x03, 0xc3, 0, 0, 0, 0]);
        assert_eq!(address(), Some((0x7100_0000, AccessKind::Read)));
        write([0x48, 0x89, 0x01, 0xc3, 0, 0, 0, 0]);
        assert_eq!(address(), Some((0x7200_0000, AccessKind::Write)));
        area.advise(AreaAdvice::Discard).unwrap();
        drop(area);
        // Whatever another test maps there, it is not this code.
        assert_eq!(address().filter(|&(address, _)| address == 0x7200_0000), None);
    }

    /// Goal: a rate becomes a time, and a ring has room for 1.5 s: at 1 kHz on x86-64 for 1500
    /// samples of 48 + 16 x 8 = 176 bytes. Rates of nothing and of too much are brought within
    /// limits.
    #[test]
    fn a_rate_becomes_a_time() {
        let at = |rate| OperandReader::setup(Architecture::X86_64, rate);
        let period = |rate| match at(rate).event.counter {
            PerfCounter::CpuClock { period_ns } => period_ns,
            PerfCounter::PageFaults => 0,
        };
        assert_eq!(at(1000).ring_bytes, 1500 * 176);
        assert_eq!(
            [0, 1, 100, 1000].map(period),
            [1_000_000_000, 1_000_000_000, 10_000_000, 1_000_000]
        );
        assert_eq!(period(u32::MAX), 100_000);
    }
}
