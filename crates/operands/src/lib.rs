//! Tells the addresses that a sampled thread accesses, from its registers and its code.
//!
//! A timer interrupts a thread and reports its registers. The instruction at the instruction
//! pointer has not run yet, so its operands have known addresses. The registers of the instructions
//! just before and just after are known as far as nothing in between changed them. A processor that
//! waits for a load takes the interrupt right behind it: the instruction *before* the pointer is
//! the most telling one.
//!
//! What is told of the instruction at the pointer is certain. Going back ends at a branch, and at a
//! place that a branch nearby leads to, as control may have come from there. Going ahead ends at a
//! forward branch; a branch back is taken to be taken, which is wrong when a loop ends. What memory
//! holds is never looked at, so an address that is loaded on the way is not known.
//!
//! All input is untrusted: any bytes and any registers give operands or none. Nothing here reads
//! memory itself, see [`CodeReader`].

#![forbid(unsafe_code)]

mod aarch64;
mod architecture;
mod block_cache;
mod code_block;
mod code_window;
mod decoder;
mod effect;
mod instruction_set;
mod interface;
mod known_registers;
mod x86;

#[cfg(test)]
mod code_at;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod traces;

pub use architecture::Architecture;
pub use decoder::OperandDecoder;
pub use interface::{CodeReader, Operand, Registers};
