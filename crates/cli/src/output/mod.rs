//! Results as text, as JSON and as pictures. They go to standard output, or into a file that the
//! user named.

mod account;
pub mod balance;
pub mod bench;
mod collapse;
pub mod config;
pub mod devices;
pub mod doctor;
pub mod evacuation;
pub mod explain;
pub mod files;
pub mod group;
pub mod hot;
pub mod ledger;
pub mod moves;
mod paragraph;
pub mod pcp;
pub mod placement;
mod plot;
pub mod ranking;
pub mod report;
pub mod reproduce;
pub mod residency;
mod result_file;
pub mod shared_memory;
pub mod sim;
pub mod simulated;
pub mod spread;
pub mod swarm;
pub mod top;
pub mod topology;
pub mod watch;
pub mod watch_trace;

use nodeward_model::Name;
use serde_json::{Value, json};

pub use crate::message::stdout::{print, print_outcome};
pub use result_file::{check_result, write_result};

/// Adds a name, or a path, to an object: as text, and as bytes too if it is not UTF-8.
fn put_name(object: &mut Value, key: &str, name: &Name) {
    object[key] = json!(name);
    if !name.is_text() {
        object[format!("{key}_bytes")] = json!(name.as_bytes());
    }
}
