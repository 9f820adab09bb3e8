//! The door: where peers stand that proved a key and are not yet admitted.
//!
//! Whoever has a key of its own making gets this far, so what it may cost is bounded: a place here, one stream, and
//! [`WINDOW`] bytes. There are few places, and few of them for one network; a newcomer takes the place of the one that
//! stands there longest, so that strangers who say nothing keep nobody out. Keys that were admitted before are the last
//! to lose a place.

use crate::close::CloseCode;
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::debug;
use wayfs_types::NodeId;

/// Places in all.
const PLACES_MAX: usize = 64;
/// Places for one network: 256 neighbouring addresses of IPv4, a customer's range of IPv6.
const PLACES_OF_NETWORK_MAX: usize = 8;
/// Keys remembered as admitted, and networks.
const KNOWN_MAX: usize = 4096;

/// Bytes that a peer may have unread before it is admitted, all streams together.
pub(crate) const WINDOW: u32 = 64 << 10;
/// Longest frame of a peer that is not admitted: a greeting, with room for its frame.
pub(crate) const FRAME_LEN_MAX: usize = 64 << 10;

/// Addresses that count as one stranger: a /24 of IPv4, a /56 of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Network([u8; 16]);

impl Network {
    pub(crate) fn of(address: IpAddr) -> Self {
        let mut bytes = match address.to_canonical() {
            IpAddr::V4(address) => {
                let mut bytes = address.to_ipv6_mapped().octets();
                bytes[15] = 0;
                bytes
            }
            IpAddr::V6(address) => address.octets(),
        };
        if !address.to_canonical().is_ipv4() {
            bytes[7..].fill(0);
        }
        Self(bytes)
    }
}

/// What is closed when it must give way.
pub(crate) trait Standing: Send {
    fn turn_away(&self, reason: &str);
}

impl Standing for quinn::Connection {
    fn turn_away(&self, reason: &str) {
        self.close(CloseCode::NOT_ADMITTED.to_wire(), reason.as_bytes());
    }
}

/// The places at an endpoint's door. Clones are the same door.
#[derive(Clone, Default)]
pub(crate) struct Door {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Oldest first.
    standing: VecDeque<Place>,
    /// Keys that were admitted, and the networks that they came from.
    keys: Remembered<NodeId>,
    networks: Remembered<Network>,
}

/// Up to [`KNOWN_MAX`] of a kind; the oldest is forgotten first.
struct Remembered<T> {
    all: BTreeSet<T>,
    order: VecDeque<T>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self { all: BTreeSet::new(), order: VecDeque::new() }
    }
}

impl<T: Copy + Ord> Remembered<T> {
    fn note(&mut self, one: T) {
        if self.all.insert(one) {
            self.order.push_back(one);
        }
        if self.order.len() > KNOWN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }

    fn contains(&self, one: &T) -> bool {
        self.all.contains(one)
    }
}

struct Place {
    number: u64,
    network: Network,
    peer: NodeId,
    who: Box<dyn Standing>,
}

/// A place at the door; given back when dropped.
pub(crate) struct Pass {
    door: Door,
    number: u64,
    network: Network,
    peer: NodeId,
}

impl Door {
    /// Whether somebody was admitted who came from there.
    pub(crate) fn knows(&self, network: Network) -> bool {
        self.lock().networks.contains(&network)
    }

