//! Tests with programs that were stepped through: see `fixtures/operands` in fixtures/README.md.

use std::ops::ControlFlow;
use std::path::Path;

use nodeward_model::AccessKind;

use crate::code_at::CodeAt;
use crate::effect::ControlTransfer;
use crate::instruction_set::InstructionSet;
use crate::known_registers::KnownRegisters;
use crate::{Architecture, Operand, OperandDecoder, Registers};

/// An executed instruction.
struct TracedStep {
    /// The registers before the instruction.
    registers: Registers,
    /// The accesses of the instruction: kind, address, bytes.
    accesses: Vec<(AccessKind, u64, u32)>,
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

/// Reads a program's code, and the consecutive steps in each of its functions.
fn read(name: &str) -> (CodeAt, Vec<Vec<TracedStep>>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/operands");
    let text = std::fs::read_to_string(directory.join(format!("{name}.txt"))).unwrap();
    let bytes = std::fs::read(directory.join(format!("{name}.bin"))).unwrap();
    let (start, lines) = text.split_once('\n').unwrap();
    let start = hex(start.strip_prefix("code ").unwrap());
    let mut functions: Vec<Vec<TracedStep>> = Vec::new();
    let mut general = [0; 32];
    for line in lines.lines() {
        if line.starts_with('#') {
            functions.push(Vec::new());
            general = [0; 32];
        } else {
            functions.last_mut().unwrap().push(step(line, &mut general));
        }
    }
    (CodeAt { start, bytes }, functions)
}

/// A line has the address of the instruction, the registers that changed since the last one (the
/// first: all that are not zero), and the accesses.
fn step(line: &str, general: &mut [u64; 32]) -> TracedStep {
    let mut fields = line.split(' ');
    let pc = hex(fields.next().unwrap());
    let mut accesses = Vec::new();
    for field in fields {
        if let Some((register, value)) = field.split_once('=') {
            general[register.parse::<usize>().unwrap()] = hex(value);
        } else {
            let [kind, address, bytes] = *field.split(':').collect::<Vec<_>>() else { panic!() };
            let kind = if kind == "r" { AccessKind::Read } else { AccessKind::Write };
            accesses.push((kind, hex(address), bytes.parse().unwrap()));
        }
    }
    TracedStep { registers: Registers { pc, general: *general }, accesses }
}

/// The number of operands of traced instructions that were told, and of those among them that were
/// not accessed.
#[derive(Debug, Default, PartialEq, Eq)]
struct ToldCount {
    all: usize,
    wrong: usize,
}

/// The counts of all samples.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    samples: usize,
    /// Samples with an operand.
    telling: usize,
    /// Accesses of the instructions at the pointer that were not told.
    missed_here: usize,
    behind: ToldCount,
    here: ToldCount,
    ahead: ToldCount,
}

/// Takes each step for a sample, and compares its operands with the steps around it.
fn tally(architecture: Architecture, name: &str) -> Tally {
    let (mut code, functions) = read(name);
    let mut decoder = OperandDecoder::new(architecture);
    let mut tally = Tally::default();
    for steps in functions {
        for (at, step) in steps.iter().enumerate() {
            let operands = operands(&mut decoder, &mut code, &step.registers);
            tally.samples += 1;
            tally.telling += usize::from(!operands.is_empty());
            let here = operands.iter().filter(|operand| operand.position == 0).count();
            tally.missed_here += step.accesses.len() - here;
            operands.iter().for_each(|operand| tally.enter(operand, &steps, at));
        }
    }
    tally
}

impl Tally {
    fn enter(&mut self, operand: &Operand, steps: &[TracedStep], at: usize) {
        let at = at.checked_add_signed(isize::from(operand.position));
        let Some(step) = at.and_then(|at| steps.get(at)) else { return };
        let told = match operand.position {
            ..0 => &mut self.behind,
            0 => &mut self.here,
            _ => &mut self.ahead,
        };
        let access = (operand.kind, operand.address, operand.bytes);
        told.all += 1;
        told.wrong += usize::from(!step.accesses.contains(&access));
    }
}

fn operands(
    decoder: &mut OperandDecoder,
    code: &mut CodeAt,
    registers: &Registers,
) -> Vec<Operand> {
    let mut operands = Vec::new();
    decoder.operands(registers, code, &mut |operand| {
        operands.push(operand);
        ControlFlow::Continue(())
    });
    operands
}

/// Goal: on x86-64, what is told of the instruction at the pointer is all of it and right; what is
/// told of those before is right; and of those ahead as far as loops go on.
#[test]
fn operands_of_x86_64_are_those_accessed() {
    let expected = Tally {
        samples: 650,
        telling: 594,
        missed_here: 0,
        behind: ToldCount { all: 583, wrong: 0 },
        here: ToldCount { all: 175, wrong: 0 },
        ahead: ToldCount { all: 1452, wrong: 50 },
    };
    assert_eq!(tally(Architecture::X86_64, "x86_64"), expected);
}

/// Goal: on aarch64, too, the operands that are told are those accessed.
#[test]
fn operands_of_aarch64_are_those_accessed() {
    let expected = Tally {
        samples: 650,
        telling: 522,
        missed_here: 0,
        behind: ToldCount { all: 437, wrong: 0 },
        here: ToldCount { all: 157, wrong: 0 },
        ahead: ToldCount { all: 1160, wrong: 52 },
    };
    assert_eq!(tally(Architecture::Aarch64, "aarch64"), expected);
}

/// Goal: going ahead or back over an instruction, every register that is held to be known has the
/// value that it had in the program.
#[test]
fn known_registers_have_their_values() {
    for (architecture, name) in
        [(Architecture::X86_64, "x86_64"), (Architecture::Aarch64, "aarch64")]
    {
        let mut set = InstructionSet::new(architecture);
        let (code, functions) = read(name);
        let mut updates = 0;
        for pair in functions.iter().flat_map(|steps| steps.windows(2)) {
            let [before, after] = [&pair[0].registers, &pair[1].registers];
            let bytes = &code.bytes[(before.pc - code.start) as usize..];
            let (place, effect) = set.decode(bytes, before.pc).unwrap();
            if place.transfer == ControlTransfer::Next {
                assert_eq!(place.end, after.pc);
            }
            let mut later = KnownRegisters::all(&before.general);
            later.run(&effect);
            assert_eq!(later.differences(&after.general), 0, "after {:x}", before.pc);
            let mut earlier = KnownRegisters::all(&after.general);
            earlier.undo(&effect);
            assert_eq!(earlier.differences(&before.general), 0, "before {:x}", after.pc);
            updates += usize::from(effect.update.is_some());
        }
        println!("{name}: {updates} results were computed");
        assert!(updates > 100);
    }
}
