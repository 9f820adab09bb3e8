//! What a link below tells reaches the network: the daemons' connections neither take its outages for full queues nor wait when it is back.

use std::io;
use tracing::info;
use wayfs_control::LinkNotice as Told;
use wayfs_control::link_signals::{LinkListener, LinkSource};
use wayfs_net::{Endpoint, LinkNotice};

/// Listens to links, and tells an endpoint, until the listener is dropped.
///
/// A hand-off leaves the addresses over the link as they are, so nothing is bound anew: what was under way may be lost, and
/// everybody asks at once.
///
/// # Errors
/// The system's, if there is no thread to be had.
pub fn heed_links(endpoint: Endpoint, source: LinkSource) -> io::Result<LinkListener> {
    LinkListener::start(source, move |told| {
        let (what, notices): (&str, &[LinkNotice]) = match told {
            Told::Down => ("down", &[LinkNotice::Down]),
            Told::Up => ("up", &[LinkNotice::Up]),
            Told::HandOff => ("handed off", &[LinkNotice::Down, LinkNotice::Up]),
        };
        info!("the link below is {what}");
        notices.iter().for_each(|notice| endpoint.note_link(*notice));
    })
}
