//! A base station's air: one queue per destination, served in turn, and none that its channel's state keeps silent.
//!
//! An [`Arq`] that waits for an answer to a poll offers nothing else, so a destination in a bad period costs the others a short
//! frame now and then and never their turn.

use crate::arq::{Arq, ArqConfig};
use crate::frame::Frame;
use crate::packet::{Destination, Packet};
use crate::signal::Signal;
use std::collections::BTreeMap;
use wayfs_types::Time;

/// Settings.
#[derive(Debug, Clone, Copy)]
pub struct AirConfig {
    /// Of each destination.
    pub arq: ArqConfig,
    /// Destinations, at most. Default 256.
    pub destinations_max: usize,
}

impl Default for AirConfig {
    fn default() -> Self {
        Self { arq: ArqConfig::default(), destinations_max: 256 }
    }
}

/// All destinations of a base station.
#[derive(Debug)]
pub struct Air<P> {
    config: AirConfig,
    ends: BTreeMap<Destination, Arq<P>>,
    /// Who was served last.
    served: Option<Destination>,
}

impl<P: Packet> Air<P> {
    /// Nobody yet.
    pub const fn new(config: AirConfig) -> Self {
        Self { config, ends: BTreeMap::new(), served: None }
    }

    /// The end that serves a destination.
    pub fn end(&self, destination: Destination) -> Option<&Arq<P>> {
        self.ends.get(&destination)
    }

    fn end_mut(&mut self, destination: Destination) -> Option<&mut Arq<P>> {
        if !self.ends.contains_key(&destination) {
            if self.ends.len() >= self.config.destinations_max {
                return None;
            }
            self.ends.insert(destination, Arq::new(self.config.arq));
        }
        self.ends.get_mut(&destination)
    }

    /// A packet for a destination.
    ///
    /// # Errors
    /// The packet, if its queue is full or there are too many destinations.
    pub fn send(&mut self, now: Time, destination: Destination, packet: P) -> Result<(), P> {
        match self.end_mut(destination) {
            Some(end) => end.send(now, packet),
            None => Err(packet),
        }
    }

    /// A frame of a destination came.
    pub fn handle_frame(&mut self, now: Time, destination: Destination, frame: Frame<P>) {
        if let Some(end) = self.end_mut(destination) {
            end.handle_frame(now, frame);
        }
    }

    /// A packet that arrived, and from whom; call until `None`.
    pub fn poll_packet(&mut self, now: Time) -> Option<(Destination, P)> {
        self.ends.iter_mut().find_map(|(destination, end)| Some((*destination, end.poll_packet(now)?)))
    }

    /// News; call until `None`.
    pub fn poll_signal(&mut self) -> Option<(Destination, Signal)> {
        self.ends.iter_mut().find_map(|(destination, end)| Some((*destination, end.poll_signal()?)))
    }

    /// The air is free: the frame that goes over it now, and to whom.
    pub fn poll_frame(&mut self, now: Time) -> Option<(Destination, Frame<P>)> {
        let all: Vec<Destination> = self.ends.keys().copied().collect();
        let after = self.served.map_or(0, |served| all.partition_point(|destination| *destination <= served));
        for turn in 0..all.len() {
            let destination = all[(after + turn) % all.len()];
            let Some(end) = self.ends.get_mut(&destination).filter(|end| end.wants_air(now)) else { continue };
            if let Some(frame) = end.poll_frame(now) {
                self.served = Some(destination);
                return Some((destination, frame));
            }
        }
        None
    }

    /// When to be woken.
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        self.ends.values().filter_map(|end| end.poll_timeout(now)).min()
    }

    /// Lets timers end whose time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        for end in self.ends.values_mut() {
            end.handle_timeout(now);
        }
    }
}
