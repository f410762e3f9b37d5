//! Counts by page and node: what is read of a text prints and reads back, and a source of accesses
//! of any format is read or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeward_model::{Access, Accessor};
use nodeward_samples::{SampleFormat, counts, source};

fuzz_target!(|bytes: &[u8]| {
    let read: Vec<Access> = counts::read(bytes).map_while(Result::ok).collect();
    let line = |access: &Access| match access.accessor {
        Accessor::Node(node) => format!("{:x} {node} {}\n", access.address, access.count),
        by => panic!("{by:?} is no node"),
    };
    let text: String = read.iter().map(line).collect();
    let again: Vec<Access> = counts::read(text.as_bytes()).map(Result::unwrap).collect();
    assert_eq!(again, read);
    match source::detect(bytes) {
        Ok(SampleFormat::Counts(counts)) => drop(counts.last()),
        Ok(SampleFormat::PerfText(samples)) => drop(samples.last()),
        Ok(SampleFormat::PerfData(samples)) => drop(samples.last()),
        Err(_) => {}
    }
});
