//! Conditions of promises on the host: some ratios hold only where memcpy(3) is no faster than on
//! the machine where they were measured.

use std::hint::black_box;
use std::time::Instant;

use serde_json::Number;

use super::bound::Bound;

/// Unit of memcpy's rate and of its limits.
pub const UNIT: &str = "GB/s";
/// More than caches hold.
const BYTES: usize = 256 << 20;
const COPIES: u32 = 8;

/// Returns the fastest of some copies by one thread, in GB/s; the first copy touches the pages.
pub fn memcpy() -> f64 {
    let (from, mut to) = (vec![1u8; BYTES], vec![2u8; BYTES]);
    let copies = (0..COPIES).map(|_| {
        let began = Instant::now();
        to.copy_from_slice(black_box(&from));
        black_box(&to);
        BYTES as f64 / began.elapsed().as_secs_f64() / 1e9
    });
    let fastest = copies.fold(0.0, f64::max);
    (fastest * 10.0).round() / 10.0
}

/// Returns why a promise that is limited to some hosts does not apply to this one, if so.
pub fn not_promised_reason(limit: &Bound, memcpy: f64) -> Option<String> {
    let inside = Number::from_f64(memcpy).is_some_and(|number| limit.holds(&number));
    (!inside).then(|| format!("memcpy does {memcpy} {UNIT} here, promised where {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_inside_or_it_is_said_why_not() {
        let limit = Bound::parse("< 10 GB/s").unwrap();
        assert_eq!(not_promised_reason(&limit, 6.5), None);
        let why = "memcpy does 18.1 GB/s here, promised where < 10 GB/s";
        assert_eq!(not_promised_reason(&limit, 18.1), Some(why.to_owned()));
    }

    #[test]
    fn a_copy_takes_some_time() {
        assert!(memcpy() > 0.0 && memcpy().is_finite());
    }
}
