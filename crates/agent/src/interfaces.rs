//! The interface files, as the agent returns them.

use serde_json::{Value, json};

use crate::errors::CallError;

/// Name and text of each interface.
pub const INTERFACES: [(&str, &str); 7] = [
    ("org.varlink.service", include_str!("interfaces/org.varlink.service.varlink")),
    ("io.nodeward.Agent", include_str!("interfaces/io.nodeward.Agent.varlink")),
    ("io.nodeward.Groups", include_str!("interfaces/io.nodeward.Groups.varlink")),
    ("io.nodeward.Metrics", include_str!("interfaces/io.nodeward.Metrics.varlink")),
    ("io.nodeward.Moves", include_str!("interfaces/io.nodeward.Moves.varlink")),
    ("io.nodeward.Placement", include_str!("interfaces/io.nodeward.Placement.varlink")),
    ("io.nodeward.Residency", include_str!("interfaces/io.nodeward.Residency.varlink")),
];

/// Returns the reply of org.varlink.service.GetInfo.
pub fn info() -> Value {
    json!({
        "vendor": "nodeward",
        "product": "nodeward",
        "version": env!("CARGO_PKG_VERSION"),
        "url": "",
        "interfaces": INTERFACES.map(|(name, _)| name),
    })
}

/// Returns the reply of org.varlink.service.GetInterfaceDescription.
pub fn description(interface: &str) -> Result<Value, CallError> {
    let found = INTERFACES.iter().find(|(name, _)| *name == interface);
    let missing = || CallError::InterfaceNotFound { interface: interface.to_owned() };
    found.map(|(_, text)| json!({ "description": text })).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use zlink_idl::Interface;

    use super::*;

    /// Goal: each file is the interface of its name, as another implementation of Varlink reads it.
    #[test]
    fn the_files_are_interfaces() {
        for (name, text) in INTERFACES {
            let read = Interface::try_from(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(read.name().to_string(), name);
            assert!(read.methods().count() > 0);
        }
    }
}
