//! Calls of functions of the kernel in a program. aya leaves the calls of functions that the object
//! only declares; here they get the numbers of the functions in the kernel's BTF.

use aya_obj::Object;
use aya_obj::generated::{BPF_PSEUDO_KFUNC_CALL, bpf_insn};
use aya_obj::obj::ParseError;
use object::read::{Error, Object as _, ObjectSection as _, ObjectSymbol as _};
use object::{File, RelocationTarget, SectionIndex, SectionKind};

use crate::kernel_types::KernelTypes;

/// A program calls a function that the kernel does not have.
#[derive(Debug, PartialEq, Eq)]
pub struct MissingFunction {
    pub program: String,
    pub function: String,
}

/// Gives the calls of `parsed`, which was parsed from `bytes`, the numbers of this kernel's
/// functions. Returns what is missing.
///
/// # Errors
///
/// The object is not a valid one.
pub fn resolve(
    parsed: &mut Object,
    bytes: &[u8],
    types: &KernelTypes,
) -> Result<Vec<MissingFunction>, ParseError> {
    let file = File::parse(bytes).map_err(ParseError::ElfError)?;
    let calls = calls(&file).map_err(ParseError::ElfError)?;
    let numbers = types.functions(&calls.iter().map(|call| call.function).collect());
    let mut missing = Vec::new();
    for call in calls {
        let Some((program, instruction)) = instruction(parsed, &call) else { continue };
        match numbers.get(call.function) {
            Some(number) => set(instruction, *number),
            None => missing.push(MissingFunction { program, function: call.function.to_owned() }),
        }
    }
    Ok(missing)
}

/// A call of a function that the object declares and does not have.
struct DeclaredCall<'a> {
    section: SectionIndex,
    offset: u64,
    function: &'a str,
}

fn calls<'a>(file: &File<'a>) -> Result<Vec<DeclaredCall<'a>>, Error> {
    let mut calls = Vec::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(index) = relocation.target() else { continue };
            let symbol = file.symbol_by_index(index)?;
            if symbol.is_undefined() {
                calls.push(DeclaredCall {
                    section: section.index(),
                    offset,
                    function: symbol.name()?,
                });
            }
        }
    }
    Ok(calls)
}

/// Returns the instruction of a call, with the name of its program.
fn instruction<'a>(
    parsed: &'a mut Object,
    call: &DeclaredCall<'_>,
) -> Option<(String, &'a mut bpf_insn)> {
    let offset = usize::try_from(call.offset).ok()?;
    let mut functions = parsed.functions.values_mut();
    functions.find_map(|function| {
        let within = offset.checked_sub(function.section_offset)?;
        let instruction = function.instructions.get_mut(within / size_of::<bpf_insn>())?;
        (function.section_index == call.section).then(|| (function.name.clone(), instruction))
    })
}

fn set(call: &mut bpf_insn, number: u32) {
    call.set_src_reg(BPF_PSEUDO_KFUNC_CALL as u8);
    call.imm = number.cast_signed();
}

#[cfg(test)]
mod tests {
    use aya_obj::btf::{Btf, BtfType, Func, FuncLinkage};

    use super::*;

    const OBJECT: &[u8] = aya::include_bytes_aligned!("../objects/homes.o");
    const KNOWN: &str = "scx_bpf_create_dsq";

    /// The types of a kernel that has one function, with the number 1.
    fn kernel() -> KernelTypes {
        let mut types = Btf::new();
        let name = types.add_string(KNOWN);
        types.add_type(BtfType::Func(Func::new(name, 0, FuncLinkage::Static)));
        KernelTypes::parse(&types.to_bytes()).unwrap()
    }

    fn calls_of_kernel(parsed: &Object, program: &str) -> Vec<i32> {
        let function = &parsed.functions[&parsed.programs[program].function_key()];
        let by_number = |it: &&bpf_insn| it.code == 0x85 && u32::from(it.src_reg()) == 2;
        function.instructions.iter().filter(by_number).map(|it| it.imm).collect()
    }

    /// Goal: a call of a function that the kernel has gets its number; what the kernel lacks is
    /// named with the program that calls it, and stays as it was.
    #[test]
    fn calls_get_the_numbers_of_the_kernel() {
        let mut parsed = Object::parse(OBJECT).unwrap();
        let missing = resolve(&mut parsed, OBJECT, &kernel()).unwrap();
        assert_eq!(calls_of_kernel(&parsed, "homes_init"), [1]);
        assert_eq!(calls_of_kernel(&parsed, "homes_enqueue"), [0; 0]);
        let enqueue = MissingFunction {
            program: "homes_enqueue".to_owned(),
            function: "scx_bpf_dsq_insert_vtime".to_owned(),
        };
        assert!(missing.contains(&enqueue), "{missing:?}");
        assert!(missing.iter().all(|it| it.function != KNOWN), "{missing:?}");
    }
}
