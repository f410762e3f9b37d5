//! The room where unsafe code is allowed: the emulator's interface for plugins, which is one of C
//! functions found in the running program by their names.

mod emulator;
mod hooks;
mod registers;
mod symbols;
