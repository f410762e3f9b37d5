//! Texts of /proc/PID/numa_maps, stat and status of processes that are watched: any of them is read
//! or passed over, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeward_linux::procfs::{numa_maps, stat, status};

fuzz_target!(|bytes: &[u8]| {
    stat::parse_bytes(bytes);
    stat::name(bytes);
    let text = String::from_utf8_lossy(bytes);
    status::parse(&text);
    for policy in numa_maps::policies(&text) {
        assert!(!policy.text.is_empty() && text.contains(policy.text));
        policy.binds();
    }
});
