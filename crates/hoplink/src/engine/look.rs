//! What the engine looks at from time to time: the way to the other ends.

use super::{Engine, event};
use crate::LinkError;
use crate::config::MTU_MIN;
use crate::host;
use crate::keys::Role;
use crate::seal::{Kind, OVERHEAD};
use serde_json::json;
use std::net::IpAddr;
use wayfs_hop::{FRAME_HEADER_LEN, PACKET_HEADER_LEN};
use wayfs_types::Time;

/// Bytes of a report that a full frame has room for.
const REPORT_ROOM: usize = 33;

impl Engine {
    /// By which address the base is reached, and how long a packet may be on the first line.
    pub(super) fn look(&mut self, now: Time) -> Result<(), LinkError> {
        let mut mtu = self.mtu.wanted;
        for place in 0..self.table.peers.len() {
            let peer = &mut self.table.peers[place];
            let Some((at, (here, path))) = peer.at.and_then(|at| Some((at, host::way_to(at)?))) else { continue };
            mtu = mtu.min(fits(path, at.ip().to_canonical()));
            if self.role == Role::Mobile && self.mtu.here.replace(here).is_some_and(|before| before != here) {
                peer.end.hand_off(now);
                self.news.tell(&event("moved", peer, None));
                self.send_short(place, Kind::Ping, now);
            }
        }
        if mtu != self.mtu.now {
            host::set_mtu(self.tun.name(), mtu)
                .map_err(|error| self.tun.gone(std::io::Error::other(error.to_string())))?;
            self.mtu.now = mtu;
            self.table.splits.iter().for_each(|split| split.set_mtu(mtu));
            self.news.tell(&json!({ "event": "mtu", "mtu": mtu }));
        }
        Ok(())
    }
}

/// Longest packet through the device if a line on the way to this address carries datagrams of so many bytes.
fn fits(path: u32, peer: IpAddr) -> u16 {
    let headers = match peer {
        IpAddr::V4(_) => 28,
        IpAddr::V6(_) => 48,
    };
    let around = headers + OVERHEAD + FRAME_HEADER_LEN + PACKET_HEADER_LEN + REPORT_ROOM;
    u16::try_from(path).unwrap_or(u16::MAX).saturating_sub(around as u16).max(MTU_MIN)
}
