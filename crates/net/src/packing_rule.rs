//! When frames are packed: where the path is slower than packing.
//!
//! Packing and unpacking take some 2 us for an image, 20 us for 2 KB of text, 100 us for a hundred images. On a local
//! network that is a good part of a round trip, and the bytes saved are worth less. On a line of 1 Mb/s, the bytes
//! saved of one image are worth 500 us. Between the two, it does not matter much: the rule need not be precise, but
//! cheap, and certain at both extremes.
//!
//! **Round trip.** The smoothed round-trip time decides in most cases, since it shows distance and thinness alike: on
//! a thin line each packet takes its time, and the first ones, those of the handshake, are full ones: two of them are
//! 340 ms at 56 kb/s, 6 ms at 3 Mb/s. The shortest round trip would not do: it is that of a small packet on an empty
//! line. Paths between 3 and 5 ms stay as they are, so that a path at the limit does not change its mind with each
//! packet.
//!
//! **Rate.** A thin and near line answers quickly again as soon as it is calm. Therefore it counts, too, what it
//! delivered when it was full the last time (`delivery.rs` remembers for some 10 s). A full line that delivers more
//! than 50 Mb/s is left alone.
//!
//! A wrong choice costs little: a local network that stumbles once packs a few frames.

use crate::path_state::PathState;
use std::time::Duration;

/// From this round trip on frames are packed: what packing a usual frame takes does not show in it any more.
const RTT_SLOW: Duration = Duration::from_millis(5);
/// Below this round trip frames are plain again.
const RTT_FAST: Duration = Duration::from_millis(3);
/// Bytes per second of a full line up to which frames are packed: 50 Mb/s. One core packs program text at about 100
/// MB/s, so packing is never what holds up such a line.
const RATE_SLOW: u64 = 6_250_000;
/// Which frames this side packs. What comes in is understood in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FramePacking {
    /// Those that go over a slow path. The default.
    #[default]
    ByPath,
    /// All but the shortest: for comparisons, and tests.
    Always,
    /// None: where lengths must tell nothing (`docs/decisions/0012-packed-frames.md`).
    Never,
}

/// How a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Packed,
}

/// A path as it looks at the moment.
#[derive(Debug, Clone, Copy)]
struct Path {
    /// Smoothed round-trip time.
    rtt: Duration,
    /// Bytes per second delivered while it was full; `None` if it was not full lately.
    rate_when_full: Option<u64>,
}

/// Chooses for one connection.
#[derive(Debug)]
pub(crate) struct PackingRule {
    packing: FramePacking,
    last: Form,
}

impl PackingRule {
    pub(crate) const fn new(packing: FramePacking) -> Self {
        Self { packing, last: Form::Plain }
    }

    /// The form of what is sent next.
    pub(crate) fn choose(&mut self, quic: &quinn::Connection, path: &PathState) -> Form {
        match self.packing {
            FramePacking::Always => Form::Packed,
            FramePacking::Never => Form::Plain,
            FramePacking::ByPath => {
                let rate_when_full = path.view().rate_when_full;
                self.last = choose(self.last, Path { rtt: quic.rtt(), rate_when_full });
                self.last
            }
        }
    }
}

fn choose(last: Form, path: Path) -> Form {
    let rtt_limit = match last {
        Form::Plain => RTT_SLOW,
        Form::Packed => RTT_FAST,
    };
    if path.rtt >= rtt_limit || path.rate_when_full.is_some_and(|rate| rate < RATE_SLOW) {
        Form::Packed
    } else {
        Form::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(rtt_micros: u64, rate_when_full: Option<u64>) -> Path {
        Path { rtt: Duration::from_micros(rtt_micros), rate_when_full }
    }

    #[test]
    fn a_local_network_stays_plain() {
        for near in [path(100, None), path(900, Some(100_000_000)), path(2900, Some(RATE_SLOW))] {
            assert_eq!(choose(Form::Plain, near), Form::Plain, "{near:?}");
            assert_eq!(choose(Form::Packed, near), Form::Plain, "{near:?}");
        }
    }

    #[test]
    fn far_and_thin_paths_are_packed() {
        let modem = path(400, Some(7000));
        for slow in [path(5000, None), path(80_000, Some(100_000_000)), path(340_000, None), modem] {
            assert_eq!(choose(Form::Plain, slow), Form::Packed, "{slow:?}");
            assert_eq!(choose(Form::Packed, slow), Form::Packed, "{slow:?}");
        }
    }

    #[test]
    fn a_path_between_stays_as_it_is() {
        for form in [Form::Plain, Form::Packed] {
            assert_eq!(choose(form, path(4000, None)), form);
        }
    }
}
