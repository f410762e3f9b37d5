//! Devices with the nodes that they are attached to.

use std::fmt::Write as _;

use nodeward_linux::device_nodes::FoundDevice;
use nodeward_model::NodeId;
use serde_json::{Value, json};

/// Formats devices, each with the nearest node with CPUs, as a table.
pub fn text(found: &[(Option<NodeId>, FoundDevice)]) -> String {
    if found.is_empty() {
        return "no device tells where it is attached\n".to_owned();
    }
    let mut text = format!("{:<30} {:>5} {:>5}\n", "DEVICE", "NODE", "NEAR");
    let shown = |node: Option<NodeId>| node.map_or_else(|| "-".to_owned(), |it| it.to_string());
    for (near, FoundDevice { device, node }) in found {
        let device = device.to_string();
        let _ = writeln!(text, "{device:<30} {:>5} {:>5}", shown(*node), shown(*near));
    }
    text + "near: the nearest node with CPUs; -: the firmware does not say\n"
}

/// Formats devices for programs.
pub fn json(found: &[(Option<NodeId>, FoundDevice)]) -> Value {
    let one = |(near, FoundDevice { device, node }): &(Option<NodeId>, FoundDevice)| {
        let device = device.to_string();
        json!({ "device": device, "node": node, "near": near })
    };
    let devices: Vec<Value> = found.iter().map(one).collect();
    json!({ "schema": "nodeward.devices/1", "devices": devices })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Vec<(Option<NodeId>, FoundDevice)> {
        let found = |name: &str, node| FoundDevice { device: name.parse().unwrap(), node };
        vec![
            (Some(NodeId(1)), found("netdev:eth0", Some(NodeId(1)))),
            (None, found("block:sda", None)),
            (Some(NodeId(0)), found("gpu:0", Some(NodeId(2)))),
        ]
    }

    #[test]
    fn devices_in_both_forms() {
        insta::assert_snapshot!(text(&example()));
        insta::assert_snapshot!(json(&example()).to_string());
        assert_eq!(text(&[]), "no device tells where it is attached\n");
    }
}
