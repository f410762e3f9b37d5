//! Products that exceed 64 bits.

/// Returns `value * by / of`, computed in 128 bits and saturated.
pub fn mul_div(value: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
