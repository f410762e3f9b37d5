//! Records in a ring of perf: any words are read, and each takes one at least.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeward_linux::access::records::{RingRecord, records};

fuzz_target!(|bytes: &[u8]| {
    let words: Vec<u64> =
        bytes.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect();
    let found: Vec<_> = records(&words, 16).collect();
    assert!(found.len() <= words.len());
    for record in found {
        if let RingRecord::Sample(sample) = record {
            assert!(matches!(sample.registers.len(), 0 | 16));
        }
    }
});
