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
    for peer in report.peers.iter().filter(|peer| matches!(peer.scheme.as_str(), "split" | "split-sack")) {
        text.push_str(&joined(report, peer));
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

/// What the base owes; a mobile does not know it.
fn joined(report: &LinkReport, peer: &PeerReport) -> String {
    if report.role != "base" {
        return "  connections end at the base, which is asked for what it owes\n".to_owned();
    }
    let mut text = format!(
        "  {}: {} connections joined; owed to the mobile {}, to the wire {}\n",
        clean(peer.addresses.first().map_or("", String::as_str)),
        peer.connections,
        quantity::bytes(peer.owed_to_mobile),
        quantity::bytes(peer.owed_to_wire),
    );
    if peer.turned_away > 0 {
        text.push_str(&format!("  {} openings of all mobiles found no place\n", peer.turned_away));
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

    #[test]
    fn what_a_base_owes_is_told() {
        let peer = PeerReport {
            scheme: "split".into(),
            connections: 3,
            owed_to_wire: 2048,
            turned_away: 4,
            ..PeerReport::default()
        };
        let base = LinkReport { role: "base".into(), peers: vec![peer.clone()], ..LinkReport::default() };
        let text = link(&base);
        assert!(
            text.contains("3 connections joined") && text.contains("2.0 KiB") && text.contains("4 openings"),
            "{text}"
        );
        assert!(link(&LinkReport { role: "mobile".into(), ..base.clone() }).contains("asked"));
        let other = PeerReport { scheme: "ours".into(), ..peer };
        assert!(!link(&LinkReport { peers: vec![other], ..base }).contains("joined"));
    }
}
