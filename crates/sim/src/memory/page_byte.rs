//! The state of a page in one byte.

/// The state of a page in one byte: its node by index, and its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageByte(u8);

impl PageByte {
    /// An absent page.
    pub const ABSENT: Self = Self(0xff);
    const NODE: u8 = 0x3f;
    const LAZY: u8 = 0x40;
    const IN_FLIGHT: u8 = 0x80;

    /// Creates a page on a node, by index.
    pub fn on(node: usize) -> Self {
        Self(node as u8 & Self::NODE)
    }

    /// Returns the page marked to move to the node of the next access.
    pub fn lazy(self) -> Self {
        Self(self.0 | Self::LAZY)
    }

    /// Returns the page out of sight: a thread that touches it waits.
    pub fn in_flight(self) -> Self {
        Self(self.0 | Self::IN_FLIGHT)
    }

    /// Returns the page visible again.
    pub fn not_in_flight(self) -> Self {
        Self(self.0 & !Self::IN_FLIGHT)
    }

    /// Returns the index of its node, or `None` if it is absent.
    pub fn node(self) -> Option<usize> {
        (self != Self::ABSENT).then_some(usize::from(self.0 & Self::NODE))
    }

    /// Returns whether it is marked to move to the node of the next access.
    pub fn is_lazy(self) -> bool {
        self != Self::ABSENT && self.0 & Self::LAZY != 0
    }

    /// Returns whether it is out of sight.
    pub fn is_in_flight(self) -> bool {
        self != Self::ABSENT && self.0 & Self::IN_FLIGHT != 0
    }
}
