//! The output of perf script: any text is read or refused, and yields no more samples than lines.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeward_samples::perf_text;

fuzz_target!(|bytes: &[u8]| {
    let samples = perf_text::read(bytes).filter(Result::is_ok).count();
    assert!(samples <= bytes.split(|&byte| byte == b'\n').count());
});
