//! Losses as the experiments of 1996 made them: a count of bytes runs down, and the packet in which it ends is lost, with those behind it
//! if errors come in runs.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Losses of one way of a hop.
#[derive(Debug, Clone)]
pub(crate) struct Errors {
    random: ChaCha8Rng,
    /// Mean bytes between errors; zero: none.
    mean: f64,
    /// Packets that an error takes.
    run: u32,
    left: f64,
    in_run: u32,
}

/// From which stream of which seed random numbers come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) seed: u64,
    pub(crate) number: u64,
}

impl Errors {
    pub(crate) fn new(mean: f64, run: u32, from: Stream) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(from.seed);
        random.set_stream(from.number);
        let mut errors = Self { random, mean, run, left: 0.0, in_run: 0 };
        errors.left = errors.draw();
        errors
    }

    fn draw(&mut self) -> f64 {
        // 53 bits are what a double holds exactly.
        let unit = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - unit).ln() * self.mean
    }

    /// Whether a packet of so many bytes is lost.
    pub(crate) fn lose(&mut self, len: usize) -> bool {
        if self.mean <= 0.0 {
            return false;
        }
        if self.in_run > 0 {
            self.in_run -= 1;
            return true;
        }
        self.left -= len as f64;
        if self.left >= 0.0 {
            return false;
        }
        self.in_run = self.run.saturating_sub(1);
        self.left = self.draw();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_come_as_often_as_bytes_go_by_and_in_runs() {
        let mut errors = Errors::new(65_536.0, 1, Stream { seed: 1, number: 0 });
        let lost = (0..100_000).filter(|_| errors.lose(1500)).count();
        // 1 - exp(-1500 / 65536) = 2.263 %, give or take four standard errors.
        assert!((2075..2455).contains(&lost), "{lost}");
        let mut errors = Errors::new(65_536.0, 6, Stream { seed: 1, number: 0 });
        let fates: Vec<bool> = (0..10_000).map(|_| errors.lose(1500)).collect();
        let runs: Vec<usize> = fates.split(|lost| !lost).map(<[bool]>::len).filter(|len| *len > 0).collect();
        assert!(runs.iter().all(|len| len % 6 == 0) && runs.len() > 50, "{runs:?}");
    }
}
