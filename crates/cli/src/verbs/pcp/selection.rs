//! The lists that a command line selects.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use nodeward_model::{Escape as _, ZoneLists};

use crate::args::ListSelectionArgs;

/// Leaves only the selected lists.
///
/// # Errors
/// If there are none, with what there is.
pub fn select(zones: &mut Vec<ZoneLists>, args: &ListSelectionArgs) -> Result<()> {
    let known: BTreeSet<_> = zones.iter().map(|zone| (zone.node, zone.zone.clone())).collect();
    zones.retain(|zone| {
        let is_node = args.node.is_none_or(|node| node == zone.node);
        is_node && args.zone.as_ref().is_none_or(|name| zone.zone.eq_ignore_ascii_case(name))
    });
    if !zones.is_empty() {
        return Ok(());
    }
    let known: Vec<_> = known.iter().map(|(node, zone)| format!("{node} {zone}")).collect();
    let node = args.node.map(|node| format!(" of node {node}")).unwrap_or_default();
    let zone = args.zone.as_deref().map(|zone| format!(" of zone '{}'", zone.escaped()));
    bail!(
        "there are no page lists{node}{}; there are (node and zone): {}",
        zone.unwrap_or_default(),
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use nodeward_model::NodeId;

    use super::*;
    use crate::results::test_lists::{list, zone};

    fn zones() -> Vec<ZoneLists> {
        let lists = || vec![list(0, 1, 378)];
        vec![zone(0, "DMA32", lists()), zone(0, "Normal", lists()), zone(1, "Normal", lists())]
    }

    fn selected(node: Option<u32>, name: Option<&str>) -> Result<usize, String> {
        let mut zones = zones();
        let args = ListSelectionArgs { node: node.map(NodeId), zone: name.map(str::to_owned) };
        select(&mut zones, &args).map_err(|error| error.to_string())?;
        Ok(zones.len())
    }

    /// Goal: node and zone narrow each other down; a zone is known in any case.
    #[test]
    fn lists_are_selected() {
        assert_eq!(selected(None, None), Ok(3));
        assert_eq!(selected(Some(0), None), Ok(2));
        assert_eq!(selected(None, Some("normal")), Ok(2));
        assert_eq!(selected(Some(1), Some("Normal")), Ok(1));
    }

    /// Goal: who asks for what is not there hears what there is; a typed name is escaped.
    #[test]
    fn what_is_not_there_is_told() {
        let told = selected(Some(7), Some("\x1b[2J")).unwrap_err();
        assert_eq!(
            told,
            "there are no page lists of node 7 of zone '\\x1b[2J'; there are (node and zone): \
             0 DMA32, 0 Normal, 1 Normal"
        );
    }
}
