//! Placement files: any bytes are read or refused, never a panic. What was read is in order, and is
//! the same after it was written and read again.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use nodeward_records::placement::{SavedPlacement, SavedRun};

fn parse(bytes: &[u8]) -> Option<SavedPlacement> {
    match SavedPlacement::parse(bytes, Path::new("p")) {
        Ok(found) => Some(found),
        Err(error) => {
            assert!(!error.to_string().contains('\n'));
            None
        }
    }
}

fn is_in_order(runs: &[SavedRun]) -> bool {
    runs.windows(2).all(|pair| pair[0].range().end <= pair[1].at)
        && runs.iter().all(|run| run.bytes > 0 && run.range().bytes() == run.bytes)
}

fuzz_target!(|bytes: &[u8]| {
    let Some(found) = parse(bytes) else { return };
    let mappings = found.processes.iter().flat_map(|process| &process.mappings);
    for mapping in mappings {
        assert!(is_in_order(&mapping.runs));
        assert!(mapping.segment.is_none_or(|index| index < found.segments.len()));
    }
    assert!(found.segments.iter().all(|runs| is_in_order(runs)));
    let text = serde_json::to_vec(&found).unwrap();
    assert_eq!(parse(&text), Some(found));
});
