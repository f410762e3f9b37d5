//! How often a huge page is tried for where none could be had.

/// Most chunks of 2 MiB in a row for which no huge page is tried after one could not be had: a try
/// costs a fault, and where memory is fragmented the kernel may compact it first.
const PAUSE_CHUNKS_MAX: u32 = 64;

/// Chunks that go without a try for a huge page: 1, 2, 4 and so on, until one can be had.
#[derive(Debug, Default)]
pub struct HugePagePause {
    left: u32,
    last: u32,
}

impl HugePagePause {
    /// Returns whether the next chunk may try. Otherwise the pause gets shorter by a chunk.
    pub fn may_try(&mut self) -> bool {
        let is_over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_over
    }

    /// Records the outcome of a try.
    pub fn record(&mut self, had_one: bool) {
        self.last = if had_one { 0 } else { (self.last * 2).clamp(1, PAUSE_CHUNKS_MAX) };
        self.left = self.last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: where there is no huge page, few chunks try: after 1, 2, 4, 8, 16, 32 and then always
    /// 64 others. So of 1,000 chunks 6 + (1,000 - 6 - 63) / 65, that is 6 + 14 and the last begun.
    #[test]
    fn tries_get_rare() {
        let mut pause = HugePagePause::default();
        let tries = (0..1000).filter(|_| {
            let tries = pause.may_try();
            if tries {
                pause.record(false);
            }
            tries
        });
        assert_eq!(tries.count(), 6 + 14 + 1);
        pause.record(true);
        assert!(pause.may_try() && pause.may_try(), "one that can be had ends the pause");
    }
}
