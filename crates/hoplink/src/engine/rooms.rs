//! What the engine does for connections that are joined at the base.

use super::{BATCH, Engine, SLEEP_MIN};
use crate::LinkError;
use crate::clock;
use crate::config::Addresses;
use crate::split::Side;
use bytes::Bytes;
use std::net::IpAddr;
use std::time::Duration;
use wayfs_hop::IpPacket;
use wayfs_types::Time;

/// Longest time in which joined connections are ended.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);
/// How often what ends them is said again to the mobiles, and the pause before: nobody repeats a reset that the hop loses.
const SAID_AGAIN: u32 = 4;
const AGAIN: Duration = Duration::from_millis(75);
/// Packets that are said again at most.
const LAST_MAX: usize = 4096;

impl Engine {
    /// Addresses that were somebody else's: what is owed to that one is nothing for their new owner.
    pub(super) fn forget_owner(&self, addresses: &Addresses, new: usize) {
        let Some(owner) = self.table.by_address.get(&IpAddr::from(addresses.v4)).filter(|owner| **owner != new) else {
            return;
        };
        if let Some(split) = &self.table.peers[*owner].split {
            split.reset(addresses);
        }
    }

    /// Segments of joined connections, for mobiles and for the wire; shows each for a mobile. Gives how many came from one room at most.
    pub(super) fn read_rooms(
        &mut self,
        buffer: &mut [u8],
        show: &mut dyn FnMut(&IpPacket),
    ) -> Result<usize, LinkError> {
        let mut most = 0;
        for split in self.table.splits.clone() {
            for side in [Side::Mobile, Side::Wire] {
                let mut count = 0;
                while count < BATCH
                    && let Some(len) = split.read(side, buffer)?
                {
                    count += 1;
                    let Ok(packet) = IpPacket::new(Bytes::copy_from_slice(&buffer[..len])) else { continue };
                    if side == Side::Mobile {
                        show(&packet);
                    }
                    self.leave_room(side, packet)?;
                }
                most = most.max(count);
            }
        }
        Ok(most)
    }

    /// A packet of a room's kernel goes to its side. What is no segment is talk of the kernel with neighbours that are not there.
    fn leave_room(&mut self, side: Side, packet: IpPacket) -> Result<(), LinkError> {
        let mobile = if side == Side::Mobile { packet.destination() } else { packet.source() };
        let place = self.table.by_address.get(&mobile).copied().filter(|_| packet.concerns_tcp());
        let Some(place) = place else { return Ok(()) };
        match side {
            Side::Mobile => self.table.peers[place].send(clock::now(), packet),
            Side::Wire => self.tun.write(packet.bytes())?,
        }
        Ok(())
    }

    /// Tells both sides of joined connections that they are over: nobody will carry what is owed. What mobiles had sent before
    /// they heard of it (the last segment of a handshake, for one) comes in still, and is refused like the rest.
    pub(super) fn end_joined(&mut self) -> Result<(), LinkError> {
        if self.table.splits.iter().all(|split| split.is_empty()) {
            return Ok(());
        }
        self.table.splits.iter().for_each(|split| split.close());
        let (mut buffer, mut last) = (vec![0; 65_536], Vec::new());
        let end = clock::now() + LEAVE_WITHIN;
        while self.table.splits.iter().any(|split| !split.is_empty()) && clock::now() < end {
            self.go_on_until(clock::now() + SLEEP_MIN, &mut buffer, &mut last)?;
        }
        for _ in 0..SAID_AGAIN {
            self.go_on_until(clock::now() + AGAIN, &mut buffer, &mut last)?;
            for packet in &last {
                self.leave_room(Side::Mobile, packet.clone())?;
            }
        }
        while self.send_all(clock::now()) > 0 {}
        Ok(())
    }

    /// Moves packets until then, and notes what goes to mobiles.
    fn go_on_until(&mut self, end: Time, buffer: &mut [u8], noted: &mut Vec<IpPacket>) -> Result<(), LinkError> {
        while clock::now() < end {
            let busy = self.turn(buffer, &mut |packet| {
                if noted.len() < LAST_MAX {
                    noted.push(packet.clone());
                }
            })?;
            if !busy {
                std::thread::sleep(SLEEP_MIN);
            }
        }
        Ok(())
    }
}
