//! Who has a key of its own making, and no ticket.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::Bytes;
use std::fs;
use wayfs_hostile_tests::{PATIENCE, Peer};
use wayfs_net::Ticket;
use wayfs_system_tests::{World, eventually};

/// Strangers that hold connections and say nothing.
///
/// Before: 4,097 of them shut the door: a member was told that the server accepts no new connection.
/// After: they have 8 places of one network, and the oldest gives up its own to whoever comes.
#[test]
fn connections_that_say_nothing_keep_no_member_out() {
    let world = World::default();
    let ticket: Ticket = world.server.ticket(&world.home, "work").parse().unwrap();
    let strangers: Vec<Peer> = (0..40).map(|_| Peer::new()).collect();
    let held: Vec<_> = strangers.iter().map(|stranger| stranger.dial(&ticket)).collect();
    let (_machine, other) = world.other("late");
    fs::write(other.path("late"), "in").unwrap();
    assert_eq!(fs::read(other.path("late")).unwrap(), b"in");
    let is_open = |connection: &&wayfs_net::Connection| connection.close_reason().is_none();
    eventually("all but the last of them are let go", PATIENCE, || held.iter().filter(is_open).count() <= 8);
}

/// A stranger that says a long first word, or a wrong one.
///
/// Before: 16 MiB of headers and 57 MiB of windows were kept for each, for ten seconds.
/// After: 64 KiB; what is longer, or no greeting, ends the connection.
#[test]
fn a_long_or_senseless_greeting_ends_the_connection() {
    let world = World::default();
    let ticket: Ticket = world.server.ticket(&world.home, "work").parse().unwrap();
    for greeting in [vec![b' '; 65 << 10], b"{\"Attach\":{}}".to_vec(), vec![0xff; 4000]] {
        let stranger = Peer::new();
        let connection = stranger.dial(&ticket);
        let (sender, _receiver) = connection.control().unwrap();
        // It may be closed before all of it is sent.
        let _ = stranger.run(sender.send(Bytes::from(greeting)));
        stranger.run(connection.closed());
    }
    fs::write(world.mount.path("works"), "still").unwrap();
    world.mount.sync(&world.client, "visible");
}

/// A stranger that asks for what only members get.
///
/// Before and after: refused by its key; the same answer whether it names a member's number or not.
#[test]
fn a_stranger_is_no_member_by_saying_so() {
    let world = World::default();
    let ticket = world.server.ticket(&world.home, "work");
    let (member, stranger) = (Peer::new(), Peer::new());
    let member = member.join(&ticket, wayfs_hostile_tests::As::Client, "ann@real");
    let refused = stranger.attach(&member).err().expect("it is refused");
    assert_eq!(refused, serde_json::json!({ "Refused": "NotAdmitted" }));
}
