//! Named lines with their sources.
//!
//! The wide-area scenarios are those of the Fluid Replication evaluation (thesis,
//! section 5.3): latency added one way, bandwidth each way. The others are the
//! hops of the papers on wireless links, and lines as people have them.

use crate::{BadPeriods, Capacity, DirectionConfig, Duplex, LineConfig, Probability, ReceiverConfig, WhenFull};
use std::time::Duration;

/// A line with a name and a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// Name, as the command line takes it.
    pub name: &'static str,
    /// One-way delay in microseconds.
    pub delay_us: u64,
    /// Uniform jitter on top, in microseconds.
    pub jitter_us: u64,
    /// Bits per second from the first end to the second; zero is unlimited.
    pub up_bits_per_second: u64,
    /// Bits per second from the second end to the first; zero is unlimited.
    pub down_bits_per_second: u64,
    /// Bytes that may wait for each way.
    pub queue_len_max: u64,
    /// Loss per packet, in millionths.
    pub loss_ppm: u32,
    /// Mean bytes between bit errors; zero is none.
    pub bytes_per_bit_error: u64,
    /// Mean milliseconds of good and of bad periods, uniform; a zero bad mean is none.
    pub periods_ms: (u64, u64),
    /// Whether they are those of the driver of 1995 ([`BadPeriods::at_driver`]): multiples of 20 ms, judged when the driver is called.
    pub at_driver: bool,
    /// Receive buffer of the first end in packets, and microseconds that it takes for each; zero packets: none.
    pub receiver: (usize, u64),
    /// Who may talk at a time.
    pub duplex: Duplex,
    /// Where the numbers come from.
    pub source: &'static str,
}

const THESIS: &str =
    "Fluid Replication thesis, 5.3: latency added one way, bandwidth each way; queue 64 KiB (not published)";
const NFS_WIRELESS: &str = "NFS over wireless links, 1995 and 1996: 1 Mb/s, good periods of 1000 ms, uniform";
const NFS_DRIVER: &str = "NFS over wireless links, 1995 and 1996, as their driver did it: periods multiples of 20 ms, fate decided when the mobile's driver is called";
const DISTANCE: &str = "TCP over wireless links, 1996, packet errors by distance: a straight line from 0.1 % at 50 feet to 10 % at 150 over the figure's axes; its points are not in the text";
const TCP_WIRELESS: &str = "TCP over wireless links, 1996: 2 Mb/s shared by both directions, one bit error per 64 KB";

/// Queue of the profiles whose source names none: half a second at 1 Mb/s, 50 ms at 10 Mb/s.
const QUEUE_LEN: u64 = 64 * 1024;

const PLAIN: Profile = Profile {
    name: "perfect",
    delay_us: 0,
    jitter_us: 0,
    up_bits_per_second: 0,
    down_bits_per_second: 0,
    queue_len_max: 1 << 20,
    loss_ppm: 0,
    bytes_per_bit_error: 0,
    periods_ms: (0, 0),
    at_driver: false,
    receiver: (0, 0),
    duplex: Duplex::Full,
    source: "no limit of its own",
};

/// What both directions have.
struct Both {
    delay_us: u64,
    bits_per_second: u64,
}

const fn both(name: &'static str, both: Both, source: &'static str) -> Profile {
    Profile {
        name,
        delay_us: both.delay_us,
        up_bits_per_second: both.bits_per_second,
        down_bits_per_second: both.bits_per_second,
        queue_len_max: QUEUE_LEN,
        source,
        ..PLAIN
    }
}

const fn scenario(name: &'static str, both_ways: Both) -> Profile {
    both(name, both_ways, THESIS)
}

const fn nfs_wireless(name: &'static str, bad_ms: u64) -> Profile {
    Profile {
        periods_ms: (1000, bad_ms),
        duplex: Duplex::Half,
        ..both(name, Both { delay_us: 0, bits_per_second: 1_000_000 }, NFS_WIRELESS)
    }
}

/// The same with the model of the papers in all details.
const fn nfs_driver(name: &'static str, bad_ms: u64) -> Profile {
    Profile { at_driver: true, source: NFS_DRIVER, ..nfs_wireless(name, bad_ms) }
}

/// The radio at a distance, in packets of 1400 bytes that are lost.
const fn at_distance(name: &'static str, loss_ppm: u32) -> Profile {
    Profile { loss_ppm, source: DISTANCE, ..tcp_wireless(name, 0) }
}

