//! Who may begin a handshake. Pure.
//!
//! A handshake takes a millisecond of processor and some 22 KB, from the moment when its first packet is taken in. To send such a packet
//! in another's name costs nothing. So without a proof of its address few begin in a second, those of networks from which none
//! came to nothing lately; all others are told to prove theirs, which costs no memory.
//!
//! Who proves it and then gives up leaves a connection behind that waits for the last of its packets: for three probe timeouts as a rule, and
//! for the whole idle timeout if its first packet closed it (quinn-proto 0.11 sets no timer then). Those are counted for their network,
//! so that nobody fills the room for all of them from one place; and past [`LINGERING_MAX`] in all, networks wait of which nobody was
//! admitted and some came to nothing. A server that has just started knows nobody: members come from networks without such a share.

use crate::door::Network;
use crate::pace::Pace;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Handshakes a second that begin without a proof of the address, and as many at once.
const UNPROVED_A_SECOND: u32 = 16;
/// Handshakes from one network that came to nothing lately, past which it is not heard.
const VAIN_OF_NETWORK_MAX: usize = 48;
/// Connections that are over and wait for their last packets, past which networks are not heard whose handshakes came to nothing lately,
/// and nobody begins without a proof: 8 MB of them.
const LINGERING_MAX: usize = 384;
/// The same for networks of which somebody was admitted, or none came to nothing.
const LINGERING_OF_OTHERS_MAX: usize = 2 * LINGERING_MAX;
/// Handshakes that came to nothing which are remembered at most.
const REMEMBERED_MAX: usize = 4096;

/// Bounds of an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Handshakes under way at once.
    pub(crate) handshakes_max: usize,
    /// That may begin in a second, of known networks, and of all others.
    pub(crate) handshakes_a_second: u32,
    /// Connections open at once.
    pub(crate) connections_max: usize,
    /// How long one that came to nothing counts.
    pub(crate) linger: Duration,
}

/// How full an endpoint is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    /// Handshakes under way.
    pub(crate) handshakes: usize,
    /// Of these from the network that asks.
    pub(crate) of_network: usize,
    /// Connections that are open.
    pub(crate) alive: usize,
    /// Connections of which there is still state, those under way and those that are over included.
    pub(crate) held: usize,
}

/// Where a first packet comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From {
    pub(crate) network: Network,
    /// Somebody of this network was admitted.
    pub(crate) is_known: bool,
    /// The address is its own.
    pub(crate) is_proved: bool,
}

/// What becomes of a first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Begin,
    /// The address is to be proved first.
    Prove,
    /// It is not heard, and comes again.
    Ignore,
    Refuse,
}

/// What is counted of known networks, and of all others: a flood from elsewhere keeps nobody out who comes from where others were admitted.
#[derive(Debug)]
struct Counts {
    all: Pace,
    unproved: Pace,
}

impl Counts {
    fn new(limits: &Limits, now: Instant) -> Self {
        let unproved = UNPROVED_A_SECOND.min(limits.handshakes_a_second);
        Self { all: Pace::new(limits.handshakes_a_second, now), unproved: Pace::new(unproved, now) }
    }
}

/// Decides about first packets.
#[derive(Debug)]
pub(crate) struct Intake {
    limits: Limits,
    known: Counts,
    unknown: Counts,
    vain: Vain,
}

impl Intake {
    pub(crate) fn new(limits: Limits, now: Instant) -> Self {
        let counts = || Counts::new(&limits, now);
        Self { limits, known: counts(), unknown: counts(), vain: Vain::default() }
    }

