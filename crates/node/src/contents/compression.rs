//! How hard contents are packed, by what is known of the path.
//!
//! A byte on a line of 1 Mb/s takes 8 us, and the packer has looked at a byte in 0.01 to 0.2 us, as hard as it tries. On
//! a local network it is the other way round. `docs/packing.md` has what was measured.
//!
//! What a path delivers is known only when it was full lately. Until then distance must do: a small chunk is packed
//! hard, since that is over before the line could notice, and a large one nearly as quickly as ever, since a far line
//! may be a fast one, too. Once the rate is known, packing takes a fifth to a half of the time that it saves on the line at
//! the upper limit of each step, and less below.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wayfs_net::Connection;

/// A neighbour with a shorter round trip is in the same room and on a wire, which carries more than compression does;
/// wireless and wide-area paths take longer.
const RTT_NEAR: Duration = Duration::from_millis(1);
/// From this round trip on a path is far.
const RTT_FAR: Duration = Duration::from_millis(5);
/// Bytes per second below which a path is moderate: 20 Mb/s. A difference at level 3 saves 950 bytes of a source file, 0.4 ms
/// of such a line, and takes 0.2 ms.
const RATE_MODERATE: u64 = 2_500_000;
/// Bytes per second below which a path is thin: 5 Mb/s. A difference at level 9 saves 1,190 bytes of a source file, 1.9 ms of such
/// a line, and takes 0.4 ms.
const RATE_THIN: u64 = 625_000;
/// Bytes per second below which every byte counts: 128 kb/s. Level 19 instead of 9 saves 144 bytes of a source file with its
/// bases, 9 ms of such a line, and takes 4 ms more.
const RATE_VERY_THIN: u64 = 16_000;
/// How often the rate is asked for at most.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// The level for paths that are faster than packing: 300 MB/s and more on one core.
pub(crate) const LEVEL_QUICK: i32 = 1;
/// Longest that is packed at level 9 before anything is known of the rate: 2 ms on one core.
const LEN_HARD_FAR: usize = 128 << 10;
/// Longest that is packed at level 9 for a thin path: 4 ms.
const LEN_HARD_THIN: usize = 256 << 10;
/// Longest that is packed at level 19: 30 ms.
const LEN_HARD_VERY_THIN: usize = 128 << 10;

/// How contents are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ContentPacking {
    /// As the path is worth it. The default.
    #[default]
    ByPath,
    /// As over a far path, with differences: for comparisons, and tests.
    AsFar,
    /// As over a fast path, without differences: where lengths must tell as little as possible
    /// (`docs/decisions/0013-contents-as-differences.md`).
    AsFast,
}

/// A path, by what packing is worth on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// In the same room.
    Near,
    /// Faster than packing, as far as is known.
    Fast,
    /// Not as fast as packing, but nearly.
    Moderate,
    /// Far away, and nothing else is known.
    Far,
    /// Slower than packing.
    Thin,
    /// So slow that every byte counts.
    VeryThin,
}

impl Path {
    fn of(rtt: Duration, rate_when_full: Option<u64>) -> Self {
        match rate_when_full {
            Some(rate) if rate < RATE_VERY_THIN => Self::VeryThin,
            Some(rate) if rate < RATE_THIN => Self::Thin,
            Some(rate) if rate < RATE_MODERATE => Self::Moderate,
            Some(_) if rtt >= RTT_NEAR => Self::Fast,
            None if rtt >= RTT_FAR => Self::Far,
            None if rtt >= RTT_NEAR => Self::Fast,
            Some(_) | None => Self::Near,
        }
    }

    /// Whether chunks are worth being sent as differences.
    pub(crate) const fn is_slow(self) -> bool {
        match self {
            Self::Near | Self::Fast => false,
            Self::Moderate | Self::Far | Self::Thin | Self::VeryThin => true,
        }
    }

    /// The level of zstd for so many bytes.
    pub(crate) const fn level(self, len: usize) -> i32 {
        match self {
            Self::Near | Self::Fast => LEVEL_QUICK,
            Self::Far if len <= LEN_HARD_FAR => 9,
            Self::Moderate | Self::Far => 3,
            Self::Thin if len <= LEN_HARD_THIN => 9,
            Self::Thin => 6,
            Self::VeryThin if len <= LEN_HARD_VERY_THIN => 19,
            Self::VeryThin => 15,
        }
    }

    /// The level for the difference to others, so many bytes together. Level 1 makes a third of a chunk of 1 MiB of which ten words were
    /// changed, level 6 sometimes an eighth, if it is noise; level 3 some 500 to 1000 bytes, level 9 some 200.
    pub(crate) const fn level_of_difference(self, len: usize) -> i32 {
        match self {
            Self::Near | Self::Fast | Self::Moderate => 3,
            Self::Thin => 9,
            Self::Far | Self::VeryThin => self.level(len),
        }
    }
}

/// Looks at the path of one session.
#[derive(Debug, Default)]
pub(crate) struct PathLook {
    /// A leaf in the order of locks.
    rate: Mutex<Option<(Instant, Option<u64>)>>,
}

impl PathLook {
    /// The path as it looks at the moment.
    pub(crate) fn look(&self, connection: &Connection, packing: ContentPacking) -> Path {
        match packing {
            ContentPacking::ByPath => Path::of(connection.rtt(), self.rate_when_full(connection)),
            ContentPacking::AsFar => Path::Far,
            ContentPacking::AsFast if connection.rtt() < RTT_NEAR => Path::Near,
            ContentPacking::AsFast => Path::Fast,
        }
    }

    fn rate_when_full(&self, connection: &Connection) -> Option<u64> {
        let mut known = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match *known {
            Some((at, rate)) if now.saturating_duration_since(at) < RATE_PERIOD => rate,
            Some(_) | None => {
                let rate = connection.rate_when_full();
                *known = Some((now, rate));
                rate
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(rtt_micros: u64, rate: Option<u64>) -> Path {
        Path::of(Duration::from_micros(rtt_micros), rate)
    }

    #[test]
    fn a_local_network_is_not_slow() {
        for near in [path(100, None), path(900, Some(100_000_000)), path(4900, None), path(2000, Some(RATE_MODERATE))] {
            assert!(!near.is_slow(), "{near:?}");
            assert_eq!(near.level(10_000), LEVEL_QUICK);
        }
        assert_eq!(path(900, None), Path::Near);
        assert_eq!(path(1100, None), Path::Fast);
    }

    #[test]
    fn distance_counts_until_the_rate_is_known() {
        assert_eq!(path(80_000, None), Path::Far);
        assert_eq!(path(80_000, Some(RATE_MODERATE)), Path::Fast);
        assert_eq!(path(80_000, Some(RATE_THIN)), Path::Moderate);
        assert_eq!(path(80_000, Some(RATE_THIN - 1)), Path::Thin);
        assert_eq!(path(400, Some(7000)), Path::VeryThin);
    }

    #[test]
    fn the_thinner_the_harder_and_the_longer_the_quicker() {
        for len in [1000, 100_000, 200_000, 1 << 20] {
            let levels =
                [Path::Fast, Path::Moderate, Path::Far, Path::Thin, Path::VeryThin].map(|path| path.level(len));
            assert!(levels.is_sorted(), "{len}: {levels:?}");
        }
        for path in [Path::Fast, Path::Moderate, Path::Far, Path::Thin, Path::VeryThin] {
            assert!(path.level(1 << 20) <= path.level(1000), "{path:?}");
        }
    }
}
