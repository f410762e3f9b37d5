//! A copy engine: channels that process parts in turn, without CPU time.

use std::collections::VecDeque;

use super::op::CopyPart;
use crate::hardware::ActiveFlow;
use crate::ids::TaskId;

/// The channels, and the parts that wait for one.
#[derive(Debug, Default)]
pub struct DmaEngine {
    /// The work of each channel, if it has any.
    pub channels: Vec<Option<DmaChannel>>,
    /// Parts that wait for a channel, each with its mover.
    pub queue: VecDeque<(TaskId, CopyPart)>,
}

/// The work of a busy channel.
#[derive(Debug)]
pub struct DmaChannel {
    /// The mover that waits for it.
    pub mover: TaskId,
    /// Rest of the part, without the copy in progress.
    pub part: CopyPart,
    /// Its reads and its writes.
    pub flows: [ActiveFlow; 2],
}

impl DmaEngine {
    /// Creates an engine with a number of channels.
    pub fn new(channels: usize) -> Self {
        Self { channels: (0..channels).map(|_| None).collect(), queue: VecDeque::new() }
    }
}
