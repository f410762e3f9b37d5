//! The agent: moves of memory, residency and placement, over a Unix socket, for those who may.
//!
//! The protocol is Varlink: JSON objects with a zero byte behind each. `interfaces` has what can be
//! asked, as files that the agent also hands out.
//!
//! ```text
//! agent       starts all of it, and ends it
//! server      one thread that serves all connections, without ever waiting for one of them
//! service     what each request does: at once, in a lane (a few threads for what takes long), or
//!             as a move with a thread of its own
//! moves, looks, placement, groups
//!             the interfaces
//! gate        takes hold of a process that a caller names, if the caller may touch it
//! authority   the rule by which that is decided; pure
//! caller      who asks, as the kernel says
//! connection  bytes of one connection, within bounds
//! request     what was asked, checked as far as that needs no machine
//! hooks       what the program around it does for it
//! homes       homes, from and to the types of the protocol
//! reply       replies as they are sent
//! wire, errors, interfaces
//!             types of the protocol
//! metrics     what was done, as Prometheus reads it
//! request_counts
//!             how many requests came
//! client      the other end, for the command
//! exporter    hands out metrics over HTTP, in a process of its own
//! socket      makes the socket
//! ```
//!
//! A module uses only those below it. Whatever a client sends is untrusted; `limits` has every
//! bound.

#![forbid(unsafe_code)]

mod agent;
pub mod authority;
mod caller;
pub mod client;
mod connection;
mod errors;
pub mod exporter;
mod gate;
mod groups;
mod homes;
mod hooks;
mod interfaces;
mod lane;
pub mod limits;
mod looks;
pub mod metrics;
mod move_work;
mod moves;
mod placement;
mod reply;
mod request;
mod request_counts;
mod server;
mod service;
pub mod socket;
pub mod wire;

pub use agent::{Agent, AgentOptions};
pub use connection::MessageBuffer;
pub use errors::{CallError, FailureKind};
pub use hooks::{Explained, Explainer, Journal, JournalRequest};
pub use interfaces::INTERFACES;
pub use request::{Call, ClientRequest};
