//! A set of page frames: a bit for each frame of the machine.

/// Page frames by number. It takes an eighth of a byte for each frame that the machine can have,
/// however many are put in.
#[derive(Clone, Debug)]
pub struct FrameSet {
    words: Vec<u64>,
    end: u64,
    frames: u64,
}

impl FrameSet {
    /// An empty set of frames below `end`.
    pub fn new(end: u64) -> Self {
        let words = usize::try_from(end.div_ceil(64)).unwrap_or(usize::MAX);
        Self { words: vec![0; words], end, frames: 0 }
    }

    /// Adds a frame; whether it was new, or `None` if the machine cannot have it.
    pub fn insert(&mut self, frame: u64) -> Option<bool> {
        let (word, bit) = self.position(frame)?;
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.frames += u64::from(is_new);
        Some(is_new)
    }

    /// Takes a frame out; whether it was there.
    pub fn take(&mut self, frame: u64) -> bool {
        let Some((word, bit)) = self.position(frame) else { return false };
        let was_there = self.words[word] & bit != 0;
        self.words[word] &= !bit;
        self.frames -= u64::from(was_there);
        was_there
    }

    /// Frames in the set.
    pub fn len(&self) -> u64 {
        self.frames
    }

    /// Whether no frame is in the set.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// The word of a frame and the bit in it.
    fn position(&self, frame: u64) -> Option<(usize, u64)> {
        let word = usize::try_from(frame / 64).ok()?;
        (frame < self.end).then_some((word, 1 << (frame % 64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_there_once() {
        let mut set = FrameSet::new(100);
        assert_eq!(
            (set.insert(99), set.insert(99), set.insert(0)),
            (Some(true), Some(false), Some(true))
        );
        assert_eq!(set.len(), 2);
        assert!(set.take(99) && !set.take(99) && !set.take(1));
        assert_eq!(set.len(), 1);
    }

    #[test]
    fn what_the_machine_cannot_have_is_refused() {
        let mut set = FrameSet::new(100);
        for frame in [100, 127, 128, u64::MAX] {
            assert_eq!(set.insert(frame), None, "{frame}");
            assert!(!set.take(frame));
        }
        assert!(set.is_empty());
    }
}
