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

/// Longest time in which joined connections are ended.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);

impl Engine {
    /// Addresses that were somebody else's: what is owed to that one is nothing for their new owner.
    pub(super) fn forget_owner(&self, addresses: &Addresses, new: usize) {
        let Some(owner) = self.table.by_address.get(&IpAddr::from(addresses.v4)).filter(|owner| **owner != new) else {
            return;
        };
        if let Some(split) = &self.table.peers[*owner].split {
            split.reset(Some(addresses));
        }
    }

    /// Segments of joined connections, for mobiles and for the wire. Gives how many came from one room at most.
    pub(super) fn read_rooms(&mut self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        let mut most = 0;
        for split in self.table.splits.clone() {
            for side in [Side::Mobile, Side::Wire] {
                let mut count = 0;
                while count < BATCH
                    && let Some(len) = split.read(side, buffer)?
                {
                    count += 1;
                    let Ok(packet) = IpPacket::new(Bytes::copy_from_slice(&buffer[..len])) else { continue };
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

    /// Tells both sides of joined connections that they are over: nobody will carry what is owed.
    pub(super) fn end_joined(&mut self) -> Result<(), LinkError> {
        self.table.splits.iter().for_each(|split| split.reset(None));
        let mut buffer = vec![0; 65_536];
        let end = clock::now() + LEAVE_WITHIN;
        loop {
            let now = clock::now();
            let is_over = self.table.splits.iter().all(|split| split.is_empty()) || end <= now;
            let moved = self.read_rooms(&mut buffer)? + self.send_all(now);
            if is_over && moved == 0 {
                return Ok(());
            }
            std::thread::sleep(SLEEP_MIN);
        }
    }
}
