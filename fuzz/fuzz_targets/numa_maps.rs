//! Bytes of /proc/PID/numa_maps, stat, status and sched of processes that are watched: any are
//! read or passed over, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeward_linux::procfs::{numa_maps, sched, stat, status};

fuzz_target!(|bytes: &[u8]| {
    stat::parse(bytes);
    stat::name(bytes);
    status::parse(bytes);
    sched::numa_activity(bytes);
    for policy in numa_maps::policies(bytes) {
        assert!(!policy.text.is_empty());
        policy.is_explicit();
    }
});