    /// Takes a place. Whoever stood longest among those that compete for it is turned away.
    pub(crate) fn enter(&self, network: Network, peer: NodeId, who: impl Standing + 'static) -> Pass {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let of_network = state.standing.iter().filter(|place| place.network == network).count();
        let rival = match (of_network >= PLACES_OF_NETWORK_MAX, state.standing.len() >= PLACES_MAX) {
            (true, _) => state.oldest(|place| place.network == network),
            (false, true) => state.oldest(|_| true),
            (false, false) => None,
        };
        let turned_away = rival.and_then(|at| state.standing.remove(at));
        state.standing.push_back(Place { number, network, peer, who: Box::new(who) });
        drop(state);
        if let Some(place) = turned_away {
            debug!(peer = %place.peer.short(), "turned away at the door: others want in, too");
            place.who.turn_away("others want in, too: come again");
        }
        Pass { door: self.clone(), number, network, peer }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Who stands longest; strangers before those that were admitted once.
    fn oldest(&self, among: impl Fn(&Place) -> bool) -> Option<usize> {
        let find = |is_known: bool| {
            self.standing.iter().position(|place| among(place) && self.keys.contains(&place.peer) == is_known)
        };
        find(false).or_else(|| find(true))
    }
}

impl Pass {
    /// The peer goes in: its place is free, and its key and where it came from are remembered.
    pub(crate) fn admit(self) {
        let mut state = self.door.lock();
        state.keys.note(self.peer);
        state.networks.note(self.network);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.door.lock().standing.retain(|place| place.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Clone, Default)]
    struct Guest(Arc<AtomicUsize>);

    impl Standing for Guest {
        fn turn_away(&self, _reason: &str) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Guest {
        fn is_away(&self) -> bool {
            self.0.load(Ordering::Relaxed) > 0
        }
    }

    fn key(number: u16) -> NodeId {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        NodeId::from_bytes(bytes)
    }

    fn network(number: u8) -> Network {
        Network::of(IpAddr::from([10, 0, number, 77]))
    }

    #[test]
    fn one_network_has_few_places_and_its_oldest_goes_first() {
        let door = Door::default();
        let (first, other) = (Guest::default(), Guest::default());
        let _first = door.enter(network(1), key(0), first.clone());
        let _other = door.enter(network(2), key(1), other.clone());
        let passes: Vec<_> = (2..9).map(|number| door.enter(network(1), key(number), Guest::default())).collect();
        assert!(!first.is_away(), "there were places");
        let _ninth = door.enter(network(1), key(9), Guest::default());
        assert!(first.is_away());
        assert!(!other.is_away(), "another network is not touched");
        drop(passes);
    }

    #[test]
    fn a_full_door_turns_strangers_away_before_those_who_were_in_before() {
        let door = Door::default();
        door.enter(network(0), key(1000), Guest::default()).admit();
        let (member, stranger) = (Guest::default(), Guest::default());
        let _member = door.enter(network(0), key(1000), member.clone());
        let _stranger = door.enter(network(1), key(1), stranger.clone());
        let passes: Vec<_> = (2..70)
            .map(|number| door.enter(network(u8::try_from(number / 4).unwrap() + 2), key(number), Guest::default()))
            .collect();
        assert!(stranger.is_away());
        assert!(!member.is_away(), "a key that was admitted before is the last to go");
        assert!(door.lock().standing.len() <= PLACES_MAX);
        drop(passes);
    }

    #[test]
    fn places_come_back_and_who_was_admitted_is_remembered_so_far_only() {
        let door = Door::default();
        for number in 0..u16::try_from(KNOWN_MAX).unwrap() + 10 {
            door.enter(network(0), key(number), Guest::default()).admit();
        }
        let state = door.lock();
        assert!(state.standing.is_empty());
        assert_eq!((state.keys.all.len(), state.keys.order.len()), (KNOWN_MAX, KNOWN_MAX));
        assert!(!state.keys.contains(&key(0)) && state.keys.contains(&key(100)));
        drop(state);
        assert!(door.knows(network(0)) && !door.knows(network(1)));
    }

    #[test]
    fn networks_are_what_one_stranger_has() {
        let of = |text: &str| Network::of(text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("192.0.2.250"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.9"));
        assert_ne!(of("192.0.2.1"), of("192.0.3.1"));
        assert_eq!(of("2001:db8:0:1100::1"), of("2001:db8:0:11ff::2"));
        assert_ne!(of("2001:db8:0:1100::1"), of("2001:db8:0:1200::1"));
    }
}
