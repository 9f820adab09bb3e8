//! A host at the end of a line that is slower than the line: packets wait in a finite receive buffer until it takes them, and what finds
//! the buffer full is lost. So it was with the mobile hosts of 1995, whose drivers lost fragments that came back to back.

use crate::nanos::Nanos;
use std::collections::VecDeque;
use std::time::Duration;

/// The receive buffer of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Packets that wait or are being taken, at most; one at least.
    pub packets_max: usize,
    /// Time that the host takes for each.
    pub per_packet: Duration,
    /// What happens when it is full.
    pub when_full: WhenFull,
}

/// What happens to packets for which there is no room.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// They are lost.
    #[default]
    Lost,
    /// They are not sent before there is room: the receiver says how much it has (RTS and CTS).
    NotSent,
}

/// The buffer at work.
#[derive(Debug, Default, Clone)]
pub(crate) struct Receiver {
    /// When the host will be through with each packet in it, in order.
    taken: VecDeque<Nanos>,
}

impl Receiver {
    /// A packet arrives. Tells when the host is through with it; `None` if there was no room.
    pub(crate) fn accept(&mut self, config: &ReceiverConfig, arrival: Nanos) -> Option<Nanos> {
        while self.taken.front().is_some_and(|at| *at <= arrival) {
            self.taken.pop_front();
        }
        if self.taken.len() >= config.packets_max.max(1) {
            return None;
        }
        let begin = self.taken.back().copied().unwrap_or(arrival).max(arrival);
        self.taken.push_back(begin + config.per_packet);
        self.taken.back().copied()
    }

    /// From when on there is room for one more.
    pub(crate) fn room_from(&self, config: &ReceiverConfig) -> Nanos {
        let over = self.taken.len().checked_sub(config.packets_max.max(1));
        over.and_then(|place| self.taken.get(place)).copied().unwrap_or(Nanos::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Nanos {
        Nanos::new(milliseconds * 1_000_000)
    }

    #[test]
    fn packets_wait_for_a_slow_host_and_are_lost_when_its_buffer_is_full() {
        let config =
            ReceiverConfig { packets_max: 2, per_packet: Duration::from_millis(20), when_full: WhenFull::Lost };
        let mut receiver = Receiver::default();
        let taken: Vec<Option<Nanos>> = [0, 10, 15, 20, 100].map(|at| receiver.accept(&config, ms(at))).to_vec();
        assert_eq!(taken, [Some(ms(20)), Some(ms(40)), None, Some(ms(60)), Some(ms(120))]);
    }

    #[test]
    fn there_is_room_again_when_the_host_is_through_with_the_oldest() {
        let config =
            ReceiverConfig { packets_max: 2, per_packet: Duration::from_millis(20), when_full: WhenFull::NotSent };
        let mut receiver = Receiver::default();
        assert_eq!(receiver.room_from(&config), Nanos::ZERO);
        receiver.accept(&config, ms(5));
        assert_eq!(receiver.room_from(&config), Nanos::ZERO);
        receiver.accept(&config, ms(5));
        assert_eq!(receiver.room_from(&config), ms(25));
    }
}
