//! What goes wrong around a pager: bad input, other users of the pages, forks, signals, programs
//! that change the memory that they gave away, and everything at once. Nothing is lost, nobody
//! waits for ever, and what is reported is so.

mod bad_input;
mod common;
mod forks;
mod holders;
mod huge;
mod ksm;
mod limits;
mod meddling;
mod pool;
mod remap;
mod signals;
mod torture;