const fn tcp_wireless(name: &'static str, bytes_per_bit_error: u64) -> Profile {
    Profile {
        bytes_per_bit_error,
        duplex: Duplex::Half,
        ..both(name, Both { delay_us: 0, bits_per_second: 2_000_000 }, TCP_WIRELESS)
    }
}

/// All of them; the first eight are the wide-area scenarios.
pub const PROFILES: [Profile; 35] = [
    scenario("local-area", Both { delay_us: 0, bits_per_second: 10_000_000 }),
    scenario("small-distance", Both { delay_us: 15_000, bits_per_second: 4_000_000 }),
    scenario("medium-distance", Both { delay_us: 33_500, bits_per_second: 3_000_000 }),
    scenario("large-distance", Both { delay_us: 45_000, bits_per_second: 1_000_000 }),
    scenario("intercontinental", Both { delay_us: 55_000, bits_per_second: 1_000_000 }),
    scenario("low-bandwidth", Both { delay_us: 0, bits_per_second: 56_000 }),
    scenario("high-latency", Both { delay_us: 200_000, bits_per_second: 10_000_000 }),
    scenario("passive-propagation", Both { delay_us: 82_150, bits_per_second: 3_000_000 }),
    nfs_wireless("wireless-1mb", 0),
    nfs_wireless("wireless-1mb-bad-40ms", 40),
    nfs_wireless("wireless-1mb-bad-80ms", 80),
    nfs_wireless("wireless-1mb-bad-120ms", 120),
    nfs_wireless("wireless-1mb-bad-160ms", 160),
    nfs_driver("wireless-1mb-driver-bad-40ms", 40),
    nfs_driver("wireless-1mb-driver-bad-80ms", 80),
    nfs_driver("wireless-1mb-driver-bad-120ms", 120),
    nfs_driver("wireless-1mb-driver-bad-160ms", 160),
    Profile {
        receiver: (8, 18_000),
        source: "NFS over wireless links, 1995: a mobile that cannot take what comes over 1 Mb/s; 8 packets and 18 ms each are our choice",
        ..nfs_wireless("wireless-1mb-slow-mobile", 0)
    },
    tcp_wireless("wavelan", 0),
    tcp_wireless("wavelan-error-16k", 16 * 1024),
    tcp_wireless("wavelan-error-32k", 32 * 1024),
    tcp_wireless("wavelan-error-64k", 64 * 1024),
    tcp_wireless("wavelan-error-128k", 128 * 1024),
    tcp_wireless("wavelan-error-256k", 256 * 1024),
    at_distance("wavelan-50-feet", 1000),
    at_distance("wavelan-100-feet", 10_000),
    at_distance("wavelan-150-feet", 100_000),
    Profile {
        source: "TCP over wireless links, 1996: 16 hops, bottleneck 1.5 Mb/s; bandwidth x delay 23 KB gives the delay",
        ..both("wan-16-hops", Both { delay_us: 62_800, bits_per_second: 1_500_000 }, "")
    },
    Profile {
        queue_len_max: 256 * 1024,
        ..both("ethernet-100", Both { delay_us: 100, bits_per_second: 100_000_000 }, "fast Ethernet; our choice")
    },
    Profile {
        queue_len_max: 1 << 20,
        ..both("gigabit", Both { delay_us: 50, bits_per_second: 1_000_000_000 }, "gigabit Ethernet; our choice")
    },
    Profile {
        name: "dsl",
        delay_us: 10_000,
        jitter_us: 1000,
        up_bits_per_second: 1_000_000,
        down_bits_per_second: 16_000_000,
        queue_len_max: 128 * 1024,
        source: "an ADSL2+ access line, asymmetric 1:16 with a deep queue; our choice",
        ..PLAIN
    },
    Profile {
        name: "wifi",
        delay_us: 1500,
        jitter_us: 3000,
        up_bits_per_second: 50_000_000,
        down_bits_per_second: 50_000_000,
        queue_len_max: 256 * 1024,
        loss_ppm: 1000,
        duplex: Duplex::Half,
        source: "a busy wireless network at home; our choice",
        ..PLAIN
    },
    Profile {
        name: "weak-4g",
        delay_us: 40_000,
        jitter_us: 20_000,
        up_bits_per_second: 1_000_000,
        down_bits_per_second: 5_000_000,
        queue_len_max: 256 * 1024,
        loss_ppm: 10_000,
        periods_ms: (20_000, 500),
        source: "a mobile network at the edge of its cell; our choice",
        ..PLAIN
    },
    Profile {
        name: "satellite",
        delay_us: 280_000,
        up_bits_per_second: 5_000_000,
        down_bits_per_second: 25_000_000,
        queue_len_max: 1 << 20,
        loss_ppm: 5000,
        source: "a geostationary satellite: 35,786 km up and down; rates our choice",
        ..PLAIN
    },
    PLAIN,
];

