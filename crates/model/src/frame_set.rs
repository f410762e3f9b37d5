//! A set of page frames: a bit for each frame of the machine.

/// A set of page frames by number. It takes an eighth of a byte for each frame that the machine can
/// have, independent of the number of members.
#[derive(Clone, Debug)]
pub struct FrameSet {
    words: Vec<u64>,
    end: u64,
    frames: u64,
}

impl FrameSet {
    /// Returns an empty set of frames below `end`.
    pub fn new(end: u64) -> Self {
        let words = usize::try_from(end.div_ceil(64)).unwrap_or(usize::MAX);
        Self { words: vec![0; words], end, frames: 0 }
    }

    /// Adds a frame. Returns whether it was new, or `None` if the machine cannot have it.
    pub fn insert(&mut self, frame: u64) -> Option<bool> {
        let (word, bit) = self.position(frame)?;
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.frames += u64::from(is_new);
        Some(is_new)
    }

    /// Removes a frame. Returns whether it was in the set.
    pub fn remove(&mut self, frame: u64) -> bool {
        let Some((word, bit)) = self.position(frame) else { return false };
        let was_there = self.words[word] & bit != 0;
        self.words[word] &= !bit;
        self.frames -= u64::from(was_there);
        was_there
    }

    /// Returns the number of frames in the set.
    pub fn len(&self) -> u64 {
        self.frames
    }

    /// Returns true if no frame is in the set.
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Returns the index of the word of a frame, and its bit in that word.
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
        assert!(set.remove(99) && !set.remove(99) && !set.remove(1));
        assert_eq!(set.len(), 1);
    }

    #[test]
    fn what_the_machine_cannot_have_is_refused() {
        let mut set = FrameSet::new(100);
        for frame in [100, 127, 128, u64::MAX] {
            assert_eq!(set.insert(frame), None, "{frame}");
            assert!(!set.remove(frame));
        }
        assert!(set.is_empty());
    }
}
