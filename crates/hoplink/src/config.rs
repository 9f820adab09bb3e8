//! What a link can be told, each with its default and the reason for it.

use crate::LinkError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use wayfs_hop::{ArqConfig, Order, Scheme, SnoopConfig};
use wayfs_net::Address;

/// Longest packet through the device, by default: with all headers it fits 1500 bytes over IPv4 and IPv6.
pub const MTU_DEFAULT: u16 = 1360;
/// Prefix of the IPv6 network of a pool.
const V6_PREFIX: u8 = 64;
/// IPv6 needs so much.
pub(crate) const MTU_MIN: u16 = 1280;
/// Frames on their way, at most; a destination's state stays under 2 MiB with it.
pub(crate) const WINDOW_MAX: u32 = 512;

/// What both ends can be told.
#[derive(Debug, Clone)]
pub struct Common {
    /// Name of the device.
    pub tun: String,
    /// What is done about losses. The base's is taken if the mobile names none; two that differ are refused.
    pub scheme: Option<(String, Scheme)>,
    /// Details of the scheme.
    pub settings: Settings,
    /// Longest packet, 1280 to 65,000 bytes. Default 1360.
    pub mtu: u16,
    /// Where the own key and the ticket's secret are kept.
    pub state: PathBuf,
    /// Where signals and the state are told.
    pub socket: PathBuf,
}

/// A base.
#[derive(Debug, Clone)]
pub struct BaseConfig {
    /// What both ends can be told.
    pub common: Common,
    /// Where handshakes are answered; datagrams come to the next port (any port, if the port is 0).
    pub listen: SocketAddr,
    /// Where mobiles find it, if that is another address.
    pub addresses: Vec<Address>,
    /// Addresses of mobiles: the first is the base's own.
    pub pool: Pool,
    /// Makes tickets given out before worthless.
    pub new_ticket: bool,
}

/// A mobile.
#[derive(Debug, Clone)]
pub struct MobileConfig {
    /// What both ends can be told.
    pub common: Common,
    /// The base's ticket.
    pub ticket: crate::LinkTicket,
    /// Whether everything is routed over the link.
    pub default_route: bool,
    /// Time between handshakes, which change the keys. Default 10 min.
    pub rekey_after: Duration,
}

/// Details of a scheme; what is absent is as the scheme has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// Transmissions of a frame or segment, at most.
    pub tries_max: Option<u32>,
    /// Shortest silence after which something goes again.
    pub timeout_min: Option<Duration>,
    /// Frames on their way, 1 to 512.
    pub window: Option<u32>,
    /// Whether packets are handed on in the order in which they were given.
    pub order: Option<Order>,
    /// Longest time from a packet's arrival until it is given up.
    pub delay_max: Option<Duration>,
    /// Bytes that wait for the hop, at most. Absent: as many as it carries in 300 ms, 64 KiB to 256 KiB.
    pub queue_len_max: Option<usize>,
    /// Whether room at the other end is asked for before something is sent.
    pub reservation: Option<bool>,
}

impl Settings {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`LinkError::Setting`] says which setting is out of its range.
    pub fn check(&self) -> Result<(), LinkError> {
        let wrong = |what: &str| Err(LinkError::Setting(what.to_owned()));
        if self.tries_max.is_some_and(|tries| !(1..=10_000).contains(&tries)) {
            return wrong("the retry limit lies between 1 and 10000");
        }
        if self.window.is_some_and(|window| !(1..=WINDOW_MAX).contains(&window)) {
            return wrong("the window lies between 1 and 512 frames");
        }
        let spans = [self.timeout_min.map(|span| (span, 1, 10_000)), self.delay_max.map(|span| (span, 10, 600_000))];
        if spans.into_iter().flatten().any(|(span, least, most)| !(least..=most).contains(&span.as_millis())) {
            return wrong("the smallest timeout lies between 1 ms and 10 s, the delay limit between 10 ms and 10 min");
        }
        if self.queue_len_max.is_some_and(|len| !(4096..=4 << 20).contains(&len)) {
            return wrong("the queue lies between 4 KiB and 4 MiB");
        }
        Ok(())
    }

    /// Of frames at both ends.
    pub(crate) fn arq(&self, scheme: ArqConfig, window: u32, mtu: u16) -> ArqConfig {
        ArqConfig {
            order: self.order.unwrap_or(scheme.order),
            window,
            tries_max: self.tries_max.unwrap_or(scheme.tries_max),
            delay_max: self.delay_max.unwrap_or(scheme.delay_max),
            timeout_min: self.timeout_min.unwrap_or(scheme.timeout_min),
            queue_len_max: self.queue_len_max.unwrap_or(scheme.queue_len_max),
            // What the window lets come in disorder fits.
            receive_len_max: 768 * 1024,
            reservation: self.reservation.unwrap_or(scheme.reservation),
            // Each small packet has its length before it.
            shared_len_max: usize::from(mtu.saturating_sub(64)),
            ..scheme
        }
    }

    /// Of the reader of TCP.
    pub(crate) fn snoop(&self, scheme: SnoopConfig) -> SnoopConfig {
        SnoopConfig {
            tries_max: self.tries_max.unwrap_or(scheme.tries_max),
            timeout_min: self.timeout_min.unwrap_or(scheme.timeout_min),
            queue_len_max: self.queue_len_max.unwrap_or(scheme.queue_len_max),
            ..scheme
        }
    }
}

