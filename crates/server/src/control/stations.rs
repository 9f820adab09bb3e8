//! Where servers are, set by hand.

use super::status;
use crate::shared::Shared;
use wayfs_control::report::StationsReport;
use wayfs_control::{ControlError, ErrorKind};
use wayfs_net::Address;

/// Sets where a server is reached, in all volumes that it serves. At a home this is told to all, in its list of servers.
pub(super) fn set_address(server: &Shared, wanted: &str, texts: &[String]) -> Result<StationsReport, ControlError> {
    let addresses = parse(texts)?;
    let mut nodes = Vec::new();
    for served in server.all() {
        let directory = served.volume.directory();
        let known = directory.list().into_iter().filter(|known| known.node != server.endpoint.id());
        for known in known.filter(|known| known.is_called(wanted)) {
            directory.set_by_hand(known.node, addresses.clone());
            served.volume.refresh_servers();
            nodes.push(known.node.to_string());
        }
        if let Some(link) = &served.link {
            link.look_again();
        }
    }
    if nodes.is_empty() {
        return Err(ControlError::new(
            ErrorKind::NotFound,
            format!("no other server `{wanted}` is known here"),
            "`wayfs station list` shows those that are.",
        ));
    }
    let mut stations = status::all_stations(server);
    stations.retain(|station| nodes.contains(&station.node));
    Ok(StationsReport { stations })
}

fn parse(texts: &[String]) -> Result<Vec<Address>, ControlError> {
    let parsed: Result<Vec<Address>, _> = texts.iter().map(|text| text.parse::<Address>()).collect();
    let parsed = parsed.map_err(|error| error.to_string()).and_then(|addresses| {
        let fit = addresses.iter().all(Address::is_dialable) && addresses.len() <= wayfs_node::ADDRESSES_MAX;
        if fit {
            Ok(addresses)
        } else {
            Err("these are too many addresses, or one stands for no single machine".into())
        }
    });
    parsed.map_err(|message| {
        ControlError::new(ErrorKind::Usage, message, "Give HOST:PORT, as in home.example.org:7475, or `auto`.")
    })
}
