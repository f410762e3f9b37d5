//! Opens and makes the files that nodeward accesses by name: the one place for both.
//!
//! A file that must be regular is checked: opening a pipe would wait for a process at its other
//! end, and opening a device may have side effects. New files get a mode that is given here,
//! whatever the umask is.
//!
//! Inputs that may be a pipe (samples, lists of addresses) do not use this crate.

#![forbid(unsafe_code)]

mod file_kind;
mod make;
mod open;

pub use file_kind::{NotRegularFile, is_not_regular_file};
pub use make::{Visibility, check_place, create, create_new, make_directory, replace, write};
pub use open::{open, open_or_create, read};
