//! Files that nodeward opens by name, and files that it makes: the one place for both.
//!
//! What is meant to be a file is opened as one: at a pipe one would wait for whoever is at its
//! other end, and a device may do something when it is opened. What is made gets a mode that is
//! said here, whatever the umask is.
//!
//! Where a pipe may be meant (samples, lists of addresses) nothing of this is used.

#![forbid(unsafe_code)]

mod kind;
mod make;
mod open;

pub use kind::{NotAFile, is_not_a_file};
pub use make::{For, create, create_new, make_directory, write};
pub use open::{open, open_or_make, read};