impl Profile {
    /// The profile of a name.
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }

    /// The eight wide-area scenarios.
    pub fn scenarios() -> &'static [Self] {
        &PROFILES[..8]
    }

    /// Settings of the way from the second end to the first (of either way, if they are alike).
    pub fn direction(&self) -> DirectionConfig {
        self.way(self.down_bits_per_second)
    }

    /// Settings of the line.
    pub fn line(&self) -> LineConfig {
        let (good, bad) = self.periods_ms;
        let (good_mean, bad_mean) = (Duration::from_millis(good), Duration::from_millis(bad));
        let bad_periods = (bad > 0).then(|| {
            let plain = BadPeriods { good_mean, bad_mean, ..BadPeriods::default() };
            if self.at_driver { plain.at_driver() } else { plain }
        });
        let (packets_max, micros) = self.receiver;
        let per_packet = Duration::from_micros(micros);
        let receiver =
            (packets_max > 0).then_some(ReceiverConfig { packets_max, per_packet, when_full: WhenFull::Lost });
        LineConfig {
            up: self.way(self.up_bits_per_second),
            down: DirectionConfig { receiver, ..self.way(self.down_bits_per_second) },
            bad_periods,
            ..LineConfig::default()
        }
    }

    fn way(&self, bits_per_second: u64) -> DirectionConfig {
        DirectionConfig {
            capacity: if bits_per_second == 0 { Capacity::Unlimited } else { Capacity::Rate(bits_per_second) },
            queue_len_max: self.queue_len_max,
            delay: Duration::from_micros(self.delay_us),
            jitter: Duration::from_micros(self.jitter_us),
            loss: Probability::new(f64::from(self.loss_ppm) / 1e6).expect("profiles lose less than everything"),
            bytes_per_bit_error: (self.bytes_per_bit_error > 0).then_some(self.bytes_per_bit_error as f64),
            ..DirectionConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_found_by_its_name_and_makes_a_line() {
        for profile in PROFILES {
            assert_eq!(Profile::named(profile.name), Some(profile));
            assert_eq!(profile.line().up.delay, Duration::from_micros(profile.delay_us));
            assert!(!profile.source.is_empty(), "{} has no source", profile.name);
        }
        assert_eq!(Profile::named("nowhere"), None);
    }

    #[test]
    fn the_papers_own_values_have_names() {
        let named = |name: &str| Profile::named(name).unwrap().line();
        let ms = Duration::from_millis;
        assert_eq!(
            named("wireless-1mb-driver-bad-80ms").bad_periods,
            Some(BadPeriods { good_mean: ms(1000), bad_mean: ms(80), ..BadPeriods::default() }.at_driver())
        );
        assert_eq!(named("wireless-1mb-slow-mobile").down.receiver.unwrap().packets_max, 8);
        assert_eq!(named("wavelan-100-feet").up.loss.value(), 0.01);
    }

    #[test]
    fn the_scenarios_are_the_published_ones() {
        let published = [
            ("local-area", 0.0, 10.0),
            ("small-distance", 15.0, 4.0),
            ("medium-distance", 33.5, 3.0),
            ("large-distance", 45.0, 1.0),
            ("intercontinental", 55.0, 1.0),
            ("low-bandwidth", 0.0, 0.056),
            ("high-latency", 200.0, 10.0),
            ("passive-propagation", 82.15, 3.0),
        ];
        let ours: Vec<(&str, f64, f64)> = Profile::scenarios()
            .iter()
            .map(|p| (p.name, p.delay_us as f64 / 1000.0, p.up_bits_per_second as f64 / 1e6))
            .collect();
        assert_eq!(ours, published);
    }
}
