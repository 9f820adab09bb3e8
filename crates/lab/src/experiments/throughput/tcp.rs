//! What the kernel's TCP with BBR makes of a line.

use super::{PATIENCE, SOCKET_BUFFER, Transfer, Tried, WAYS, Way};
use crate::probe::{Bulk, bulk};
use crate::{LabError, Sites, station_of};

/// As often as said, between the station of the first site and the home.
pub(super) fn measure(sites: &Sites, len: u64, trials: usize) -> Result<Tried, LabError> {
    let station = station_of(0);
    for host in [&station, "home"] {
        sites.lab().sysctl(host, "net.ipv4.tcp_congestion_control", "bbr")?;
        for name in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
            sites.lab().sysctl(host, name, SOCKET_BUFFER)?;
        }
    }
    let mut tried = Tried { who: "TCP with BBR", ..Tried::default() };
    for _ in 0..trials {
        for way in WAYS {
            let (from, to) = match way {
                Way::Up => (station.as_str(), "home"),
                Way::Down => ("home", station.as_str()),
            };
            let notes = bulk(sites.lab(), from, to, Bulk { duration: PATIENCE, len_max: len })?;
            let end = notes.last().filter(|end| end.len == len);
            let end = end.ok_or_else(|| LabError::Experiment(format!("TCP did not carry {len} bytes")))?;
            let took = end.at;
            let notes = notes.iter().map(|note| (note.at, note.len)).collect();
            tried.ways[way.index()].push(Transfer { took, len, notes });
        }
    }
    Ok(tried)
}