    /// What becomes of a first packet; if it begins, it counts.
    pub(crate) fn decide(&mut self, now: Instant, from: From, load: Load) -> Verdict {
        self.vain.forget(now, self.limits.linger);
        let max = self.limits.handshakes_max;
        if load.handshakes >= max || load.alive >= self.limits.connections_max || load.of_network >= max.div_ceil(4) {
            return Verdict::Refuse;
        }
        let counts = if from.is_known { &mut self.known } else { &mut self.unknown };
        let lingering = load.held.saturating_sub(load.alive + load.handshakes);
        if !from.is_proved {
            let is_busy = load.handshakes >= max / 4
                || lingering >= LINGERING_MAX
                || counts.all.is_low(now)
                || self.vain.has(from.network);
            if is_busy || !counts.unproved.begin(now) {
                return Verdict::Prove;
            }
        }
        let in_vain = if from.is_known { 0 } else { self.vain.proved(from.network) };
        let lingering_max = if in_vain == 0 { LINGERING_OF_OTHERS_MAX } else { LINGERING_MAX };
        let is_heard = lingering < lingering_max && in_vain < VAIN_OF_NETWORK_MAX;
        if is_heard && counts.all.begin(now) { Verdict::Begin } else { Verdict::Ignore }
    }

    /// A handshake that began came to nothing.
    pub(crate) fn came_to_nothing(&mut self, now: Instant, from: From) {
        self.vain.note(now, from);
    }
}

/// Handshakes that came to nothing lately.
#[derive(Debug, Default)]
struct Vain {
    /// Oldest first.
    all: VecDeque<(Instant, Network, bool)>,
    /// By network: how many, and how many of them had proved their address.
    counts: BTreeMap<Network, (usize, usize)>,
}

impl Vain {
    fn has(&self, network: Network) -> bool {
        self.counts.contains_key(&network)
    }

    /// Those of a network that had proved their address. The others do not count: anybody could fill another's share.
    fn proved(&self, network: Network) -> usize {
        self.counts.get(&network).map_or(0, |(_, proved)| *proved)
    }

    fn note(&mut self, now: Instant, from: From) {
        if self.all.len() >= REMEMBERED_MAX {
            self.forget_oldest();
        }
        self.all.push_back((now, from.network, from.is_proved));
        let (count, proved) = self.counts.entry(from.network).or_default();
        *count += 1;
        *proved += usize::from(from.is_proved);
    }

