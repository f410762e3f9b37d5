//! Bytes of /proc/PID/maps, smaps and status, and of memory.pressure: any are read or refused,
//! never a panic, and what was read of maps has an order.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use nodeward_linux::pressure;
use nodeward_linux::procfs::{maps, smaps, status};

fuzz_target!(|bytes: &[u8]| {
    let _ = smaps::page_sizes(bytes);
    let _ = status::parse(bytes);
    let _ =
        pressure::parse_stall_total(&String::from_utf8_lossy(bytes), Path::new("memory.pressure"));
    if let Ok(mappings) = maps::parse(bytes, Path::new("maps")) {
        assert!(mappings.iter().all(|mapping| !mapping.range.is_empty()));
        assert!(mappings.is_sorted_by(|before, next| before.range.end <= next.range.start));
    }
});
