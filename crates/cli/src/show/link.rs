//! The state of a link, for people.

use super::quantity;
use super::table::{clean, table};
use wayfs_hoplink::{LinkReport, PeerReport};

/// A head and a row per other end.
pub(crate) fn link(report: &LinkReport) -> String {
    let mut text =
        format!("{} ({}), MTU {}, at {}\n", clean(&report.tun), clean(&report.role), report.mtu, clean(&report.listen));
    if report.peers.is_empty() {
        text.push_str("  nobody has come yet\n");
    } else {
        let head = [
            "ADDRESS", "AT", "SCHEME", "CHANNEL", "RATE", "QUEUE", "SENT", "LOST", "HIDDEN", "AGAIN", "GIVEN UP",
            "DROPPED",
        ];
        text.push_str(&table(&head, &report.peers.iter().map(row).collect::<Vec<_>>()));
    }
    let bad = [
        (report.foreign, "of strangers"),
        (report.forged, "forged"),
        (report.replayed, "replayed"),
        (report.senseless, "senseless"),
    ];
    let bad: Vec<String> =
        bad.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !bad.is_empty() {
        text.push_str(&format!("  datagrams not taken: {}\n", bad.join(", ")));
    }
    text
}

fn row(peer: &PeerReport) -> Vec<String> {
    let rate = if peer.rate == 0 { "?".to_owned() } else { quantity::bit_rate(peer.rate.saturating_mul(8)) };
    vec![
        clean(peer.addresses.first().map_or("", String::as_str)),
        clean(&peer.at),
        clean(&peer.scheme),
        clean(&peer.channel),
        rate,
        quantity::bytes(peer.queue_bytes),
        peer.sent.to_string(),
        peer.lost.to_string(),
        peer.hidden.to_string(),
        peer.retransmitted.to_string(),
        peer.given_up.to_string(),
        (peer.dropped + peer.spoofed).to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_has_a_row_and_what_was_not_taken_is_told() {
        let peer = PeerReport {
            addresses: vec!["10.77.0.2".into()],
            channel: "good".into(),
            lost: 7,
            ..PeerReport::default()
        };
        let report = LinkReport { tun: "t\u{1b}".into(), forged: 3, peers: vec![peer], ..LinkReport::default() };
        let text = link(&report);
        assert!(text.contains("10.77.0.2") && text.contains("3 forged") && !text.contains('\u{1b}'), "{text}");
        assert!(link(&LinkReport::default()).contains("nobody"));
    }
}
