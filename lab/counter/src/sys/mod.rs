//! The module where unsafe code is allowed: the emulator's plugin interface, C functions that are
//! found in the running program by name.

mod emulator;
mod hooks;
mod registers;
mod symbols;
