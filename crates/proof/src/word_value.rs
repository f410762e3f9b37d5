//! The value of a word: its own index in the high bits, the number of writes of its page in the low
//! bits.

/// Counts take 24 bits and wrap around; 40 bits are left for the index (8 TiB).
const COUNT_BITS: u32 = 24;
pub const COUNT_MASK: u32 = (1 << COUNT_BITS) - 1;

/// Returns the value of a word after `turn` writes. Never zero, so that an empty page is detected.
pub fn value(word: usize, turn: u32) -> u64 {
    (word as u64 + 1) << COUNT_BITS | u64::from(turn & COUNT_MASK)
}

/// Returns the number of writes that a value holds.
pub fn write_count(value: u64) -> u32 {
    value as u32 & COUNT_MASK
}

/// Returns the word that a value belongs to; `None` if the high bits are zero.
pub fn owner(value: u64) -> Option<usize> {
    ((value >> COUNT_BITS) as usize).checked_sub(1)
}

/// Returns whether count `one` is before `other`, modulo the wrap-around. Counts that belong
/// together are never half a round apart; such counts are each before the other, so that they count
/// as wrong.
pub fn is_before(one: u32, other: u32) -> bool {
    one != other && (other.wrapping_sub(one) & COUNT_MASK) <= COUNT_MASK / 2 + 1
}
