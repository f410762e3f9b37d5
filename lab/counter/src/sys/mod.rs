//! The module where unsafe code is allowed: the emulator's plugin interface, C functions that are
//! found in the running program by name.

mod hooks;
mod qemu_api;
mod registers;
mod symbols;
