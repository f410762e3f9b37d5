//! Messages in transit from one thread to another.

use std::collections::VecDeque;

use crate::ids::SpaceId;

/// Buffers in transit from one thread to another.
#[derive(Clone, Debug, Default)]
pub struct StreamWindow {
    /// The process.
    pub space: SpaceId,
    /// Pages per buffer.
    pub buffer_pages: u32,
    /// Buffers that wait to be read: node index and count.
    pub unread: VecDeque<(usize, u64)>,
    /// Buffers that are filled or being filled, and not yet read.
    pub buffers_in_window: u64,
    /// Whether the window is full and the sender waits.
    pub is_full: bool,
}

impl StreamWindow {
    /// Returns its pages on a node that hold unread messages.
    pub fn pages_on(&self, node: usize) -> u64 {
        let here = self.unread.iter().filter(|&&(on, _)| on == node);
        here.map(|&(_, count)| count * u64::from(self.buffer_pages)).sum()
    }
}
