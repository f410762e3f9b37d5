//! Shuffled numbers that are the same in every run.

/// Returns every number below `count` once, in a scattered order: multiples of an odd constant from
/// the golden ratio, modulo a power of two.
pub fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    let size = count.next_power_of_two();
    (0..size)
        .map(move |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (size - 1))
        .filter(move |&n| n < count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_once() {
        let mut numbers: Vec<u64> = shuffled(1000).collect();
        assert!(numbers.windows(2).filter(|pair| pair[0] + 1 == pair[1]).count() < 10);
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    }
}
