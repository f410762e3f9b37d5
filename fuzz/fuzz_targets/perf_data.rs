//! perf.data: any bytes are read or refused. A sample takes 8 bytes at least.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeward_samples::perf_data;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(samples) = perf_data::read(bytes) {
        assert!(samples.filter(Result::is_ok).count() <= bytes.len() / 8);
    }
});
