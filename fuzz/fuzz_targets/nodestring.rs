//! Node strings: whatever is accepted names allowed nodes only.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeward_model::nodestring::{NodestringContext, parse_nodestring};
use nodeward_model::{NodeId, Nodemask};

fuzz_target!(|text: &str| {
    let allowed: Nodemask = [0, 1, 4, 5].map(NodeId).into_iter().collect();
    let existing: Nodemask = (0..6).map(NodeId).collect();
    let context =
        NodestringContext { existing, allowed: allowed.clone(), highest_possible: NodeId(63) };
    if let Ok(nodes) = parse_nodestring(text, &context) {
        assert!(nodes.is_subset(&allowed));
    }
});