/// Addresses that a base gives to mobiles, of IPv4, with IPv6 ones made from the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    network: Ipv4Addr,
    prefix: u8,
}

/// Not a pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no pool of addresses: write it as 10.177.0.0/24, the prefix between 16 and 30")]
pub struct PoolError(String);

impl Default for Pool {
    fn default() -> Self {
        Self { network: Ipv4Addr::new(10, 177, 0, 0), prefix: 24 }
    }
}

impl FromStr for Pool {
    type Err = PoolError;

    fn from_str(text: &str) -> Result<Self, PoolError> {
        let wrong = || PoolError(text.to_owned());
        let (network, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let network: Ipv4Addr = network.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().ok().filter(|prefix| (16..=30).contains(prefix)).ok_or_else(wrong)?;
        let is_network = u32::from(network) & ((1 << (32 - prefix)) - 1) == 0;
        if is_network && !network.is_multicast() && !network.is_unspecified() {
            Ok(Self { network, prefix })
        } else {
            Err(wrong())
        }
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.network, self.prefix)
    }
}

impl Pool {
    /// Mobiles that it has addresses for, 256 at most: that many queues are served in turn.
    pub(crate) fn mobiles_max(self) -> usize {
        ((1_usize << (32 - self.prefix)) - 3).min(256)
    }

    /// The addresses with a number: 0 is the base's.
    pub(crate) fn addresses(self, number: usize) -> Addresses {
        let host = u32::try_from(number + 1).unwrap_or(u32::MAX);
        let v4 = Ipv4Addr::from(u32::from(self.network) | host);
        let v6 = Ipv6Addr::from(u128::from(self.network_v6()) | u128::from(host as u16));
        Addresses { v4, v4_prefix: self.prefix, v6, v6_prefix: V6_PREFIX }
    }

    /// The network of its IPv6 addresses.
    pub(crate) fn network_v6(self) -> Ipv6Addr {
        let [a, b, third, _] = self.network.octets();
        Ipv6Addr::new(0xfd77, 0x6179, 0x6673, u16::from_be_bytes([a, b]), third.into(), 0, 0, 0)
    }

    /// Whether an address is one for mobiles.
    pub(crate) fn holds_mobile(self, address: IpAddr) -> bool {
        let is_inside = match address {
            IpAddr::V4(v4) => (u32::from(v4) ^ u32::from(self.network)) >> (32 - self.prefix) == 0,
            IpAddr::V6(v6) => (u128::from(v6) ^ u128::from(self.network_v6())) >> (128 - V6_PREFIX) == 0,
        };
        is_inside && !self.addresses(0).hold(address)
    }
}

/// Addresses of one end, with the lengths of their networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Addresses {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v4_prefix: u8,
    pub(crate) v6: Ipv6Addr,
    pub(crate) v6_prefix: u8,
}

impl Addresses {
    /// Whether an address is one of them.
    pub(crate) fn hold(&self, address: IpAddr) -> bool {
        address == IpAddr::from(self.v4) || address == IpAddr::from(self.v6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_have_addresses_and_nonsense_is_refused() {
        let pool: Pool = "192.168.4.0/29".parse().unwrap();
        assert_eq!(pool.mobiles_max(), 5);
        assert_eq!(pool.addresses(0).v4, Ipv4Addr::new(192, 168, 4, 1));
        assert_eq!(pool.addresses(5).v4, Ipv4Addr::new(192, 168, 4, 6));
        assert_ne!(pool.addresses(1).v6, pool.addresses(2).v6);
        assert_eq!(pool.to_string(), "192.168.4.0/29");
        assert!(pool.holds_mobile(pool.addresses(5).v4.into()) && pool.holds_mobile(pool.addresses(1).v6.into()));
        assert!(!pool.holds_mobile(pool.addresses(0).v4.into()) && !pool.holds_mobile(pool.addresses(0).v6.into()));
        assert!(
            !pool.holds_mobile([192, 168, 4, 8].into()) && !pool.holds_mobile(Pool::default().addresses(1).v6.into())
        );
        assert_eq!(Pool::default().mobiles_max(), 253);
        for text in ["", "10.0.0.0", "10.0.0.0/8", "10.0.0.1/24", "10.0.0.0/31", "224.0.0.0/24", "::/64", "0.0.0.0/16"]
        {
            assert!(text.parse::<Pool>().is_err(), "{text}");
        }
    }

    #[test]
    fn settings_out_of_their_ranges_are_refused() {
        assert!(Settings::default().check().is_ok());
        let ms = Duration::from_millis;
        for settings in [
            Settings { tries_max: Some(0), ..Settings::default() },
            Settings { window: Some(513), ..Settings::default() },
            Settings { timeout_min: Some(ms(0)), ..Settings::default() },
            Settings { delay_max: Some(ms(700_000)), ..Settings::default() },
            Settings { queue_len_max: Some(1), ..Settings::default() },
        ] {
            assert!(matches!(settings.check(), Err(LinkError::Setting(_))), "{settings:?}");
        }
    }

    #[test]
    fn a_destination_has_less_than_two_mebibytes() {
        let arq = Settings::default().arq(ArqConfig::default(), WINDOW_MAX, MTU_DEFAULT);
        let held = WINDOW_MAX as usize * usize::from(MTU_DEFAULT);
        assert!(held + arq.queue_len_max + arq.receive_len_max < 2 << 20);
    }
}