    fn forget(&mut self, now: Instant, linger: Duration) {
        while self.all.front().is_some_and(|(at, ..)| now.saturating_duration_since(*at) >= linger) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, network, was_proved)) = self.all.pop_front() else { return };
        let Some((count, proved)) = self.counts.get_mut(&network) else { return };
        *count -= 1;
        *proved -= usize::from(was_proved);
        if *count == 0 {
            self.counts.remove(&network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const LINGER: Duration = Duration::from_secs(15);
    const LIMITS: Limits =
        Limits { handshakes_max: 256, handshakes_a_second: 200, connections_max: 4096, linger: LINGER };

    fn network(number: u8) -> Network {
        Network::of(IpAddr::from([10, 0, number, 7]))
    }

    fn stranger(number: u8) -> From {
        From { network: network(number), is_known: false, is_proved: false }
    }

    fn proved(number: u8) -> From {
        From { is_proved: true, ..stranger(number) }
    }

    fn member(number: u8) -> From {
        From { is_known: true, ..stranger(number) }
    }

    /// How many of first packets that come at such a rate for such a time begin, each over at once.
    fn begun(intake: &mut Intake, from: impl Fn(u32) -> From, a_second: u32, begin: Instant, seconds: u32) -> usize {
        let each = Duration::from_secs(1) / a_second;
        let mut begun = 0;
        for number in 0..a_second * seconds {
            let (now, from) = (begin + each * number, from(number));
            if intake.decide(now, from, Load::default()) == Verdict::Begin {
                intake.came_to_nothing(now, from);
                begun += 1;
            }
        }
        begun
    }

    #[test]
    fn a_flood_of_forged_first_packets_begins_few_handshakes_and_keeps_no_member_out() {
        let begin = Instant::now();
        let mut intake = Intake::new(LIMITS, begin);
        let forged = |number: u32| stranger((number % 200) as u8);
        // 200 networks, each of which may begin one in fifteen seconds without a proof.
        let count = begun(&mut intake, forged, 10_000, begin, 15);
        assert!((16..=200).contains(&count), "{count}");
        let now = begin + LINGER;
        assert_eq!(intake.decide(now, member(201), Load::default()), Verdict::Begin);
        assert_eq!(intake.decide(now, stranger(202), Load::default()), Verdict::Begin, "a newcomer of another network");
    }

    #[test]
    fn who_comes_to_nothing_again_and_again_is_not_heard_for_a_while_and_others_are() {
        let begin = Instant::now();
        let mut intake = Intake::new(LIMITS, begin);
        assert_eq!(begun(&mut intake, |_| proved(1), 100, begin, 10), VAIN_OF_NETWORK_MAX);
        let now = begin + Duration::from_secs(10);
        assert_eq!(intake.decide(now, proved(1), Load::default()), Verdict::Ignore);
        assert_eq!(intake.decide(now, proved(2), Load::default()), Verdict::Begin);
        let later = now + LINGER;
        assert_eq!(intake.decide(later, proved(1), Load::default()), Verdict::Begin);
        assert!(intake.vain.counts.is_empty() && intake.vain.all.is_empty(), "all is forgotten");
    }

    #[test]
    fn nobody_fills_anothers_share_with_forged_packets() {
        let begin = Instant::now();
        let mut intake = Intake::new(LIMITS, begin);
        for number in 0..200 {
            intake.came_to_nothing(begin + Duration::from_millis(number), stranger(1));
        }
        let now = begin + Duration::from_secs(1);
        assert_eq!(intake.decide(now, stranger(1), Load::default()), Verdict::Prove);
        assert_eq!(intake.decide(now, proved(1), Load::default()), Verdict::Begin);
    }

    #[test]
    fn what_is_over_and_still_takes_memory_is_bounded_wherever_it_came_from() {
        let begin = Instant::now();
        let mut intake = Intake::new(LIMITS, begin);
        intake.came_to_nothing(begin, proved(1));
        let load = Load { alive: 10, handshakes: 5, held: 15 + LINGERING_MAX, of_network: 0 };
        assert_eq!(intake.decide(begin, proved(1), load), Verdict::Ignore);
        assert_eq!(intake.decide(begin, member(2), load), Verdict::Prove, "nobody goes in without a proof then");
        for from in [From { is_proved: true, ..member(1) }, proved(3)] {
            assert_eq!(intake.decide(begin, from, load), Verdict::Begin, "one that is known, or new, has more room");
        }
        let more = Load { held: load.held + LINGERING_MAX, ..load };
        assert_eq!(intake.decide(begin, proved(3), more), Verdict::Ignore);
        let less = Load { held: load.held - 1, ..load };
        assert_eq!(intake.decide(begin, proved(1), less), Verdict::Begin);
    }

    #[test]
    fn an_endpoint_that_is_full_refuses() {
        let begin = Instant::now();
        let mut intake = Intake::new(LIMITS, begin);
        for load in [
            Load { handshakes: 256, ..Load::default() },
            Load { of_network: 64, ..Load::default() },
            Load { alive: 4096, ..Load::default() },
        ] {
            assert_eq!(intake.decide(begin, member(1), load), Verdict::Refuse, "{load:?}");
        }
        let busy = Load { handshakes: 64, ..Load::default() };
        assert_eq!(intake.decide(begin, member(1), busy), Verdict::Prove);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let begin = Instant::now();
        let mut vain = Vain::default();
        for number in 0..REMEMBERED_MAX + 10 {
            vain.note(begin, stranger((number % 256) as u8));
        }
        assert_eq!(vain.all.len(), REMEMBERED_MAX);
        assert_eq!(vain.counts.values().map(|(count, _)| count).sum::<usize>(), REMEMBERED_MAX);
    }
}
