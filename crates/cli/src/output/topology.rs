//! A machine as text and as JSON.
//!
//! The text begins with the lines that `numactl -H` prints, byte for byte, because scripts read
//! them; information that numactl lacks follows.

mod charset;
mod heat;
mod numactl;
mod summary;

use nodeward_model::Topology;
use serde::Serialize;

pub use charset::Charset;

/// The name and version of the JSON document.
pub const SCHEMA: &str = "nodeward.topology/1";

/// Formats everything about a machine, for people.
pub fn text(topology: &Topology, charset: Charset) -> String {
    let parts =
        [numactl::hardware(topology), summary::machine(topology), heat::map(topology, charset)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Formats the lines of `numactl -H` and nothing else.
pub fn hardware(topology: &Topology) -> String {
    numactl::hardware(topology)
}

/// Formats a machine as one line of JSON. Sizes are in bytes, and unknown values are null.
pub fn json(topology: &Topology) -> String {
    #[derive(Serialize)]
    struct TopologyDocument<'a> {
        schema: &'static str,
        #[serde(flatten)]
        topology: &'a Topology,
    }
    let document = TopologyDocument { schema: SCHEMA, topology };
    // There are only integers, strings and lists, so this cannot fail.
    serde_json::to_string(&document).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests;
