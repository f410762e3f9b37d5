//! Figures as people read them in a few columns. What is not known is `?`, never 0.

use std::collections::BTreeMap;
use std::fmt::Display;

use nodeward_model::NodeId;
use nodeward_model::units::format_bytes;

/// What is not known.
pub const UNKNOWN: &str = "?";

/// Formats bytes.
pub fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| UNKNOWN.to_owned(), format_bytes)
}

/// Formats millionths of a CPU as percent of one, with a tenth where there is room.
pub fn percent(ppm: Option<u64>) -> String {
    match ppm {
        None => UNKNOWN.to_owned(),
        Some(ppm @ 10_000_000..) => (ppm / 10_000).to_string(),
        Some(ppm) => {
            let tenths = (ppm + 500) / 1_000;
            format!("{}.{}", tenths / 10, tenths % 10)
        }
    }
}

/// Formats how old something is that was seen at a time, if that is known.
pub fn age(now_ns: u64, at_ns: Option<u64>) -> String {
    let Some(at_ns) = at_ns else { return UNKNOWN.to_owned() };
    let s = now_ns.saturating_sub(at_ns) / 1_000_000_000;
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m", s / 60),
        _ => format!("{}h", s / 3_600),
    }
}

/// Formats values by node, such as `0:3 1:1`; of none nothing is known.
pub fn by_node<T: Display>(values: impl Iterator<Item = (NodeId, T)>) -> String {
    let words: Vec<_> = values.map(|(node, value)| format!("{node}:{value}")).collect();
    if words.is_empty() { UNKNOWN.to_owned() } else { words.join(" ") }
}

/// Formats the part of some threads that is astray, such as `1/4`; `-` where there is no home.
pub fn astray(astray: Option<u32>, threads: &BTreeMap<NodeId, u32>) -> String {
    let all: u32 = threads.values().sum();
    astray.map_or_else(|| "-".to_owned(), |astray| format!("{astray}/{all}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: figures fit their columns, and what is not known is told from what is 0.
    #[test]
    fn figures_in_few_columns() {
        assert_eq!((percent(None), percent(Some(0))), ("?".into(), "0.0".into()));
        assert_eq!(
            (percent(Some(998_500)), percent(Some(12_800_000))),
            ("99.9".into(), "1280".into())
        );
        assert_eq!((bytes(None), bytes(Some(0))), ("?".into(), "0 B".into()));
        let s = 1_000_000_000;
        assert_eq!([0, 59, 60, 7_200].map(|at| age(at * s, Some(0))), ["0s", "59s", "1m", "2h"]);
        assert_eq!((age(5, Some(9)), age(5, None)), ("0s".into(), "?".into()));
        let threads = [(NodeId(0), 3), (NodeId(2), 1)];
        assert_eq!(by_node(threads.into_iter()), "0:3 2:1");
        assert_eq!(by_node([].into_iter().map(|node: NodeId| (node, 1))), "?");
        let threads = threads.into();
        assert_eq!((astray(Some(1), &threads), astray(None, &threads)), ("1/4".into(), "-".into()));
    }
}
