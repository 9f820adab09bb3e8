//! Sequence numbers: 32 bits that wrap around (RFC 9293, 3.4).

use std::ops::{Add, AddAssign};

/// A byte's place in a stream, modulo 2^32.
///
/// Two of them can be compared only while they lie within 2^31 of each other, so there is no `Ord`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Seq(u32);

impl Seq {
    /// A place by its number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number as it is on the wire.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Whether this lies before another.
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether this lies after another.
    pub const fn after(self, other: Self) -> bool {
        other.before(self)
    }

    /// Bytes from an earlier place to this one; zero if it is not earlier.
    pub const fn since(self, earlier: Self) -> u32 {
        if self.before(earlier) { 0 } else { self.0.wrapping_sub(earlier.0) }
    }

    /// The later of two.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// The earlier of two.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.before(other) { self } else { other }
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    fn add(self, len: u32) -> Self {
        Self(self.0.wrapping_add(len))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, len: u32) {
        *self = *self + len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let (low, high) = (Seq::new(u32::MAX - 5), Seq::new(u32::MAX - 5) + 10);
        assert_eq!(high.number(), 4);
        assert!(low.before(high) && high.after(low) && !low.before(low));
        assert_eq!((high.since(low), low.since(high)), (10, 0));
        assert_eq!((low.max(high), low.min(high)), (high, low));
    }
}
