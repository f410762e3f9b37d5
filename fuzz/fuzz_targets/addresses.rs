//! Lists of addresses: any bytes are read or refused, and text yields no more addresses than lines.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeward_samples::addresses;

fuzz_target!(|bytes: &[u8]| {
    let addresses = addresses::read(bytes).filter(Result::is_ok).count();
    let lines = bytes.split(|&byte| byte == b'\n').count();
    assert!(addresses <= lines.max(bytes.len() / 8));
});
