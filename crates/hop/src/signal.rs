//! What the hop tells higher layers: they reset their timers by it instead of guessing.

/// News of the hop to one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Nothing was heard for the longest delay that a packet may have: packets are given up.
    Down,
    /// The other end is heard again.
    Up,
    /// The destination is about to be reached another way: silence now is no congestion.
    HandOffComing,
    /// So many frames were lost on the hop and go again.
    Lost(u32),
    /// So many packets were given up, after too many tries or too long a delay.
    GivenUp(u32),
}
