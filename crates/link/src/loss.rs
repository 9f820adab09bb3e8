//! Loss per packet.

use rand_chacha::rand_core::RngCore;

/// A number in `0.0..=1.0`.
#[derive(Debug, Default, Clone, Copy, PartialEq, PartialOrd)]
pub struct Probability(f64);

/// The number is no probability.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is no probability: it must lie between 0 and 1")]
pub struct ProbabilityError(f64);

impl Probability {
    /// Never.
    pub(crate) const NEVER: Self = Self(0.0);

    /// Checks the range.
    ///
    /// # Errors
    /// [`ProbabilityError`] outside `0.0..=1.0` and for not-a-number.
    pub fn new(value: f64) -> Result<Self, ProbabilityError> {
        if (0.0..=1.0).contains(&value) { Ok(Self(value)) } else { Err(ProbabilityError(value)) }
    }

    /// The plain number.
    pub const fn value(self) -> f64 {
        self.0
    }

    /// Throws the dice once. `NEVER` draws nothing, so that switching a fault
    /// off leaves the rest of a seed's trace alone.
    pub fn happens(self, random: &mut impl RngCore) -> bool {
        self.0 > 0.0 && unit(random) < self.0
    }
}

/// Uniform in `0.0..1.0`.
pub(crate) fn unit(random: &mut impl RngCore) -> f64 {
    // 53 bits are what a double holds exactly.
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Chance that a packet of `len` bytes is lost when on average one bit error
/// falls into every `bytes_per_error` bytes (the error model of the wireless
/// TCP experiments: one error per 64 KB and so on).
pub(crate) fn bit_error_loss(len: usize, bytes_per_error: f64) -> Probability {
    if bytes_per_error <= 0.0 {
        return Probability(1.0);
    }
    Probability(1.0 - (-(len as f64) / bytes_per_error).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    #[test]
    fn loss_comes_as_often_as_asked() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let third = Probability::new(0.3).unwrap();
        let lost = (0..100_000).filter(|_| third.happens(&mut random)).count();
        assert!((29_000..31_000).contains(&lost), "{lost}");
    }

    #[test]
    fn a_packet_as_long_as_the_error_distance_is_lost_by_two_thirds() {
        assert!((bit_error_loss(65_536, 65_536.0).value() - 0.632).abs() < 0.001);
        assert_eq!(bit_error_loss(1, 0.0).value(), 1.0);
    }

    #[test]
    fn numbers_that_are_no_probability_are_refused() {
        assert!(Probability::new(-0.1).is_err());
        assert!(Probability::new(f64::NAN).is_err());
    }
}
